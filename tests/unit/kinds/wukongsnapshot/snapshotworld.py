"""A Wukong's world with a second operator, for its snapshots."""

import asyncio
from collections.abc import Awaitable, Callable

from corral.kinds.wukongsnapshot.controller import controller
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec, WukongSnapshotStatus
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.transport import Transport
from corral.testing.kubevirt_standin.subresources import StandInApi
from corral.testing.operators import Operator, converged
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_wukong


class SnapshotWorld(World):
    async def open(self, spec: str = LARGE) -> None:
        await self.make(a_wukong(spec))
        self.snapshots = Operator(self.server, controller, name="snapshots", through=self.with_virt_api)
        self.snapshots.start()

    def with_virt_api(self, way: Transport) -> Transport:
        self.virt_api = StandInApi(way, self.standin)
        return self.virt_api

    async def take(self, name: str = "friday", disks: tuple[str, ...] = ()) -> None:
        await self.ask(name, disks)
        await self.rest()

    async def ask(self, name: str = "friday", disks: tuple[str, ...] = ()) -> None:
        metadata = ObjectMeta(name=name, namespace=NAMESPACE)
        asked = WukongSnapshot(metadata=metadata, spec=WukongSnapshotSpec(wukong_name="vm", disks=disks))
        await self.client.create(asked, field_manager="person")

    async def rest(self) -> None:
        await converged(self.server, controller, within_s=300, quiet_s=11.0)

    def out_of_service(self, *kinds: type[Object]) -> None:
        """As when their definitions are replaced: what is of them is not seen, and there again when they are back."""
        for kind in kinds:
            self.server.kinds.remove(self.server.served(kind))
            self.server.remove(CustomResourceDefinition, kind.resource.plural_and_group)
        self.server.drop_watches()

    async def status(self, name: str = "friday") -> WukongSnapshotStatus:
        return (await self.client.get(WukongSnapshot, name, NAMESPACE)).status

    async def ends_with_a_death(self, operator: Operator, write: int, chapter: Callable[[], Awaitable[None]]) -> bool:
        """One of the operators dies after its `write`-th write of a chapter, and another goes on; then all is over.

        Whether it came to that write.
        """
        keeper = asyncio.create_task(operator.keep_running())
        operator.connection.crash_after_writes(write)
        await chapter()
        keeper.cancel()
        self.standin_rests()
        await self.operator.crash()
        await self.snapshots.crash()
        return any("CRASH" in line for line in self.server.trace)

    async def told(self, kind: str) -> tuple[str, str]:
        found = next(c for c in (await self.status()).conditions if c.type == kind)
        return found.status, found.reason
