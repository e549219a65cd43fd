"""A disk of another namespace, with the rights of deploy/ and a real authorizer."""

from collections.abc import Iterator

import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.spec import Wukong
from corral.kube.selection import Precondition
from corral.testing.cluster import Cluster
from tests.integration.test_rights import Restricted, restricted, rights
from tests.integration.wukonglife import apply, definitions, is_gone, playing, ready_reason, until

__all__ = ["restricted"]  # the fixture
pytestmark = pytest.mark.cluster

SPEC = """
cpu: {cpu}
memory: 1Gi
disks: [{{name: root, size: 1Gi, source: {{pvc: {{name: golden, namespace: {images}}}}}}}]
"""


@pytest.fixture
def _definitions(corral_cluster: Cluster) -> Iterator[None]:
    with definitions(corral_cluster):
        yield


@pytest.fixture
def images(corral_cluster: Cluster, corral_namespace: str) -> Iterator[str]:
    name = f"images-{corral_namespace[-6:]}"
    corral_cluster.kubectl("create", "namespace", name)
    yield name
    corral_cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.usefixtures("_definitions")
async def test_it_is_copied_only_when_a_role_of_that_namespace_allows_it(
    corral_cluster: Cluster, restricted: Restricted, corral_namespace: str, images: str
) -> None:
    ns = corral_namespace
    restricted.grant(rights())
    async with corral_cluster.client() as client, playing(client, ns):
        with restricted.operator():
            await apply(client, ns, SPEC.format(cpu=1, images=images))
            await until(lambda: ready_reason(client, ns, "CloneForbidden"))
            assert await is_gone(client, DataVolume, "vm-root", ns) is True

            there = f"--namespace={images}"
            allowed = "--resource=datavolumes.cdi.kubevirt.io/source"
            corral_cluster.kubectl("create", "role", "copied", "--verb=create", allowed, there)
            account = f"--serviceaccount={ns}:default"
            corral_cluster.kubectl("create", "rolebinding", "copied", "--role=copied", account, there)
            await until(lambda: may_copy(corral_cluster, ns, images))
            # Rights are looked at again every five minutes; a change of the spec is looked at now.
            await apply(client, ns, SPEC.format(cpu=2, images=images))

            async def is_copied() -> object:
                volume = await client.get(DataVolume, "vm-root", ns)
                source = volume.spec.source.pvc if volume.spec.source else None
                return (source.namespace, source.name) == (images, "golden") if source else volume

            await until(is_copied)
            await client.delete(Wukong, "vm", ns, precondition=Precondition())
            await until(lambda: is_gone(client, Wukong, "vm", ns))
            assert restricted.refused() == 0, restricted.log.read_text()[-4000:]


async def may_copy(cluster: Cluster, namespace: str, images: str) -> object:
    question = ("create", "datavolumes.cdi.kubevirt.io", "--subresource=source", f"--namespace={images}")
    answer = cluster.try_kubectl("auth", "can-i", *question, f"--as=system:serviceaccount:{namespace}:default")
    return answer.stdout.strip() == "yes" or answer.stderr
