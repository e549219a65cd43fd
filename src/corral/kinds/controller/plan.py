"""Decide what to do about one Controller: its objects, and the delivery of its configuration to the running slurmctld.

A frozen Snapshot goes in, a Plan comes out. The order of steps: services, keys, files, stateful set, monitor, delivery.

    what is referred to and missing     is waited for, by name; everything that does not need it is done
    a configuration that is wrong       is not delivered; the last good one stays, and the reason names the line
    a configuration that changed        goes into the ConfigMaps; the pod's annotation makes kubelet renew the mounted
                                        files; slurmctld is told to take them, in its pod, without a restart
    a key that needs a restart          marks the ConfigMap and, from there, the pod's template. The mark outlives a
                                        crash between the two writes

What slurmctld runs is known only from itself. While it does not say, nothing is claimed and nothing is delivered.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from corral.engine import (
    NOTHING,
    Action,
    EmitEvent,
    Once,
    Outside,
    Patch,
    Plan,
    Wait,
    children,
    is_controlled_by,
    target,
)
from corral.kinds import keys, names, versions
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller import objects, people
from corral.kinds.controller.files import DIGEST_FILE, Files, Sources, references, rendered
from corral.kinds.controller.monitor import ServiceMonitor, is_monitored, service_monitor
from corral.kinds.controller.people import Seen
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.overrides import BadOverride
from corral.kinds.parts import KeyRef
from corral.kinds.workloads import container_trouble
from corral.kube.meta import EMPTY, Object, ObjectRef, ref
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret, Service
from corral.slurm.config.differences import Change, Differences, differences
from corral.slurm.config.effects import Effect
from corral.slurm.config.keys import key_table

ASK_AGAIN_S = 10.0
ERRORS_SHOWN_MAX = 5


class FreshKeys(msgspec.Struct, frozen=True):
    """Random bytes for keys that do not exist yet; drawn when observing, since a plan draws nothing."""

    slurm: bytes
    jwt: bytes

    def __repr__(self) -> str:
        return "FreshKeys(...)"


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmctld said of itself. `digest` is empty when it has not taken any configuration yet."""

    digest: str
    version: str
    up: bool
    as_of: datetime


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: Controller
    now: datetime
    people: Seen = Seen()
    nodesets: tuple[NodeSet, ...] = ()
    accounting: Accounting | None = None
    config_maps: Mapping[str, ConfigMap] = EMPTY  # of those referred to: what exists
    secrets: Mapping[str, Secret] = EMPTY
    children: tuple[Object, ...] = ()  # ours, and whatever stands under a name that we want
    pod: Pod | None = None
    monitors_exist: bool = False  # whether the cluster has the kind ServiceMonitor
    running: Running | None = None  # None: unknown
    fresh_keys: FreshKeys = FreshKeys(b"", b"")


class ApplyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Make the slurmctld of this pod take the mounted configuration of this digest, in place."""

    pod: str
    digest: str


def plan(snapshot: Snapshot) -> Plan:
    controller = snapshot.object
    if controller.metadata.deletion_timestamp is not None or controller.spec.suspend:
        return NOTHING
    return people.plan(controller, snapshot.people, snapshot.pod) + _cluster(snapshot)


def _cluster(snapshot: Snapshot) -> Plan:
    """slurmctld and all that it needs besides the people who use it."""
    controller = snapshot.object
    if controller.spec.external is not None:
        return children(controller, (objects.workers_service(controller),), snapshot.children) + _keys_needed(snapshot)
    snapshot, turn = in_turn(snapshot)
    controller = snapshot.object
    keys_needed = _keys_needed(snapshot)
    files, config_needed = configuration(snapshot)
    restart = restart_mark(snapshot, files)
    try:
        made = _children(snapshot, files, restart, start=not keys_needed.waits)
    except BadOverride as error:
        return _stalled("BadOverride", str(error))
    except objects.TooLarge as error:
        return _stalled("ConfigTooLarge", str(error))
    delivered = NOTHING if files is None else _delivery(snapshot, files, restart)
    return keys_needed + config_needed + _announced(snapshot, files) + made + delivered + turn


def in_turn(snapshot: Snapshot) -> tuple[Snapshot, Plan]:
    """The Controller with the version that it runs for now, and why that is not the one asked for."""
    step = versions.slurmctld(snapshot.object, snapshot.accounting)
    spec = msgspec.structs.replace(snapshot.object.spec, version=step.version)
    at_its_version = msgspec.structs.replace(snapshot.object, spec=spec)
    return msgspec.structs.replace(snapshot, object=at_its_version), Plan(waits=step.waits)


def configuration(snapshot: Snapshot) -> tuple[Files | None, Plan]:
    """The files to deliver, or None and why there are none; then what was delivered last stays."""
    waits = tuple(_missing_references(snapshot))
    if waits:
        return None, Plan(waits=waits)
    files = rendered(
        Sources(
            controller=snapshot.object,
            nodesets=snapshot.nodesets,
            accounting=snapshot.accounting,
            config_maps=snapshot.config_maps,
        )
    )
    if not files.errors:
        return files, NOTHING
    more = len(files.errors) - ERRORS_SHOWN_MAX
    shown = "; ".join(files.errors[:ERRORS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")
    stays = "the last good configuration stays" if current(snapshot) else "slurmctld is not started"
    return None, _stalled("ConfigInvalid", f"{shown}; {stays}")


def current(snapshot: Snapshot) -> Mapping[str, str]:
    """The files that were put into the ConfigMaps last, with their digest; empty before the first time."""
    return {file: text for one in _own_config_maps(snapshot) for file, text in one.data.items()}


def restart_mark(snapshot: Snapshot, files: Files | None) -> str:
    """The digest of the last configuration that needed a restart of slurmctld; empty when none ever did."""
    before = current(snapshot)
    first = next((one for one in _own_config_maps(snapshot) if DIGEST_FILE in one.data), None)
    mark = first.metadata.annotations.get(objects.RESTART, "") if first else ""
    if files is None or not before or before.get(DIGEST_FILE) == files.digest:
        return mark
    changed = (change for found in _changes(snapshot, files) for change in found.changes)
    return files.digest if any(needs_restart(change) for change in changed) else mark


def needs_restart(change: Change) -> bool:
    """A record that goes, or a smaller MaxNodeCount, costs jobs but no restart: slurmctld takes it in place."""
    if change.effect in (Effect.RESTART_SLURMCTLD, Effect.RESTART_ALL):
        return True
    return change.effect is Effect.DRAIN and not change.record and change.key != "MaxNodeCount"


def is_ready(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def _children(snapshot: Snapshot, files: Files | None, restart: str, *, start: bool) -> Plan:
    """What cannot be decided now is neither made nor pruned."""
    controller = snapshot.object
    desired: list[Object | Once] = [objects.service(controller), objects.workers_service(controller)]
    desired += _generated_keys(snapshot)
    held: tuple[type[Object], ...] = ()
    if files is not None:
        desired += objects.config_maps(controller, files, restart)
    else:
        held += (ConfigMap,)
    if start and (files is not None or current(snapshot)):
        desired.append(objects.stateful_set(controller, restart, _users_keys(snapshot)))
    else:
        held += (StatefulSet,)
    if snapshot.monitors_exist and is_monitored(controller):
        desired.append(service_monitor(controller, objects.service(controller)))
    return children(controller, desired, [child for child in snapshot.children if not isinstance(child, held)])


def _generated_keys(snapshot: Snapshot) -> Iterable[Once]:
    controller, fresh = snapshot.object, snapshot.fresh_keys
    for given, where, value in (
        (controller.spec.slurm_key_ref, keys.slurm_key_of(controller), fresh.slurm),
        (controller.spec.jwt_key_ref, keys.jwt_key_of(controller), fresh.jwt),
    ):
        if given is None:
            yield Once(objects.key_secret(where.name, where.key, value, controller))


def _users_keys(snapshot: Snapshot) -> Mapping[str, bytes]:
    found = {}
    for file, given in _key_references(snapshot.object):
        found[file] = snapshot.secrets[given.name].data[given.key]
    return found


def _key_references(controller: Controller) -> Iterable[tuple[str, KeyRef]]:
    spec = controller.spec
    for file, given in ((names.SLURM_KEY, spec.slurm_key_ref), (names.JWT_KEY, spec.jwt_key_ref)):
        if given is not None:
            yield file, given


def _keys_needed(snapshot: Snapshot) -> Plan:
    namespace = snapshot.object.metadata.namespace
    waits = []
    for _file, given in _key_references(snapshot.object):
        missing = keys.missing(given, namespace, snapshot.secrets.get(given.name))
        if missing:
            on = ObjectRef("Secret", namespace, given.name)
            waits.append(Wait(reason="KeyMissing", message=f"waiting for {missing}", on=on))
    return Plan(waits=tuple(waits))


def _missing_references(snapshot: Snapshot) -> Iterable[Wait]:
    controller = snapshot.object
    namespace, accounting = controller.metadata.namespace, controller.spec.accounting_ref
    if accounting is not None and snapshot.accounting is None:
        on = ObjectRef("Accounting", namespace, accounting.name)
        yield Wait(reason="AccountingMissing", message=f"waiting for {on}", on=on)
    for one in references(controller):
        if one.name not in snapshot.config_maps:
            on = ObjectRef("ConfigMap", namespace, one.name)
            yield Wait(reason="ReferenceMissing", message=f"waiting for {on}, which the configuration needs", on=on)


def _announced(snapshot: Snapshot, files: Files | None) -> Plan:
    """A restart is told before it happens, with the key that needs it."""
    if files is None:
        return NOTHING
    causes = [
        f"{change.record} {change.key}".strip() + f" ({change.why})"
        for found in _changes(snapshot, files)
        for change in found.changes
        if needs_restart(change)
    ]
    if not causes:
        return NOTHING
    message = f"slurmctld will be restarted, because a reconfigure cannot change {', '.join(causes)}"
    return Plan(actions=(EmitEvent(regarding=target(snapshot.object), reason="RestartNeeded", message=message),))


def _changes(snapshot: Snapshot, files: Files) -> tuple[Differences, ...]:
    """What differs between the files delivered last and these, where Slurm's keys tell what it means."""
    before, version = current(snapshot), snapshot.object.spec.version
    if not before or before.get(DIGEST_FILE) == files.digest:
        return ()
    known = [file for file in key_table(version).files if file in before or file in files.content]
    found = (differences(file, before.get(file, ""), files.content.get(file, ""), version) for file in sorted(known))
    return tuple(one for one in found if one.changes)


