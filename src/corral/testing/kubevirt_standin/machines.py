"""KubeVirt's part: machines have instances, instances go through their phases, move between nodes, and end."""

from collections.abc import Mapping
from typing import Any

import msgspec

from corral.engine import controller_reference
from corral.kinds.wukong.api.kubevirt import (
    HOSTNAME_LABEL,
    InstanceSpec,
    Interface,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from corral.kinds.wukong.machine import backing_name
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import PersistentVolumeClaim
from corral.testing.guests.launcher import NotPlayed
from corral.testing.guests.pods import Guest, Guests
from corral.testing.kubevirt_standin.access import Access, made_at
from corral.testing.kubevirt_standin.plugging import as_patch, needs_restart, plugged, type_marks

FINALIZER = "kubevirt.io/virtualMachineControllerFinalize"
NODES = ("node-a", "node-b")
NEXT_PHASE = {"": "Pending", "Pending": "Scheduling", "Scheduling": "Scheduled", "Scheduled": "Running"}
STARTS_BY_ITSELF = frozenset({"Always", "RerunOnFailure", "Once"})
OVER = frozenset({"Succeeded", "Failed"})  # phases of an instance whose guest has ended
STAYS = "guests of the stand-in stay where they are"

Where = tuple[str, str]


class Machines:
    def __init__(self, access: Access, guests: Guests | None = None) -> None:
        self._access = access
        self._guests = guests
        self.unschedulable: set[str] = set()
        self.paused: set[str] = set()
        self.started: set[str] = set()  # of the run strategy Manual
        self.ending: dict[str, str] = {}  # machine -> how its guest ends at the next look: Succeeded or Failed
        self.agentless: set[str] = set()
        self.file_systems: dict[str, list[dict[str, Any]]] = {}  # of guests, as their agents list them
        self.immovable: dict[str, str] = {}  # machine -> why it cannot move while it runs
        self.failing_moves: dict[str, str] = {}  # machine -> why a migration of it fails
        self.soft_reboots: list[str] = []
        self.freezes: list[str] = []
        self.unplayed: dict[Where, str] = {}  # instances whose guest cannot be played -> why

    async def step(self, machines: tuple[VirtualMachine, ...]) -> frozenset[Where]:
        """The claims that machines wait for: what `WaitForFirstConsumer` waits for."""
        instances = {_where(i): i for i in await self._access.all(VirtualMachineInstance)}
        self.unplayed = {where: why for where, why in self.unplayed.items() if where in instances}
        bound = {_where(c) for c in await self._access.all(PersistentVolumeClaim) if c.status.phase == "Bound"}
        await self._access.each(machines, lambda m: self._machine(m, instances.get(_where(m)), bound))
        templates = {_where(machine): machine.spec.template.spec for machine in machines}
        await self._access.each(instances.values(), lambda i: self._instance(i, templates.get(_where(i))))
        for migration in await self._access.all(VirtualMachineInstanceMigration):
            await self._migration(migration, instances)
        return frozenset(claim for m in machines if self._is_meant_to_run(m) for claim in _claims(m))

    def _is_meant_to_run(self, machine: VirtualMachine) -> bool:
        if machine.metadata.deletion_timestamp is not None:
            return False
        strategy = machine.spec.run_strategy or ""
        return strategy in STARTS_BY_ITSELF or (strategy == "Manual" and machine.metadata.name in self.started)

    async def _machine(
        self, machine: VirtualMachine, instance: VirtualMachineInstance | None, bound: set[Where]
    ) -> None:
        finalizers = machine.metadata.finalizers
        if machine.metadata.deletion_timestamp is not None:
            await self._end(machine, instance)
            return
        if FINALIZER not in finalizers:
            await self._access.patch(machine, {"metadata": {"finalizers": [*finalizers, FINALIZER]}})
            return
        waits_for_volumes = not set(_claims(machine)) <= bound
        if self._is_meant_to_run(machine) and instance is None and not waits_for_volumes:
            await self._access.create(_instance_of(machine))
        elif instance is not None and self._is_to_go(machine, instance):
            await self._access.delete(instance)
        await self._tell(machine, self._status(machine, instance, waits_for_volumes=waits_for_volumes))

    def _is_to_go(self, machine: VirtualMachine, instance: VirtualMachineInstance) -> bool:
        """A guest that has ended stays to be looked at, unless its machine runs again, or is halted."""
        strategy = machine.spec.run_strategy or ""
        if instance.status.phase not in OVER or strategy == "Halted":
            return not self._is_meant_to_run(machine)
        failed_and_again = strategy == "RerunOnFailure" and instance.status.phase == "Failed"
        return strategy == "Always" or failed_and_again or machine.metadata.name in self.started

    async def _end(self, machine: VirtualMachine, instance: VirtualMachineInstance | None) -> None:
        if instance is not None:
            await self._access.delete(instance)
        else:
            left = [name for name in machine.metadata.finalizers if name != FINALIZER]
            await self._access.patch(machine, {"metadata": {"finalizers": left}})

    def _status(
        self, machine: VirtualMachine, instance: VirtualMachineInstance | None, *, waits_for_volumes: bool
    ) -> Mapping[str, Any]:
        printable = self._printable(machine, instance, waits_for_volumes=waits_for_volumes)
        ready = printable in ("Running", "Migrating")
        conditions = [_condition("Ready", ready, self.unplayed.get(_where(machine), ""))]
        if instance is not None and needs_restart(machine.spec, instance, plugs=self._guests is None):
            message = "a non-live-updatable field was changed in the template spec"
            conditions.append({**_condition("RestartRequired", True, message), "reason": "RestartRequired"})
        return {"printableStatus": printable, "ready": ready, "created": instance is not None, "conditions": conditions}

    def _printable(
        self, machine: VirtualMachine, instance: VirtualMachineInstance | None, *, waits_for_volumes: bool
    ) -> str:
        if instance is None:
            if not self._is_meant_to_run(machine):
                return "Stopped"
            return "WaitingForVolumeBinding" if waits_for_volumes else "Starting"
        if instance.status.phase in OVER:
            return "Stopped"
        if not self._is_meant_to_run(machine):
            return "Stopping"
        if machine.metadata.name in self.unschedulable:
            return "ErrorUnschedulable"
        if machine.metadata.name in self.paused:
            return "Paused"
        moving = instance.status.migration_state
        if moving is not None and not moving.completed:
            return "Migrating"
        return "Running" if instance.status.phase == "Running" else "Starting"

    async def _tell(self, machine: VirtualMachine, status: Mapping[str, Any]) -> None:
        before = msgspec.to_builtins(machine.status)
        same = all(before.get(name, _default(name)) == value for name, value in status.items() if name != "conditions")
        told = {c.type: c.message for c in machine.status.conditions}
        if not same or told != {entry["type"]: entry["message"] for entry in status["conditions"]}:
            await self._access.set_status(machine, status)

    async def _instance(self, instance: VirtualMachineInstance, template: InstanceSpec | None) -> None:
        if instance.metadata.deletion_timestamp is not None or instance.metadata.name in self.unschedulable:
            return
        phase, guest = instance.status.phase, await self._guest(instance)
        if phase in ("Scheduled", "Running") and guest.phase in OVER:
            await self._access.set_status(instance, {"phase": guest.phase}, subresource=False)
        elif phase in NEXT_PHASE and _can_advance(phase, guest):
            await self._advance(instance, NEXT_PHASE[phase], guest)
        elif phase == "Running" and instance.metadata.name in self.ending:
            self.started.discard(instance.metadata.name)
            await self._access.set_status(
                instance, {"phase": self.ending.pop(instance.metadata.name)}, subresource=False
            )
        elif phase == "Running":
            await self._follow(instance, template or instance.spec, guest)

    async def _guest(self, instance: VirtualMachineInstance) -> Guest:
        """What a pod says of it, which is made now if there is none. Where there are no guests, all is well."""
        if self._guests is None:
            return Guest(phase="Running", node=NODES[0])
        if instance.status.phase not in ("Scheduling", "Scheduled", "Running"):
            return Guest(phase="Pending")
        found = await self._guests.look(instance)
        if found is not None or instance.status.phase != "Scheduling":
            return found or Guest(phase="Failed")
        try:
            await self._guests.start(instance)
            self.unplayed.pop(_where(instance), None)
        except NotPlayed as why:
            self.unplayed[_where(instance)] = str(why)
        return Guest(phase="Pending")

    async def _advance(self, instance: VirtualMachineInstance, phase: str, guest: Guest) -> None:
        status: dict[str, Any] = {"phase": phase}
        if phase == "Scheduled":
            status["nodeName"] = guest.node  # its pod has one by then
        elif phase == "Running":
            status |= self._running(instance, instance.spec, guest)
            if not self.is_agentless(instance.metadata.name):
                status["guestOSInfo"] = {"prettyName": "Debian GNU/Linux 13 (trixie)"}
        await self._access.set_status(instance, status, subresource=False)

    def is_agentless(self, name: str) -> bool:
        return self._guests is not None or name in self.agentless

    async def _follow(self, instance: VirtualMachineInstance, template: InstanceSpec, guest: Guest) -> None:
        """What can be plugged is plugged, but into no real guest; what a person did to the guest is told."""
        wanted = plugged(template, instance.spec) if self._guests is None else instance.spec
        status = self._running(instance, wanted, guest)
        told = {c.type: (c.status, c.message) for c in instance.status.conditions}
        same = told == {c["type"]: (c["status"], c["message"]) for c in status["conditions"]}
        if wanted != instance.spec:
            await self._access.patch(instance, {**as_patch(wanted), "status": status})
        elif not same:
            await self._access.set_status(instance, status, subresource=False)

    def _running(self, instance: VirtualMachineInstance, spec: InstanceSpec, guest: Guest) -> Mapping[str, Any]:
        name = instance.metadata.name
        why = self.immovable.get(name, "") if self._guests is None else STAYS
        conditions = [_condition("Ready", name not in self.paused), _condition("LiveMigratable", not why, why)]
        if not self.is_agentless(name):
            conditions.append(_condition("AgentConnected", True))
        if name in self.paused:
            conditions.append(_condition("Paused", True, "VMI was paused by user"))
        return {
            "interfaces": [self._reported(i, n, guest) for n, i in enumerate(spec.domain.devices.interfaces)],
            "volumeStatus": [{"name": v.name, "target": f"vd{chr(97 + n)}"} for n, v in enumerate(spec.volumes)],
            "conditions": conditions,
        }

    def _reported(self, interface: Interface, number: int, guest: Guest) -> Mapping[str, Any]:
        """Without an agent KubeVirt knows only the address that it gave itself: that of the pod."""
        known = {"name": interface.name, "mac": interface.mac_address}
        if self._guests is not None:
            return {**known, "infoSource": "domain", **({"ipAddress": guest.address} if interface.masquerade else {})}
        told = {"ipAddress": f"10.0.{number}.5", "interfaceName": f"enp{number + 1}s0"}
        return {**known, **told, "infoSource": "domain, guest-agent"}

    async def _migration(
        self, migration: VirtualMachineInstanceMigration, instances: Mapping[Where, VirtualMachineInstance]
    ) -> None:
        instance = instances.get((migration.metadata.namespace, migration.spec.vmi_name or ""))
        phase = migration.status.phase
        if instance is None or phase in ("Succeeded", "Failed"):
            return
        where = migration.spec.added_node_selector
        here = instance.status.node_name
        why = self.failing_moves.get(instance.metadata.name, "") if self._guests is None else STAYS
        other = next((node for node in NODES if node != here and where.items() <= _labels(node).items()), None)
        if other is None:
            if phase != "Scheduling":
                await self._access.set_status(migration, {"phase": "Scheduling"})
        elif phase in ("", "Scheduling"):
            await self._access.set_status(migration, {"phase": "Running"})
            moving = {"completed": False, "failed": False, "failureReason": None, "endTimestamp": None}
            ways = {"sourceNode": here, "targetNode": other, "startTimestamp": made_at(migration)}
            await self._access.set_status(
                instance,
                {"migrationState": {**moving, **ways, "migrationUid": migration.metadata.uid}},
                subresource=False,
            )
        elif why:
            failed = {"completed": True, "failed": True, "failureReason": why}
            await self._access.set_status(instance, {"migrationState": failed}, subresource=False)
            await self._access.set_status(migration, {"phase": "Failed"})
        else:
            done = {"nodeName": other, "migrationState": {"completed": True}}
            await self._access.set_status(instance, done, subresource=False)
            await self._access.set_status(migration, {"phase": "Succeeded"})


def _can_advance(phase: str, guest: Guest) -> bool:
    match phase:
        case "Scheduling":
            return bool(guest.node)
        case "Scheduled":
            return guest.phase == "Running"
        case _:
            return True


def _labels(node: str) -> Mapping[str, str]:
    return {HOSTNAME_LABEL: node}


def _condition(name: str, holds: bool, message: str = "") -> Mapping[str, str]:
    return {"type": name, "status": str(holds), "reason": "", "message": message}


def _default(name: str) -> object:
    return {"printableStatus": "", "ready": False, "created": False}[name]


def _where(obj: VirtualMachine | VirtualMachineInstance | PersistentVolumeClaim) -> Where:
    return obj.metadata.namespace, obj.metadata.name


def _claims(machine: VirtualMachine) -> tuple[Where, ...]:
    volumes = machine.spec.template.spec.volumes
    return tuple((machine.metadata.namespace, name) for volume in volumes if (name := backing_name(volume)))


def _instance_of(machine: VirtualMachine) -> VirtualMachineInstance:
    return VirtualMachineInstance(
        metadata=ObjectMeta(
            name=machine.metadata.name,
            namespace=machine.metadata.namespace,
            labels=machine.spec.template.metadata.labels,
            annotations=type_marks(machine.spec),
            owner_references=(controller_reference(machine),),
        ),
        spec=machine.spec.template.spec,
    )
