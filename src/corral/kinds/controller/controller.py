"""The wiring of the Controller kind: what is watched, how a Snapshot is gathered, who carries a configuration over."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from corral.engine import Controller as Declaration
from corral.engine import Key, KindController, Mapper, Outcome, Plan, Reader, generation_changed
from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller import people
from corral.kinds.controller.files import DIGEST_FILE, references
from corral.kinds.controller.monitor import ServiceMonitor
from corral.kinds.controller.objects import COMPONENT
from corral.kinds.controller.plan import (
    OWNED,
    ApplyConfig,
    FreshKeys,
    Running,
    Snapshot,
    current,
    is_ready,
    plan,
    pod_name,
)
from corral.kinds.controller.shell import ClientShell, PodShell, apply_config, ask_state
from corral.kinds.controller.spec import Controller, ControllerStatus
from corral.kinds.controller.status import status
from corral.kinds.keys import jwt_key_of, slurm_key_of
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.versions import spec_or_version_changed
from corral.kube.client import Client, Selector
from corral.kube.meta import Object
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret, Service

SLURM_KEY_BYTES = 1024
JWT_KEY_BYTES = 32
STATE_AGE_MAX = timedelta(minutes=10)


class Fact(msgspec.Struct, frozen=True):
    """What one container of slurmctld said. Another container is another slurmctld."""

    container: str
    running: Running


class ControllerReconciler:
    def __init__(self, shell: PodShell | None = None) -> None:
        self._shell = shell
        self._facts: dict[Key, Fact] = {}  # written by the one pass that a key has at a time

    def use(self, client: Client) -> None:
        self._shell = self._shell or ClientShell(client)

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        controller = read.get(Controller, key.name, key.namespace)
        if controller is None:
            self._facts.pop(key, None)
            return None
        seen = gathered(controller, read)
        return msgspec.structs.replace(seen, running=await self._running(key, seen))

    def plan(self, snapshot: Snapshot) -> Plan:
        return plan(snapshot)

    async def perform(self, call: ApplyConfig, snapshot: Snapshot) -> None:
        """What slurmctld runs afterwards is asked for by the next pass; what it ran before is no longer known."""
        assert self._shell is not None  # noqa: S101 - `use` was called before the first pass
        meta = snapshot.object.metadata
        self._facts.pop(Key(meta.namespace, meta.name), None)
        await apply_config(self._shell, meta.namespace, call)

    def report(self, snapshot: Snapshot, outcome: Outcome) -> ControllerStatus:
        return status(snapshot, outcome)

    async def _running(self, key: Key, seen: Snapshot) -> Running | None:
        """Asked only where the answer may have changed: another container, another configuration, an old answer."""
        pod = seen.pod
        if pod is None or self._shell is None or not is_ready(pod):
            return None
        container = _container(pod)
        known = self._facts.get(key)
        if known is not None and _still_holds(known, container, current(seen).get(DIGEST_FILE, ""), seen.now):
            return known.running
        running = await ask_state(self._shell, key.namespace, pod.metadata.name, seen.now)
        if running is None:
            self._facts.pop(key, None)
        else:
            self._facts[key] = Fact(container, running)
        return running


def gathered(controller: Controller, read: Reader) -> Snapshot:
    """Everything but what slurmctld itself says."""
    name, namespace = controller.metadata.name, controller.metadata.namespace
    accounting = controller.spec.accounting_ref
    config_maps = {ref.name: read.get(ConfigMap, ref.name, namespace) for ref in references(controller)}
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


def _container(pod: Pod) -> str:
    ids = (status.container_id for status in pod.status.container_statuses if status.name == COMPONENT)
    return f"{pod.metadata.uid}/{next(ids, '')}"


def _still_holds(fact: Fact, container: str, delivered: str, now: datetime) -> bool:
    running = fact.running
    fresh = now - running.as_of < STATE_AGE_MAX
    return fact.container == container and running.up and running.digest == delivered and fresh


def _of_pod(pod: Pod, read: Reader) -> Iterable[Key]:
    namespace = pod.metadata.namespace
    controllers = read.list(Controller, namespace)
    return [Key(namespace, c.metadata.name) for c in controllers if pod_name(c) == pod.metadata.name]


def _of_home(claim: PersistentVolumeClaim, read: Reader) -> Iterable[Key]:
    namespace, named = claim.metadata.namespace, claim.metadata.name
    found = (one.metadata.name for one in read.list(Controller, namespace))
    return [Key(namespace, name) for name in found if names.home_name(name) == named]


def _of_nodeset(nodeset: NodeSet, _read: Reader) -> Iterable[Key]:
    return (Key(nodeset.metadata.namespace, nodeset.spec.controller_ref.name),)


def _referring(kind: str) -> Mapper[Object]:
    def keys(obj: Object, read: Reader) -> Iterable[Key]:
        where = (obj.metadata.namespace, kind, obj.metadata.name)
        return [Key(c.metadata.namespace, c.metadata.name) for c in read.by_index(Controller, "references", where)]

    return keys


def _refers_to(controller: Controller) -> Iterable[tuple[str, str, str]]:
    spec, namespace = controller.spec, controller.metadata.namespace
    if spec.accounting_ref:
        yield namespace, "Accounting", spec.accounting_ref.name
    for ref in (*references(controller), *people.references(controller)):
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
        .watches(Pod, to=_of_pod, where=Selector(labels=f"app.kubernetes.io/name={COMPONENT}"))
        .watches(PersistentVolumeClaim, to=_of_home, where=Selector(labels="app.kubernetes.io/name=home"))
        .watches(NodeSet, to=_of_nodeset, when=generation_changed)
        .watches(Accounting, to=_referring("Accounting"), when=spec_or_version_changed)
        .watches(ConfigMap, to=_referring("ConfigMap"))
        .watches(Secret, to=_referring("Secret"))
        .indexes(Controller, "references", _refers_to)
    )


KINDS = (KindController(Controller, controller, ("slurmctld",)),)
