"""Disks that are copied from another namespace, in virtual time: only where that namespace allows it."""

import asyncio
from typing import Any

import msgspec
import pytest

from corral.engine.controller import AnyController
from corral.engine.failures import STALLED_RETRY_S
from corral.kinds.wukong.api.cdi import DataSource, DataVolume, Elsewhere
from corral.kinds.wukong.clones import forbidden_text
from corral.kinds.wukong.controller import controller
from tests.unit.kinds.wukong.world import NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)

SPEC = "{{cpu: 1, memory: 1Gi, disks: [{{name: root, size: 1Gi, source: {source}}}, {{name: data, size: 1Gi}}]}}"


class CloneWorld(World):
    """With namespaces that say whether their disks may be copied."""

    def __init__(self) -> None:
        self.allows: set[str] = set()
        self.asked: list[Elsewhere] = []
        super().__init__()
        self.serve(DataSource)
        for name in ("images", "published"):
            self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def build(self) -> AnyController:  # type: ignore[override]
        return controller(self)

    async def why_not(self, source: Elsewhere, namespace: str) -> str:
        self.asked.append(source)
        return "" if source.namespace in self.allows else forbidden_text(source, namespace)

    async def source_of_root(self) -> dict[str, Any]:
        volume = await self.client.get(DataVolume, "vm-root", NAMESPACE)
        assert volume.spec.source_ref is None
        return {k: v for k, v in msgspec.to_builtins(volume.spec.source).items() if v is not None}

    def publish(self, name: str, namespace: str, source: dict[str, Any]) -> None:
        resource = DataSource.resource
        self.server.add(
            {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"source": source},
            }
        )


@pytest.mark.parametrize("kind", ["pvc", "snapshot"])
async def test_a_disk_of_another_namespace_waits_until_that_namespace_allows_it(kind: str) -> None:
    world = CloneWorld()
    await world.begin(a_wukong(SPEC.format(source=f"{{{kind}: {{name: golden, namespace: images}}}}")))
    await asyncio.sleep(60)

    assert await world.condition("Ready") == ("False", "CloneForbidden")
    assert await world.condition("Stalled") == ("True", "CloneForbidden")
    assert world.names(DataVolume) == []
    assert [volume.name for volume in (await world.wukong()).status.volumes if volume.pvc_name] == ["data"]
    (told,) = world.events("CloneForbidden")
    assert "ServiceAccount lab/default may not copy golden of namespace images" in told

    world.allows.add("images")
    await asyncio.sleep(STALLED_RETRY_S)
    await world.settled()
    assert await world.source_of_root() == {kind: {"name": "golden", "namespace": "images"}}
    assert (await world.wukong()).status.phase == "Running"


async def test_a_disk_of_its_own_namespace_needs_nobodys_leave() -> None:
    world = CloneWorld()
    await world.make(a_wukong(SPEC.format(source="{pvc: {name: golden}}")))

    assert await world.source_of_root() == {"pvc": {"name": "golden", "namespace": NAMESPACE}}
    assert world.asked == []


async def test_a_data_source_of_ones_own_is_no_way_to_the_disks_of_others() -> None:
    world = CloneWorld()
    world.publish("mine", NAMESPACE, {"pvc": {"name": "secrets", "namespace": "victim"}})
    await world.begin(a_wukong(SPEC.format(source="{dataSource: {name: mine}}")))
    await asyncio.sleep(60)

    assert await world.condition("Ready") == ("False", "CloneForbidden")
    assert world.names(DataVolume) == []


async def test_a_data_source_is_followed_and_what_was_asked_about_is_what_is_copied() -> None:
    world = CloneWorld()
    world.allows.add("images")
    world.publish("debian", "published", {"dataSource": {"name": "debian-13", "namespace": "images"}})
    world.publish("debian-13", "images", {"snapshot": {"name": "of-monday", "namespace": "images"}})
    await world.make(a_wukong(SPEC.format(source="{dataSource: {name: debian, namespace: published}}")))

    assert await world.source_of_root() == {"snapshot": {"name": "of-monday", "namespace": "images"}}
    assert set(world.asked) == {Elsewhere(name="of-monday", namespace="images")}


async def test_a_data_source_that_stands_for_nothing_yet_is_waited_for() -> None:
    world = CloneWorld()
    world.allows.add("images")
    await world.begin(a_wukong(SPEC.format(source="{dataSource: {name: debian, namespace: images}}")))
    await asyncio.sleep(60)
    assert await world.condition("Ready") == ("False", "DataSourceMissing")

    world.publish("debian", "images", {"pvc": {"name": "debian", "namespace": "images"}})
    await world.settled()
    assert await world.source_of_root() == {"pvc": {"name": "debian", "namespace": "images"}}
