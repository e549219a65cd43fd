"""Decide what to do about one Controller: its objects, and the delivery of its configuration to the running slurmctld.

A frozen Snapshot goes in, a Plan comes out. The order of steps: services, keys, files, stateful set, monitor, delivery,
and what is left to mend after slurmctld was killed.

    what is referred to and missing     is waited for, by name; everything that does not need it is done
    a configuration that is wrong       is not delivered; the last good one stays, and the reason names the line
    the first configuration             waits a moment for a NodeSet that is applied with the Controller: one that comes
                                        later is a reconfigure, just when workers ask for their files
    a configuration that changed        goes into the ConfigMaps; the pod's annotation makes kubelet renew the mounted
                                        files; slurmctld is told to take them, in its pod, without a restart
    a key that needs a restart          marks the ConfigMap and, from there, the pod's template. The mark outlives a
                                        crash between the two writes

What slurmctld runs is known only from itself. While it does not say, nothing is claimed and nothing is delivered.
"""

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from corral.engine import NOTHING, Once, Plan, Wait, children
from corral.kinds import keys, names, versions
from corral.kinds.controller import objects, people, recovery, rotation
from corral.kinds.controller.changes import (
    ASK_JOBS_AGAIN_S,
    Rest,
    announced,
    held_back,
    last_moment,
    rest_needed,
    restart_mark,
)
from corral.kinds.controller.delivery import delivery
from corral.kinds.controller.files import Files, Sources, references, rendered
from corral.kinds.controller.monitor import ServiceMonitor, is_monitored, service_monitor
from corral.kinds.controller.snapshot import Snapshot, current
from corral.kinds.overrides import BadOverride
from corral.kinds.telling import trouble
from corral.kube.meta import Object, ObjectRef
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.core_v1 import ConfigMap, Secret, Service

ERRORS_SHOWN_MAX = 5
COMPANY = timedelta(seconds=2)  # what is applied together comes within this; times of birth are whole seconds


def plan(snapshot: Snapshot) -> Plan:
    controller = snapshot.object
    if controller.metadata.deletion_timestamp is not None or controller.spec.suspend:
        return NOTHING
    whole = people.plan(controller, snapshot.people, snapshot.pod) + _cluster(snapshot)
    return trouble(controller, controller.status.conditions, whole) + whole


def _cluster(snapshot: Snapshot) -> Plan:
    """slurmctld and all that it needs besides the people who use it."""
    controller = snapshot.object
    if controller.spec.external is not None:
        return children(controller, (objects.workers_service(controller),), snapshot.children) + _keys_needed(snapshot)
    snapshot, turn = in_turn(snapshot)
    controller = snapshot.object
    keys_needed = _keys_needed(snapshot) + rotation.losses(snapshot)
    files, config_needed = configuration(snapshot)
    if files is not None and (company := _in_company(snapshot)):
        files, config_needed = None, company
    rest = rest_needed(snapshot, files)
    if rest and (wait := held_back(snapshot, rest)):
        files, rest, config_needed = None, None, Plan(waits=(wait,), again_after_s=ASK_JOBS_AGAIN_S)
    restart = restart_mark(snapshot, files)
    try:
        made = _children(snapshot, files, restart, start=not keys_needed.waits)
    except BadOverride as error:
        return _stalled("BadOverride", str(error))
    except objects.TooLarge as error:
        return _stalled("ConfigTooLarge", str(error))
    delivered = delivery(snapshot, files, restart) if files is not None or current(snapshot) else NOTHING
    told = announced(snapshot, files) + last_moment(snapshot, rest)
    recovered = recovery.plan(snapshot)
    return keys_needed + config_needed + told + made + rotation.plan(snapshot) + delivered + recovered + turn


def rest_of(snapshot: Snapshot) -> Rest | None:
    """Which jobs have to be asked about before the desired configuration can be delivered."""
    snapshot, _turn = in_turn(snapshot)
    files, _why = configuration(snapshot)
    return rest_needed(snapshot, files)


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


def _in_company(snapshot: Snapshot) -> Plan | None:
    """What is waited for before the first configuration is written, if anything."""
    born = snapshot.object.metadata.creation_timestamp
    if born is None or snapshot.nodesets or current(snapshot) or not timedelta() <= snapshot.now - born < COMPANY:
        return None
    wait = Wait(reason="SlurmctldStarting", message="waiting briefly for NodeSets of the same manifest")
    return Plan(waits=(wait,), again_after_s=(born + COMPANY - snapshot.now).total_seconds())


def _children(snapshot: Snapshot, files: Files | None, restart: str, *, start: bool) -> Plan:
    """What cannot be decided now is neither made nor pruned."""
    controller = snapshot.object
    desired: list[Object | Once] = [objects.service(controller), objects.workers_service(controller)]
    desired += rotation.secrets(snapshot)
    held: tuple[type[Object], ...] = ()
    if files is not None:
        desired += objects.config_maps(controller, files, restart)
    else:
        held += (ConfigMap,)
    if start and (files is not None or current(snapshot)):
        desired.append(objects.stateful_set(controller, restart, _plain_key(snapshot)))
    else:
        held += (StatefulSet,)
    if snapshot.monitors_exist and is_monitored(controller):
        desired.append(service_monitor(controller, objects.service(controller)))
    return children(controller, desired, [child for child in snapshot.children if not isinstance(child, held)])


def _plain_key(snapshot: Snapshot) -> bytes:
    """A single slurm key of the user's: no daemon with the old one understands one with the new one, so a change of it
    is a restart. Sets of keys, and the JWT key, are loaded in place."""
    given = snapshot.object.spec.slurm_key_ref
    if given is None or keys.slurm_key_file(given) != names.SLURM_KEY:
        return b""
    return snapshot.secrets[given.name].data[given.key]


def _keys_needed(snapshot: Snapshot) -> Plan:
    namespace = snapshot.object.metadata.namespace
    waits = []
    spec = snapshot.object.spec
    for given in (spec.slurm_key_ref, spec.jwt_key_ref):
        if given is None:
            continue
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
    public = controller.spec.jwks_key_ref
    if public and public.name in snapshot.config_maps and not snapshot.config_maps[public.name].data.get(public.key):
        on = ObjectRef("ConfigMap", namespace, public.name)
        yield Wait(reason="ReferenceMissing", message=f"waiting for key {public.key!r} in {on}", on=on)
    for one in (*references(controller), *((public,) if public else ())):
        if one.name not in snapshot.config_maps:
            on = ObjectRef("ConfigMap", namespace, one.name)
            yield Wait(reason="ReferenceMissing", message=f"waiting for {on}, which the configuration needs", on=on)


def _stalled(reason: str, message: str) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, stalled=True),))


OWNED: tuple[type[Object], ...] = (Service, Secret, ConfigMap, StatefulSet, ServiceMonitor)
