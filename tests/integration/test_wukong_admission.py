"""What a Wukong's own definition refuses, on a real API server, beyond what `test_wukong` shows."""

from typing import Any

import pytest

from corral.kinds.wukong.spec import Wukong
from corral.kube import Client
from corral.kube.crd import crd_of, to_yaml
from corral.kube.errors import KubeError
from corral.kube.meta import Object
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

DISKS: dict[str, Any] = {"disks": [{"name": "root", "size": "1Gi"}]}
BASE: dict[str, Any] = DISKS | {"cpu": 1, "memory": "1Gi"}
HTTP = {"url": "https://images.test/a", "checksum": "sha256:00"}


@pytest.fixture(scope="module", autouse=True)
def _definition(corral_cluster: Cluster) -> None:
    corral_cluster.define(to_yaml(crd_of(Wukong)))


def a_manifest(spec: dict[str, Any]) -> Object:
    metadata = {"name": "it", "namespace": "default"}
    content = {"apiVersion": Wukong.resource.api_version, "kind": "Wukong", "metadata": metadata, "spec": spec}
    return Wukong.resource.untyped()(content=content)


def filled(source: dict[str, Any]) -> dict[str, Any]:
    return BASE | {"disks": [{"name": "root", "size": "1Gi", "source": source}]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (BASE | {"cpuOptions": {"numa": True}}, "numa needs hugepages"),
        (BASE | {"cpuOptions": {"isolateEmulatorThread": True}}, "isolateEmulatorThread needs dedicated"),
        (
            BASE | {"cloudInitUser": {"name": "ada"}, "cloudInit": {"userDataSecret": "mine"}},
            "user data of your own has its users in it",
        ),
        (BASE | {"firmware": {"persistent": True}}, "persistent is for uefi variables and the TPM"),
        (filled({"gcs": {"url": "s3://bucket/a"}}), "url begins with gs:// or https://"),
        (
            DISKS | {"instancetype": {"name": "u1.small"}, "liveResize": {"maxCpu": 4}},
            "an instancetype says both itself",
        ),
        (
            BASE | {"hugepages": "2Mi", "cpuOptions": {"numa": True}, "liveResize": {"maxMemory": "2Gi"}},
            "leave maxMemory or numa out",
        ),
    ],
    ids=[
        "numa without hugepages",
        "isolated emulator without dedicated",
        "user beside user data",
        "persistent without uefi and TPM",
        "gcs",
        "liveResize of an instancetype",
        "plugged memory with numa",
    ],
)
async def test_what_would_fail_later_or_do_nothing_is_refused_with_the_reason(
    client: Client, spec: dict[str, Any], told: str
) -> None:
    with pytest.raises(KubeError) as caught:
        await client.create(a_manifest(spec), field_manager="person", dry_run=True)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        DISKS | {"instancetype": {"name": "u1.small"}},
        BASE | {"osImage": "images.test/debian:13"},
        BASE | {"osImage": "https://images.test/debian.qcow2"},
        filled({"http": HTTP}),
        filled({"gcs": {"url": "gs://bucket/a"}}),
        BASE | {"hugepages": "2Mi", "cpuOptions": {"numa": True, "dedicated": True, "isolateEmulatorThread": True}},
        BASE | {"firmware": {"persistent": True, "tpm": True}},
        BASE | {"cloudInit": {"userDataSecret": "mine"}},
        BASE | {"cloudInit": {"hostname": "web-1"}},
        BASE | {"cloudInit": {}},
    ],
)
async def test_what_works_is_taken(client: Client, spec: dict[str, Any]) -> None:
    await client.create(a_manifest(spec), field_manager="person", dry_run=True)
