"""What to do for a Wukong. Pure: a snapshot in, a plan out.

    networks       an attachment of its own for each network that names none; an address for each that asks a pool
    guest          the Secret with cloud-init's data; a Service, if it asks for one
    disks          a DataVolume or a claim each; grown when asked; deleted when neither wanted nor used nor kept
    machine        the VirtualMachine, made when all of the above are there
    deletion       the machine, then its disks, then its networks, then the finalizer

The parts do not hold each other up: what can be made is made, and what is in the way is told for each.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from corral.engine import (
    NOTHING,
    Action,
    Apply,
    Create,
    EmitEvent,
    Once,
    Plan,
    Wait,
    children,
    is_controlled_by,
    target,
)
from corral.engine.actions import EventType
from corral.kinds.wukong.addresses import Pending, addresses, as_told
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine, condition_of
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.attachments import networks
from corral.kinds.wukong.cloudinit import Unfit, cloud_init_secret
from corral.kinds.wukong.diskplan import disks, leftovers, not_restored
from corral.kinds.wukong.exposure import network_policy_of, service_of
from corral.kinds.wukong.facts import (
    BY_PRINTABLE_STATUS,
    PROJECTS,
    UNTOLD_PHASES,
    Snapshot,
    failed_disks,
    failed_move,
    missing_networks,
    needed_kinds,
    phase_of,
    stuck_in,
    unended_move,
)
from corral.kinds.wukong.farewell import farewell
from corral.kinds.wukong.machine import BadSpec, backing_name, run_strategy, virtual_machine
from corral.kinds.wukong.restore import Stage, machine_restore
from corral.kinds.wukong.schedule import scheduled
from corral.kube.meta import Object
from corral.kube.models.core_v1 import PersistentVolumeClaim, Secret, Service

MOVE_TAKES_LONG_S = 15 * 60.0  # KubeVirt has a limit of its own, if anybody is there to keep it


def plan(snapshot: Snapshot) -> Plan:
    wukong = snapshot.object
    if wukong.metadata.deletion_timestamp is not None:
        return farewell(snapshot)  # also of a suspended one: whoever deletes it wants it to end
    if wukong.spec.suspend:
        return NOTHING
    # What the machine waits for comes first: one reason while it starts, whatever its disks go through meanwhile.
    whole = _absent(snapshot) + _not_yet(snapshot) + networks(snapshot) + addresses(snapshot) + _guest(snapshot)
    whole += _restored(snapshot) + _exposed(snapshot)
    if snapshot.restoring.stage is not Stage.UNDER_WAY:
        whole += disks(snapshot) + _machine(snapshot) + leftovers(snapshot)
    whole += _scheduled(snapshot)
    whole += _told(snapshot, whole)
    return _apart(whole, _in_order(snapshot, whole.actions))


def _apart(whole: Plan, actions: Iterable[Action]) -> Plan:
    """What is refused of one object keeps nothing back of the others: none of these actions needs another one."""
    begun = Plan(waits=whole.waits, again_after_s=whole.again_after_s)
    return reduce(or_, (Plan(actions=(action,)) for action in actions), begun)


def _in_order(snapshot: Snapshot, actions: Iterable[Action]) -> list[Action]:
    """What takes long comes first, and what is told before what may go wrong.

    A webhook that does not answer ends a pass for all of it, so a disk that could not be made last time comes last,
    and the machine, which has most of them, behind what it needs.
    """
    refused = {disk.name for disk in snapshot.disks if disk.config.name in _refused(snapshot)}

    def place(action: Action) -> int:
        made = action.object if isinstance(action, Create | Apply) else None
        match made:
            case DataVolume() | PersistentVolumeClaim():
                return 6 if made.metadata.name in refused else 1
            case Secret():
                return 1
            case NetworkAttachmentDefinition():
                return 2
            case VirtualMachine():
                return 4
            case Service():
                return 5
        return 0 if isinstance(action, EmitEvent) else 3

    return sorted(actions, key=place)


def _refused(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(volume.name for volume in snapshot.object.status.volumes if volume.error)


def _absent(snapshot: Snapshot) -> Plan:
    """A kind that the cluster lacks is waited for; its definition brings us back."""
    lacking = [k for k in needed_kinds(snapshot.object, snapshot.disks) if k in snapshot.absent]
    return Plan(waits=tuple(_lacks(kind) for kind in lacking))


def _lacks(kind: type[Object]) -> Wait:
    project, name = PROJECTS[kind], kind.resource.plural_and_group
    message = f"this cluster does not serve {name}: install {project}; Corral continues by itself after that"
    return Wait(reason=f"{project}Missing", message=message, stalled=True)


def _guest(snapshot: Snapshot) -> Plan:
    wukong = snapshot.object
    try:
        desired = cloud_init_secret(as_told(snapshot), {secret.metadata.name: secret for secret in snapshot.secrets})
    except Pending:
        return NOTHING  # told by `addresses`
    except Unfit as unfit:
        return Plan(waits=(Wait(reason=unfit.reason, message=unfit.message, stalled=unfit.reason == "SecretUnfit"),))
    return children(wukong, [desired], [snapshot.cloud_init] if snapshot.cloud_init else [])


def _exposed(snapshot: Snapshot) -> Plan:
    wukong = snapshot.object
    service, policy = service_of(wukong), network_policy_of(wukong)
    guarded = children(wukong, [policy] if policy else [], snapshot.network_policies)
    return guarded + children(wukong, [service] if service else [], snapshot.services)


def _restored(snapshot: Snapshot) -> Plan:
    """Disks brought back from a snapshot; a restore that is no longer asked for is forgotten."""
    now, wukong = snapshot.restoring, snapshot.object
    stalled = now.stage is Stage.IMPOSSIBLE or now.reason == "RestoreFailed"
    waits = (Wait(reason=now.reason, message=now.message, stalled=stalled),) if now.reason else ()
    begun = snapshot.restore is not None or now.stage is Stage.UNDER_WAY
    desired = [Once(machine_restore(wukong, wukong.spec.restore_from_snapshot))] if begun else []
    told = not_restored(snapshot, snapshot.left_out) if begun and snapshot.restore is None else NOTHING
    return told + children(wukong, desired, snapshot.restores) + Plan(waits=waits)


def _scheduled(snapshot: Snapshot) -> Plan:
    # Of disks that are being set back a snapshot would have one half as they were and the other as they will be.
    can_begin = snapshot.own_machine is not None and not snapshot.restoring.is_in_place
    held = snapshot.named_snapshots
    return scheduled(snapshot.object, snapshot.scheduled, snapshot.now, can_begin=can_begin, held=held)


def _machine(snapshot: Snapshot) -> Plan:
    """Made when everything is there. One that exists is changed at once, and gets a new disk when that is ready."""
    wukong, present = snapshot.object, snapshot.machine
    if VirtualMachine in snapshot.absent:
        return NOTHING
    if present is None and not _is_prepared(snapshot):
        return NOTHING
    had = {backing_name(volume) for volume in present.spec.template.spec.volumes} if present else set()
    disks = [disk for disk in snapshot.disks if disk.is_usable or disk.name in had]
    try:
        halted = snapshot.restoring.stage in (Stage.HALTING, Stage.REPLACING)
        desired = virtual_machine(wukong, disks, present, snapshot.instance, halted=halted)
    except BadSpec as error:
        return Plan(waits=(Wait(reason="BadSpec", message=str(error), stalled=True),))
    return children(wukong, [desired], [present] if present else [])


def later(snapshot: Snapshot) -> Plan:
    """The machine, which is made when its networks and disks are there."""
    try:
        return children(snapshot.object, [virtual_machine(snapshot.object, snapshot.disks, None, None)], [])
    except BadSpec:
        return NOTHING


def _is_prepared(snapshot: Snapshot) -> bool:
    """Everything that the guest meets when it starts is there, and is ours: no one else's user data or network."""
    wukong = snapshot.object
    return (
        snapshot.cloud_init is not None
        and is_controlled_by(snapshot.cloud_init, wukong)
        and not missing_networks(snapshot)
        and all(disk.is_usable for disk in snapshot.disks)
        and _is_guarded(snapshot)
    )


