"""The loop: look at everything, take each thing one step further, rest, look again."""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.meta import Object
from corral.testing.guests.pods import Guests
from corral.testing.kubevirt_standin.access import Access
from corral.testing.kubevirt_standin.machines import Machines
from corral.testing.kubevirt_standin.snapshots import Snapshots
from corral.testing.kubevirt_standin.volumes import Volumes
from corral.testing.kubevirt_standin.webhooks import refusals

log = structlog.get_logger(__name__)

IDLE_PACES = 5  # how much longer it rests when there was nothing to do


class KubeVirtStandIn:
    """For one namespace, or for all of them.

    `csi`: claims that wait for their consumer are told as CDI tells them for CSI (PendingPopulation).
    `real_binding`: the cluster binds claims to volumes itself; only the volumes are made here, if it `provisions`.
    `of_class`: of claims, only those of this storage class are taken care of. `guests`: machines run for real, and
    disks have contents. `access`: how it reads and writes, if not by lists. `tell`: who is told of `refused` and
    `troubles`, each once.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str = "",
        access: Access | None = None,
        pace_s: float = 1.0,
        real_binding: bool = False,
        provisions: bool = True,
        csi: bool = False,
        of_class: str = "",
        guests: Guests | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.access = access or Access(client, namespace)
        self.pace_s = pace_s
        self.volumes = Volumes(
            self.access,
            real_binding=real_binding,
            provisions=provisions,
            csi=csi,
            of_class=of_class,
            guests=guests,
        )
        self._tell = tell
        self.machines = Machines(self.access, guests)
        self.snapshots = Snapshots(self.access, self.volumes.being_restored, guests)
        self.refused: set[str] = set()
        self.troubles: list[str] = []  # what it could not do, in the order in which it was first seen
        self._admitted: set[tuple[str, int]] = set()
        self._consumed: frozenset[tuple[str, str]] = frozenset()  # claims that machines wait for

    async def run(self) -> None:
        """Until cancelled. What goes wrong in one look is tried again in the next, as controllers do.

        What is wrong here, not at the server, is also kept in `troubles`: whoever waits in vain can say why.
        """
        while True:
            before = self.access.writes
            try:
                await self.step()
            except KubeError:
                pass
            except Exception as error:
                log.exception("the stand-in could not go on")
                self._trouble(f"{type(error).__name__}: {error}")
            is_idle = self.access.writes == before
            await asyncio.sleep(self.pace_s * (IDLE_PACES if is_idle else 1))

    def _trouble(self, told: str) -> None:
        if told not in self.troubles:
            self.troubles.append(told)
            self._tell(told)

    async def step(self) -> None:
        await self.step_machines()
        await self.step_volumes()
        await self.snapshots.step()

    async def step_machines(self) -> None:
        machines = await self.access.all(VirtualMachine)
        self._admit(machines)
        self._consumed = await self.machines.step(machines)
        for (namespace, name), why in self.machines.unplayed.items():
            self._trouble(f"VirtualMachine {namespace}/{name} is not played: {why}")

    async def step_volumes(self) -> None:
        data_volumes = await self.access.all(DataVolume)
        self._admit(data_volumes)
        await self.volumes.step(data_volumes, self._consumed)

    def _admit(self, objects: Iterable[Object]) -> None:
        """Each once after it was written."""
        for obj in objects:
            written = (obj.metadata.uid, obj.metadata.generation)
            if written not in self._admitted:
                self._admitted.add(written)
                for told in set(refusals(obj)) - self.refused:
                    self.refused.add(told)
                    self._tell(f"KubeVirt or CDI would refuse {told}")
