"""The facts that a decision stands on, in words. Pure, and safe to show anywhere: an allow-list.

Of Kubernetes objects only name and state are told, never content; of other values only those types that `words` knows.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import singledispatch

import msgspec

from corral.cli.output import age
from corral.engine.questions import conditions_in
from corral.kube.meta import Object, ObjectRef, ref
from corral.kube.models.apps_v1 import Deployment, ReplicaSet, StatefulSet
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import Pod
from corral.kube.values import parse_time
from corral.slurm.facts import Observed, Unknown

PODS_SHOWN_MAX = 5


class Fact(msgspec.Struct, frozen=True):
    """`well` is None where there is no good or bad."""

    about: str
    state: str = ""
    well: bool | None = None

    def __str__(self) -> str:
        return f"{self.about}: {self.state}" if self.state else self.about


def facts_of(snapshot: object, now: datetime) -> tuple[Fact, ...]:
    """What a snapshot holds, each once."""
    return tuple(dict.fromkeys(fact for value in _values(snapshot) for fact in _facts(value, now)))


def ordered(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """First what is not well, then what is (many pods are counted), then what is merely there, by kind."""
    facts = tuple(facts)
    told = sorted((fact for fact in facts if fact.state), key=lambda fact: fact.well is True)
    ready = [fact for fact in told if fact.well and fact.about.startswith("Pod ")]
    if len(ready) > PODS_SHOWN_MAX:
        told = [fact for fact in told if fact not in ready] + [Fact("Pods", f"{len(ready)} are ready", True)]
    there: dict[str, list[str]] = {}
    for fact in facts:
        if not fact.state:
            kind, _, name = fact.about.partition(" ")
            there.setdefault(kind, []).append(name.rpartition("/")[2])
    return (*told, *(Fact(f"{kind} {', '.join(sorted(names))}") for kind, names in sorted(there.items())))


def _values(snapshot: object) -> Iterator[object]:
    if not isinstance(snapshot, msgspec.Struct):
        return
    for field in msgspec.structs.fields(snapshot):
        value = getattr(snapshot, field.name)
        if field.name == "object":
            continue
        if isinstance(value, tuple):
            yield from value
        elif isinstance(value, Mapping):
            yield from value.values()
        else:
            yield value


def _facts(value: object, now: datetime) -> Iterator[Fact]:
    if isinstance(value, Object):
        yield fact_of(value, now)
    elif (told := words(value, now)) is not None:
        yield told


@singledispatch
def words(_value: object, _now: datetime) -> Fact | None:
    """What a value that is no object says; None for all that is not known to be harmless."""
    return None


@words.register
def _(seen: Observed, now: datetime) -> Fact:
    states: dict[str, int] = {}
    for node in seen.nodes.values():
        states[str(node.state)] = states.get(str(node.state), 0) + 1
    nodes = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    holding = len({job.id for jobs in seen.jobs_by_node.values() for job in jobs})
    said = f"{len(seen.nodes)} nodes{f' ({nodes})' if nodes else ''}, {len(seen.jobs)} jobs, {holding} on nodes"
    return Fact("Slurm", f"{said}; asked {age(seen.at, now)} ago", True)


@words.register
def _(unknown: Unknown, now: datetime) -> Fact:
    return Fact("Slurm", f"has not answered for {age(unknown.since, now)}: {unknown.why}", False)


def fact_of(obj: Object, now: datetime) -> Fact:
    about = str(ref(obj))
    if obj.metadata.deletion_timestamp is not None:
        return Fact(about, f"being deleted for {age(obj.metadata.deletion_timestamp, now)}", False)
    match obj:
        case Pod():
            return _pod_fact(about, obj, now)
        case StatefulSet() | Deployment():
            ready, desired = obj.status.ready_replicas or 0, 1 if obj.spec.replicas is None else obj.spec.replicas
            return Fact(about, f"{ready} of {desired} ready", ready >= desired)
    for condition in conditions_in(obj):
        if condition.type == "Ready":
            well = condition.status == "True"
            return Fact(about, "ready" if well else f"not ready: {condition.message} ({condition.reason})", well)
    return Fact(about)


def _pod_fact(about: str, pod: Pod, now: datetime) -> Fact:
    conditions = {condition.type: condition for condition in pod.status.conditions}
    ready = conditions.get("Ready")
    restarts = sum(status.restart_count for status in pod.status.container_statuses)
    again = f", {restarts} restarts" if restarts else ""
    if ready is not None and ready.status == "True":
        return Fact(about, f"ready for {age(ready.last_transition_time, now)}{again}", True)
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return Fact(about, f"has no node: {scheduled.message or scheduled.reason}", False)
    trouble = "; ".join(_container_trouble(pod)) or pod.status.reason or pod.status.phase or "not seen by kubelet yet"
    return Fact(about, f"not ready: {trouble}{again}", False)


def _container_trouble(pod: Pod) -> Iterator[str]:
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting, ended = status.state.waiting, status.state.terminated or status.last_state.terminated
        if ended is not None and (status.state.terminated is None or ended.exit_code):
            last = ended.message.strip().splitlines()[-1:]
            said = f": {last[0]}" if last else (f" ({ended.reason})" if ended.reason else "")
            yield f"{status.name} ended with exit code {ended.exit_code}{said}"
        elif waiting is not None and waiting.reason not in ("", "PodInitializing"):
            yield f"{status.name} waits: {waiting.reason}" + (f", {waiting.message}" if waiting.message else "")
        elif status.state.running is not None and not status.ready and status.name not in _init_names(pod):
            yield f"{status.name} runs, but is not ready"


def _init_names(pod: Pod) -> set[str]:
    return {status.name for status in pod.status.init_container_statuses}


def pods_below(
    owner: Object, replica_sets: Iterable[ReplicaSet], stateful: Iterable[Object], pods: Iterable[Pod]
) -> tuple[Pod, ...]:
    """The pods that exist because of the object: its own, and those of the workloads it made."""
    uids = {owner.metadata.uid}
    for level in (tuple(stateful), tuple(replica_sets)):
        uids |= {one.metadata.uid for one in level if _owners(one) & uids}
    return tuple(pod for pod in pods if _owners(pod) & uids)


def _owners(obj: Object) -> set[str]:
    return {reference.uid for reference in obj.metadata.owner_references}


LATE = 3  # leases that are so many of their durations old belong to nobody who lives


def operator_fact(leases: Iterable[Lease] | None, now: datetime) -> Fact:
    """Whether somebody is there to do what is planned. `leases` None: we may not look."""
    if leases is None:
        return Fact("Operator", "unknown: you may not read Leases", None)
    held = [lease for lease in leases if lease.spec.holder_identity and lease.spec.renew_time]
    if not held:
        return Fact("Operator", "no operator is running: nothing will change until one starts (corral run)", False)
    last = max(held, key=lambda lease: parse_time(lease.spec.renew_time or ""))
    where = f"{last.spec.holder_identity} (Lease {last.metadata.namespace}/{last.metadata.name})"
    if is_held(last, now):
        return Fact("Operator", f"{where} leads", True)
    silent = age(parse_time(last.spec.renew_time or ""), now)
    return Fact("Operator", f"{where} has been silent for {silent}: nothing will change until an operator runs", False)


def is_held(lease: Lease, now: datetime) -> bool:
    """For people to read: two clocks are compared, with much patience. Who may write is decided by the engine."""
    if not lease.spec.holder_identity or not lease.spec.renew_time:
        return False
    silent_s = (now - parse_time(lease.spec.renew_time)).total_seconds()
    return silent_s <= LATE * (lease.spec.lease_duration_seconds or 15)


def uids_of(snapshot: object, more: Iterable[Object]) -> dict[str, ObjectRef]:
    """Every object that was looked at, by uid."""
    objects = [*(value for value in _values(snapshot) if isinstance(value, Object)), *more]
    return {obj.metadata.uid: ref(obj) for obj in objects if obj.metadata.uid}