def _is_guarded(snapshot: Snapshot) -> bool:
    """A guest that is to be closed to others is not open to them for a moment."""
    asked = snapshot.object.spec.network_policy is not None
    return not asked or any(is_controlled_by(policy, snapshot.object) for policy in snapshot.network_policies)


def _not_yet(snapshot: Snapshot) -> Plan:
    """What the machine itself still has to become; its changes bring us back."""
    machine = snapshot.own_machine
    if machine is None or machine.metadata.deletion_timestamp is not None:
        return NOTHING  # told by _machine
    if snapshot.restoring.is_in_place:
        return NOTHING  # told by _restored
    status, strategy = machine.status.printable_status or "not looked at by KubeVirt yet", run_strategy(snapshot.object)
    if BY_PRINTABLE_STATUS.get(status) == "Error":
        return Plan(waits=(Wait(reason=_word(status), message=f"VirtualMachine is {status}{_why(machine)}"),))
    if strategy == "Halted":
        message = f"VirtualMachine is {status}; waiting for it to stop"
        return NOTHING if status == "Stopped" else _waits("MachineStopping", message)
    if status in ("Running", "Migrating"):
        if not machine.status.ready:
            return _waits("MachineNotReady", f"VirtualMachine is {status}, not ready{_why(machine)}")
        return _moves(snapshot)
    if status == "Paused":
        return _waits("MachinePaused", "VirtualMachine is paused; `corral vm unpause` resumes it")
    if strategy == "Always" or status != "Stopped":
        return _waits("MachineStarting", f"VirtualMachine is {status}{_why(machine)}")
    return NOTHING


