"""KubeVirt's snapshot controller's part: snapshots come to be ready, restores complete."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.snapshots import VirtualMachineRestore, VirtualMachineSnapshot
from corral.kinds.wukong.machine import backing_name
from corral.testing.kubevirt_standin.access import Access

TAKEN_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Snapshots:
    def __init__(self, access: Access) -> None:
        self._access = access
        self.failing: dict[str, str] = {}  # VirtualMachineSnapshot -> why
        self.without_snapshots: set[str] = set()  # volumes whose storage cannot do it

    async def step(self) -> None:
        machines = {(m.metadata.namespace, m.metadata.name): m for m in await self._access.all(VirtualMachine)}
        running = {(i.metadata.namespace, i.metadata.name) for i in await self._access.all(VirtualMachineInstance)}
        for snapshot in await self._access.all(VirtualMachineSnapshot):
            where = (snapshot.metadata.namespace, snapshot.spec.source.name)
            await self._snapshot(snapshot, machines.get(where), is_running=where in running)
        for restore in await self._access.all(VirtualMachineRestore):
            where = (restore.metadata.namespace, restore.spec.target.name)
            if not restore.status.complete and where not in running:
                await self._access.set_status(restore, {"complete": True, "restoreTime": _text(TAKEN_AT)})

    async def _snapshot(
        self, snapshot: VirtualMachineSnapshot, machine: VirtualMachine | None, *, is_running: bool
    ) -> None:
        if snapshot.status.phase == "":
            await self._access.set_status(snapshot, {"phase": "InProgress", "readyToUse": False})
        elif snapshot.status.phase == "InProgress" and machine is not None:
            await self._access.set_status(snapshot, self._taken(snapshot, machine, is_running=is_running))

    def _taken(
        self, snapshot: VirtualMachineSnapshot, machine: VirtualMachine, *, is_running: bool
    ) -> Mapping[str, Any]:
        if why := self.failing.get(snapshot.metadata.name):
            return {"phase": "Failed", "readyToUse": False, "error": {"message": why, "time": _text(TAKEN_AT)}}
        volumes = [v.name for v in machine.spec.template.spec.volumes if backing_name(v)]
        left_out = [name for name in volumes if name in self.without_snapshots]
        return {
            "phase": "Succeeded",
            "readyToUse": True,
            "creationTime": _text(TAKEN_AT),
            "indications": ["Online", "GuestAgent"] if is_running else [],
            "snapshotVolumes": {
                "includedVolumes": [name for name in volumes if name not in left_out],
                "excludedVolumes": left_out,
            },
        }


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
