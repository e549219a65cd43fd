"""The wiring of the Controller kind: what is watched, how a Snapshot is gathered, who carries a configuration over."""

import secrets
from collections.abc import Iterable

from msgspec.structs import replace

from corral.engine import Controller as Declaration
from corral.engine import Key, KindController, Mapper, Outcome, Plan, Reader, generation_changed
from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller import people
from corral.kinds.controller.facts import Facts, jobs_in_the_way
from corral.kinds.controller.files import references
from corral.kinds.controller.monitor import ServiceMonitor
from corral.kinds.controller.objects import COMPONENT
from corral.kinds.controller.plan import OWNED, plan, rest_of
from corral.kinds.controller.rotation import HOLDERS, SLURMD, SLURMDBD, lost, with_keys
from corral.kinds.controller.shell import (
    ClientShell,
    PodShell,
    apply_config,
    ask_kept_keys,
    close_records,
    hold_jobs,
    register_anew,
)
from corral.kinds.controller.snapshot import (
    ApplyConfig,
    CloseRecords,
    FreshKeys,
    Holder,
    HoldJobs,
    RegisterAnew,
    Snapshot,
    pod_name,
    slurmdbd,
)
from corral.kinds.controller.spec import Controller, ControllerStatus
from corral.kinds.controller.status import status
from corral.kinds.keys import jwt_key_of, slurm_key_of
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.versions import spec_or_version_changed
from corral.kube.client import Client, Selector
from corral.kube.meta import Object
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret, Service

SLURM_KEY_BYTES = 128
JWT_KEY_BYTES = 32
MADE_BY_US = Selector(labels="app.kubernetes.io/managed-by=corral")


class ControllerReconciler:
    def __init__(self, shell: PodShell | None = None) -> None:
        self._shell = shell
        self._facts = Facts()

    def use(self, client: Client) -> None:
        self._shell = self._shell or ClientShell(client)

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        controller = read.get(Controller, key.name, key.namespace)
        if controller is None:
            self._facts.forget(key)
            return None
        seen = gathered(controller, read)
        if self._shell is None or controller.spec.external or controller.spec.suspend:
            return seen
        seen = replace(seen, holders=holders_of(seen, read))
        if gone := lost(seen):
            kept = await ask_kept_keys(self._shell, key.namespace, with_keys(seen), (at.key for at in gone))
            seen = replace(seen, kept_keys=kept)
        seen = replace(seen, running=await self._facts.running(self._shell, key, seen))
        holders = await self._facts.holders(self._shell, key, seen, seen.holders)
        return replace(seen, holders=holders, jobs=await jobs_in_the_way(self._shell, seen, rest_of(seen)))

    def plan(self, snapshot: Snapshot) -> Plan:
        return plan(snapshot)

    async def perform(self, call: ApplyConfig | HoldJobs | RegisterAnew | CloseRecords, snapshot: Snapshot) -> None:
        """What slurmctld says afterwards is asked for by the next pass; what it said before counts no longer."""
        assert self._shell is not None  # noqa: S101 - `use` was called before the first pass
        meta = snapshot.object.metadata
        if not isinstance(call, HoldJobs):
            self._facts.forget_running(Key(meta.namespace, meta.name))
        match call:
            case ApplyConfig():
                await apply_config(self._shell, meta.namespace, call)
            case HoldJobs():
                await hold_jobs(self._shell, meta.namespace, call)
            case RegisterAnew():
                await register_anew(self._shell, meta.namespace, call)
            case CloseRecords():
                await close_records(self._shell, meta.namespace, call)

    def report(self, snapshot: Snapshot, outcome: Outcome) -> ControllerStatus:
        return status(snapshot, outcome)


def gathered(controller: Controller, read: Reader) -> Snapshot:
    """Everything but what slurmctld itself says."""
    name, namespace = controller.metadata.name, controller.metadata.namespace
    accounting = controller.spec.accounting_ref
    named = (*references(controller), *((public,) if (public := controller.spec.jwks_key_ref) else ()))
    config_maps = {ref.name: read.get(ConfigMap, ref.name, namespace) for ref in named}
    key_names = {given.name for given in (controller.spec.slurm_key_ref, controller.spec.jwt_key_ref) if given}
    found_secrets = {name: read.get(Secret, name, namespace) for name in sorted(key_names)}
    return Snapshot(
        object=controller,
        now=read.now,
        people=people.seen(controller, read),
        nodesets=tuple(one for one in read.list(NodeSet, namespace) if one.spec.controller_ref.name == name),
        accounting=read.get(Accounting, accounting.name, namespace) if accounting else None,
        config_maps={name: one for name, one in config_maps.items() if one is not None},
        secrets={name: one for name, one in found_secrets.items() if one is not None},
        children=tuple(_children(controller, read)),
        monitors_exist=read.serves(ServiceMonitor),
        pod=read.get(Pod, pod_name(controller), namespace),
        fresh_keys=FreshKeys(secrets.token_bytes(SLURM_KEY_BYTES), secrets.token_bytes(JWT_KEY_BYTES)),
    )