def _moves(snapshot: Snapshot) -> Plan:
    """It runs meanwhile, so a move is told when it takes so long that somebody should look at it."""
    move = unended_move(snapshot)
    if move is None:
        return NOTHING
    said, lasts_s = move
    if lasts_s < MOVE_TAKES_LONG_S:
        return Plan(again_after_s=MOVE_TAKES_LONG_S - lasts_s)
    message = f"{said} has not ended; the virtual machine runs. Deleting its VirtualMachineInstanceMigration ends it"
    return _waits("MoveTakesLong", message)


def _waits(reason: str, message: str) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message),))


def _word(status: str) -> str:
    return status.replace(" ", "") or "Unknown"


def _why(machine: VirtualMachine) -> str:
    for name in ("Failure", "Ready"):
        found = condition_of(machine.status.conditions, name)
        if found is not None and found.message and (found.status == "True") == (name == "Failure"):
            return f": {found.message}"
    return ""


def _error_text(snapshot: Snapshot) -> str:
    machine = snapshot.own_machine
    if machine is not None and BY_PRINTABLE_STATUS.get(machine.status.printable_status) == "Error":
        return f"VirtualMachine is {machine.status.printable_status}{_why(machine)}"
    return f"the virtual machine cannot start: failed disks: {', '.join(failed_disks(snapshot))}"


def _told(snapshot: Snapshot, whole: Plan) -> Plan:
    """An event when the phase changes or a move fails, and one for each thing that a person has to mend; each once."""
    wukong = snapshot.object
    phase, known = phase_of(snapshot), wukong.status.stuck
    events: list[Action] = []
    if phase != wukong.status.phase and phase not in UNTOLD_PHASES:
        failed = phase == "Error"
        message = _error_text(snapshot) if failed else f"the virtual machine is {phase.lower()}"
        kind: EventType = "Warning" if failed else "Normal"
        events.append(EmitEvent(regarding=target(wukong), reason=phase, message=message, type=kind))
    failure = failed_move(snapshot)
    if failure and failure != wukong.status.failed_move:
        message = f"the virtual machine stays on its node: {failure}"
        events.append(EmitEvent(regarding=target(wukong), reason="MoveFailed", message=message, type="Warning"))
    events += [
        EmitEvent(regarding=target(wukong), reason=stuck.reason, message=stuck.message, type="Warning")
        for stuck in stuck_in(whole)
        if stuck not in known
    ]
    return Plan(actions=tuple(events))
