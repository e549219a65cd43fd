"""Decide what to start and stop so that a cluster's processes are those it should have. Pure: no clock, no I/O.

A component runs when it is wanted, what it comes `after` is ready, and its last failures are long enough ago. One
whose revision (command line, configuration, certificates) has changed is stopped, and started again by the next plan.
"""

from collections.abc import Mapping

import msgspec

from corral.local.processes import Identity

BACKOFF_S_FIRST = 0.5
BACKOFF_S_MAX = 30.0
HEALTHY_AFTER_S = 60.0  # a component that ran this long and dies counts as failing for the first time


class HttpProbe(msgspec.Struct, frozen=True, tag="http"):
    """Ready when the address answers 200 to the supervisor's certificate."""

    url: str


class SocketProbe(msgspec.Struct, frozen=True, tag="socket"):
    """Ready when something accepts connections there."""

    path: str


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """A process that is to run. `revision` changes with anything that only a restart makes effective."""

    name: str
    argv: tuple[str, ...]
    network: str = ""  # namespaces to run in, as files; empty means the host's
    mounts: str = ""
    after: tuple[str, ...] = ()
    probe: HttpProbe | SocketProbe | None = None
    revision: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a component across restarts of it and of the supervisor."""

    process: Identity
    revision: str
    started_at_s: float
    restarts: int = 0
    failures: int = 0  # in a row, each soon after the start
    ended_at_s: float | None = None  # None while it runs
    last_end: str = ""


class Start(msgspec.Struct, frozen=True):
    component: Component


class Stop(msgspec.Struct, frozen=True):
    name: str
    process: Identity
    reason: str


def plan(
    wanted: tuple[Component, ...], records: Mapping[str, Record], ready: frozenset[str], now_s: float
) -> tuple[Start | Stop, ...]:
    """Stops first: what starts may need what the old one holds."""
    by_name = {component.name: component for component in wanted}
    running = {name: record for name, record in records.items() if record.ended_at_s is None}
    surplus = [Stop(name, record.process, "not wanted") for name, record in running.items() if name not in by_name]
    changed = [
        Stop(name, record.process, "its configuration has changed")
        for name, record in running.items()
        if name in by_name and record.revision != by_name[name].revision
    ]
    starts = [
        Start(component)
        for component in wanted
        if component.name not in running
        and ready.issuperset(component.after)
        and is_due(records.get(component.name), now_s)
    ]
    return (*surplus, *changed, *starts)


def to_probe(wanted: tuple[Component, ...], records: Mapping[str, Record]) -> frozenset[str]:
    """Whose readiness somebody waits for now. What nobody waits for is not asked."""
    running = {name for name, record in records.items() if record.ended_at_s is None}
    awaited = {name for component in wanted if component.name not in running for name in component.after}
    return frozenset(awaited & running)


def is_due(record: Record | None, now_s: float) -> bool:
    """Whether its backoff is over. A death in the future is one before the clock was set back: it waits no longer."""
    if record is None or record.ended_at_s is None or record.failures == 0:
        return True
    backoff_s = min(BACKOFF_S_FIRST * 2.0 ** (record.failures - 1), BACKOFF_S_MAX)
    return not record.ended_at_s <= now_s < record.ended_at_s + backoff_s


def started(previous: Record | None, process: Identity, revision: str, now_s: float) -> Record:
    if previous is None:
        return Record(process=process, revision=revision, started_at_s=now_s)
    return msgspec.structs.replace(
        previous,
        process=process,
        revision=revision,
        started_at_s=now_s,
        ended_at_s=None,
        restarts=previous.restarts + 1,
    )


def died(record: Record, how: str, now_s: float) -> Record:
    """It ended without being asked. The first death restarts at once; from the second on the wait doubles."""
    lived_s = now_s - record.started_at_s
    failures = 0 if lived_s >= HEALTHY_AFTER_S else record.failures + 1
    return msgspec.structs.replace(record, ended_at_s=now_s, failures=failures, last_end=how)


def stopped(record: Record, why: str, now_s: float) -> Record:
    """We ended it: no failure, and the next start need not wait."""
    return msgspec.structs.replace(record, ended_at_s=now_s, failures=0, last_end=f"stopped: {why}")
