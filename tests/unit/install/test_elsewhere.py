"""Into somebody's cluster and out of it again: what fits there, what is theirs, and what stays."""

import io
from collections.abc import Iterable, Mapping
from functools import cache
from random import Random
from typing import Any

import pytest

from corral.install import removal
from corral.install.manifests import Document, as_object, read_deploy, read_quickstart
from corral.install.operator import MANAGER
from corral.install.policies import BINDING, POLICY
from corral.install.rbac import NAMESPACE
from corral.install.storage import DEFAULT_CLASS, is_for_many
from corral.install.up import fitted
from corral.kinds.registry import KINDS
from corral.kube.client import Client
from corral.kube.errors import NotFound
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Namespace
from corral.kube.models.storage_v1 import StorageClass
from corral.local.errors import LocalError
from corral.local.progress import Progress
from corral.testing.apiserver import FakeApiServer

pytestmark = pytest.mark.looptime(noop_cycles=0)

LAB = "lab"


def a_class(provisioner: str, *, default: bool = True) -> StorageClass:
    annotations = {DEFAULT_CLASS: "true"} if default else {}
    return StorageClass(metadata=ObjectMeta(name="standard", annotations=annotations), provisioner=provisioner)


def has_home(documents: Iterable[Document]) -> bool:
    return any("home" in document["spec"] for document in documents if document["kind"] == "Controller")


@pytest.mark.parametrize(
    ("provisioner", "expected"),
    [
        ("rancher.io/local-path", False),
        ("kubernetes.io/no-provisioner", False),
        ("ebs.csi.aws.com", False),
        ("pd.csi.storage.gke.io", False),
        ("disk.csi.azure.com", False),
        ("rook-ceph.rbd.csi.ceph.com", False),
        ("file.csi.azure.com", True),
        ("efs.csi.aws.com", True),
        ("rook-ceph.cephfs.csi.ceph.com", True),
        ("corral.dev/shared-directory", True),
        ("k8s.io/minikube-hostpath", None),
    ],
)
def test_provisioners_in_wide_use_are_known(provisioner: str, expected: bool | None) -> None:
    assert is_for_many(a_class(provisioner)) is expected


@pytest.mark.parametrize(("provisioner", "shared"), [("rancher.io/local-path", False), ("unheard.of/it", True)])
def test_only_where_volumes_are_known_to_be_for_one_node_the_example_goes_without_home(
    provisioner: str, shared: bool
) -> None:
    found = fitted(read_quickstart(), (a_class(provisioner),), (), LAB)
    assert has_home(found.documents) is shared
    assert ("no shared /home" in found.left_out) is not shared


def test_without_a_default_class_nothing_is_begun() -> None:
    with pytest.raises(LocalError, match="no default StorageClass"):
        fitted(read_quickstart(), (a_class("nfs", default=False),), (), LAB)


def test_what_somebody_else_made_is_not_overwritten() -> None:
    with pytest.raises(LocalError, match="namespace lab has Controller demo, not applied by `corral up`"):
        fitted(read_quickstart(), (a_class("nfs"),), ("Controller demo",), LAB)


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer(namespaces=(LAB, "default"))
    for entry in KINDS:
        server.register(entry.kind)
    for resource in (POLICY, BINDING):
        server.register(resource)
    return server


def client_of(server: FakeApiServer) -> Client:
    return Client(server.connect("person"), luck=Random(1).random)


async def applied(client: Client, documents: Iterable[Document], namespace: str, manager: str = MANAGER) -> None:
    for document in documents:
        await client.apply(as_object(document, namespace), field_manager=manager, force=True)


async def removed(client: Client) -> Mapping[str, str]:
    """What each step said at its end."""
    with Progress(("example", "operator"), stream=io.StringIO(), environment={"CI": "1"}) as progress:
        with progress.step("example") as step:
            await removal.remove_example(client, read_quickstart(), LAB, step)
        with progress.step("operator") as step:
            await removal.remove_operator(client, operators(), step)
    return {row.title: row.note for row in progress.board.rows}


@cache
def operators() -> tuple[Document, ...]:
    """All but the definitions: the fake server has no kinds by them."""
    return tuple(document for document in read_deploy() if document["kind"] != "CustomResourceDefinition")


async def names(client: Client) -> list[str]:
    return [f"{obj.resource.kind} {obj.metadata.name}" for obj in await removal.still_used(client)]


async def test_everything_that_up_applied_goes_and_a_second_time_there_is_nothing_to_do(server: FakeApiServer) -> None:
    client = client_of(server)
    await applied(client, (*operators(), *read_quickstart()), LAB)
    assert await removed(client) == {
        "example": f"{len(read_quickstart())} objects",
        "operator": f"namespace {NAMESPACE}, {len(operators())} objects",
    }
    assert await names(client) == []
    with pytest.raises(NotFound):
        await client.get(Namespace, NAMESPACE)
    assert await removed(client) == {"example": "there was nothing to remove", "operator": "it was not installed"}


async def test_corral_stays_while_anybody_uses_it(server: FakeApiServer) -> None:
    client = client_of(server)
    theirs: dict[str, Any] = {**read_quickstart()[0], "metadata": {"name": "theirs"}}
    await applied(client, (*operators(), *read_quickstart()), LAB)
    await applied(client, (theirs,), "default", manager="kubectl")
    with pytest.raises(LocalError, match="Corral was not removed: that would delete Accounting default/theirs too"):
        await removed(client)
    assert await names(client) == ["Accounting theirs"]
    assert (await client.get(Namespace, NAMESPACE)).metadata.name == NAMESPACE


async def test_an_object_of_the_examples_name_that_up_never_applied_is_somebodys_own(server: FakeApiServer) -> None:
    client = client_of(server)
    await applied(client, read_quickstart()[:1], LAB, manager="kubectl")
    with pytest.raises(LocalError, match="Corral was not removed: that would delete Accounting lab/demo"):
        await removed(client)


async def test_an_installation_by_other_means_is_left_to_them(server: FakeApiServer) -> None:
    client = client_of(server)
    await applied(client, operators(), LAB, manager="argocd")
    with pytest.raises(LocalError, match="Deployment corral-system/corral was not applied by `corral up`"):
        await removed(client)