def _children(controller: Controller, read: Reader) -> Iterable[Object]:
    """What we own, and whatever else stands where a child of ours should be."""
    name, namespace = controller.metadata.name, controller.metadata.namespace
    wanted: tuple[tuple[type[Object], str], ...] = (
        (Service, names.controller_name(name)),
        (Service, names.workers_name(name)),
        (Secret, slurm_key_of(controller).name),
        (Secret, jwt_key_of(controller).name),
        (ConfigMap, names.config_name(name)),
        (StatefulSet, names.controller_name(name)),
    )
    every: tuple[Object, ...] = tuple(child for kind in OWNED for child in read.owned(kind, controller))
    owned = tuple(child for child in every if not people.is_theirs(child, controller))
    others = (read.get(kind, one, namespace) for kind, one in wanted)
    return {(one.resource.kind, one.metadata.name): one for one in (*owned, *others) if one is not None}.values()


def holders_of(seen: Snapshot, read: Reader) -> tuple[Holder, ...]:
    """Running pods that hold keys of this cluster: workers, login nodes, slurmdbd. Others read them at their start."""
    meta, accounting = seen.object.metadata, seen.accounting
    labels = names.labels("", "", cluster=meta.name)
    mine = read.list(Pod, meta.namespace, {names.CLUSTER_LABEL: labels[names.CLUSTER_LABEL]})
    found = [
        Holder(pod=pod, daemon=container.name)
        for pod in mine
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        if container.name in HOLDERS and _runs(pod)
    ]
    if accounting is not None and accounting.spec.external is None:
        pod = read.get(Pod, f"{names.accounting_name(accounting.metadata.name)}-0", meta.namespace)
        found += [Holder(pod=pod, daemon=SLURMDBD)] if pod is not None and _runs(pod) else []
    return tuple(found)


def _runs(pod: Pod) -> bool:
    """Also one that is being deleted: a worker waits for its jobs then, and its slurmd speaks with slurmctld."""
    return pod.status.phase == "Running"


def _of_pod(pod: Pod, read: Reader) -> Iterable[Key]:
    """Of slurmctld's; and of a worker's, while the key is missing that it runs with, and that it may give back."""
    namespace, component = pod.metadata.namespace, pod.metadata.labels.get("app.kubernetes.io/name")
    if component not in (COMPONENT, SLURMD):
        return ()
    controllers = read.list(Controller, namespace)
    if component == COMPONENT:
        found = [one for one in controllers if pod_name(one) == pod.metadata.name]
    else:
        found = [one for one in controllers if _is_in(pod, one) and _lacks_its_key(one, read)]
    return [Key(namespace, one.metadata.name) for one in found]


def _is_in(pod: Pod, controller: Controller) -> bool:
    wanted = names.labels("", "", cluster=controller.metadata.name)[names.CLUSTER_LABEL]
    return pod.metadata.labels.get(names.CLUSTER_LABEL) == wanted


def _lacks_its_key(controller: Controller, read: Reader) -> bool:
    is_generated = controller.spec.slurm_key_ref is None
    return is_generated and read.get(Secret, slurm_key_of(controller).name, controller.metadata.namespace) is None


def _of_home(claim: PersistentVolumeClaim, read: Reader) -> Iterable[Key]:
    namespace, named = claim.metadata.namespace, claim.metadata.name
    found = (one.metadata.name for one in read.list(Controller, namespace))
    return [Key(namespace, name) for name in found if names.home_name(name) == named]


def _of_nodeset(nodeset: NodeSet, _read: Reader) -> Iterable[Key]:
    return (Key(nodeset.metadata.namespace, nodeset.spec.controller_ref.name),)


def _matters(old: Object | None, new: Object | None) -> bool:
    """What an Accounting says of its slurmdbd is told here too."""
    if spec_or_version_changed(old, new):
        return True
    said = [slurmdbd(one) for one in (old, new) if isinstance(one, Accounting)]
    return len(said) == 2 and said[0] != said[1]


def _referring(kind: str) -> Mapper[Object]:
    def keys(obj: Object, read: Reader) -> Iterable[Key]:
        where = (obj.metadata.namespace, kind, obj.metadata.name)
        return [Key(c.metadata.namespace, c.metadata.name) for c in read.by_index(Controller, "references", where)]

    return keys


def _refers_to(controller: Controller) -> Iterable[tuple[str, str, str]]:
    spec, namespace = controller.spec, controller.metadata.namespace
    if spec.accounting_ref:
        yield namespace, "Accounting", spec.accounting_ref.name
    jwks = (spec.jwks_key_ref,) if spec.jwks_key_ref else ()
    for ref in (*references(controller), *people.references(controller), *jwks):
        yield namespace, "ConfigMap", ref.name
    for given in (spec.slurm_key_ref, spec.jwt_key_ref):
        if given:
            yield namespace, "Secret", given.name


def controller(shell: PodShell | None = None) -> Declaration[Controller, Snapshot]:
    return (
        Declaration.for_(Controller, ControllerReconciler(shell))
        .owns(Service)
        .owns(Secret)
        .owns(ConfigMap)
        .owns(StatefulSet)
        .owns(ServiceMonitor, optional=True)
        .watches(Pod, to=_of_pod, where=MADE_BY_US)
        .watches(PersistentVolumeClaim, to=_of_home, where=Selector(labels="app.kubernetes.io/name=home"))
        .watches(NodeSet, to=_of_nodeset, when=generation_changed)
        .watches(Accounting, to=_referring("Accounting"), when=_matters)
        .watches(ConfigMap, to=_referring("ConfigMap"))
        .watches(Secret, to=_referring("Secret"))
        .indexes(Controller, "references", _refers_to)
    )


KINDS = (KindController(Controller, controller, ("slurmctld",)),)