def _delivery(snapshot: Snapshot, files: Files, restart: str) -> Plan:
    pod, running = snapshot.pod, snapshot.running
    if pod is None:
        name = pod_name(snapshot.object)
        return _waiting("SlurmctldStarting", f"waiting for pod {name}")
    if pod.metadata.annotations.get(objects.RESTART, "") != restart:
        return _waiting("SlurmctldRestarting", f"waiting for pod {pod.metadata.name} to be replaced")
    version = snapshot.object.spec.version
    if pod.metadata.labels.get(versions.LABEL, version) != version:
        message = f"waiting for pod {pod.metadata.name} to be replaced by one of Slurm {version}"
        return _waiting("SlurmctldRestarting", message)
    if not is_ready(pod):
        return _waiting("SlurmctldStarting", f"waiting for slurmctld in {ref(pod)}{container_trouble(pod)}")
    if running is None or not running.up or not running.digest:
        message = f"slurmctld in {ref(pod)} has not said which configuration it runs"
        return msgspec.structs.replace(_waiting("StateUnknown", message), again_after_s=ASK_AGAIN_S)
    if running.digest == files.digest:
        return NOTHING
    return Plan(actions=tuple(_steps(snapshot, pod, files)))


def _steps(snapshot: Snapshot, pod: Pod, files: Files) -> Iterable[Action]:
    digest = files.digest
    if pod.metadata.annotations.get(objects.DELIVERED) != digest:
        yield Patch(
            target=target(pod),
            merge={"metadata": {"annotations": {objects.DELIVERED: digest}}},
            reason="ConfigChanged",
            message="kubelet then renews the mounted files at once",
        )
    meta = snapshot.object.metadata
    what = "; ".join(_taken_in_place(found) for found in _changes(snapshot, files))
    yield Outside(
        system=f"Slurm {meta.namespace}/{meta.name}",
        subject=digest,
        call=ApplyConfig(pod=pod.metadata.name, digest=digest),
        reason="ConfigChanged",
        message=what or "slurmctld runs another configuration; it takes this one in place",
    )


def _taken_in_place(found: Differences) -> str:
    """What a reconfigure changes, and what else it costs: a partition that goes takes its jobs along."""
    costs = {change.why for change in found.changes if change.effect is not Effect.RECONFIGURE and change.why}
    count = "1 change" if len(found.changes) == 1 else f"{len(found.changes)} changes"
    return f"{found.file}: {count}, in effect after a reconfigure; " + ("; ".join(sorted(costs)) or "jobs go on")


def pod_name(controller: Controller) -> str:
    return f"{names.controller_name(controller.metadata.name)}-0"


def _own_config_maps(snapshot: Snapshot) -> tuple[ConfigMap, ...]:
    return tuple(
        child
        for child in snapshot.children
        if isinstance(child, ConfigMap) and is_controlled_by(child, snapshot.object)
    )


def _waiting(reason: str, message: str) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message),))


def _stalled(reason: str, message: str) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, stalled=True),))


OWNED: tuple[type[Object], ...] = (Service, Secret, ConfigMap, StatefulSet, ServiceMonitor)
