"""After slurmctld was killed, or lost its volume: what it and the others differ about is brought to an end. Pure.

Killed, slurmctld loses its last seconds. What follows from that does not heal by itself, or only after minutes:

    a job that ended in these seconds   is RUNNING again; it ends when its slurmd registers and does not name it. By
                                        itself a slurmd does so every few minutes, and slurmctld listens only once it
                                        has known a job for a while
    a job that began in them            is not known any more; its record in slurmdbd would stay RUNNING for ever

So workers that hold jobs from before are told to register again as soon as they are believed, and such records are
closed. One that begins with an empty state though it is not new has lost everything: it knows none of the workers that
were ready before, which register only when they start, and none of the jobs that slurmdbd has open records of. A worker
that somebody had drained would register without its drain: it is told when its NodeSet has seen the loss, and so its
pod shows it (`shown.MISSING`). Nobody misses it meanwhile.

All of it follows from what slurmctld, slurmd, slurmdbd and kubelet say; nothing is remembered.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from corral.engine import NOTHING, READY, Action, EmitEvent, Outside, Plan, target
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.snapshot import (
    Beginning,
    CloseRecords,
    Holder,
    RegisterAnew,
    Revival,
    Running,
    Snapshot,
    is_ready,
    pod_name,
    slurmdbd,
    some,
)
from corral.kinds.nodeset.shown import shows_somebodys_drain
from corral.kube.models.core_v1 import Pod

BELIEVED_AFTER = timedelta(seconds=25)  # slurmctld's own: BatchStartTimeout (10 s) and MessageTimeout (10 s)
COMPARED_AFTER = timedelta(seconds=60)  # slurmctld has then told slurmdbd what it had kept for it
HEALED_AFTER = timedelta(minutes=10)  # by then every slurmd has registered without being told
ASK_AGAIN_S = 60.0  # slurmdbd, that says it is up
SHOWN_WITHIN_S = 5.0  # how often to check whether a NodeSet has seen the loss
REGISTERED_MAX = 200  # workers in one pass
READY_BEFORE = timedelta(seconds=5)  # three clocks: ours, the pod's, kubelet's
SLURMD = "slurmd"


def plan(snapshot: Snapshot) -> Plan:
    running = snapshot.running
    if running is None:
        return NOTHING
    if running.beginning is not None:
        return _after_a_loss(snapshot, running.beginning, running.as_of)
    return _after_a_kill(snapshot, running.revival, running.as_of) if running.revival is not None else NOTHING


def is_unfinished(snapshot: Snapshot, running: Running) -> bool:
    """Whether what slurmctld said then has to be asked for again: it and the others may agree by now, or not yet."""
    now, revival, beginning = snapshot.now, running.revival, running.beginning
    if beginning is not None:
        records = _reliable_from(snapshot.accounting, beginning.at)
        return bool(strangers(snapshot, beginning)) or (
            records is not None and records <= now and (running.as_of < records or beginning.lost != ())
        )
    if revival is None:
        return False
    if any(running.as_of < moment <= now for moment in _moments(snapshot, revival)):
        return True
    compared = _compared_at(snapshot, revival)
    differ = compared is not None and now >= compared and revival.lost != ()
    return differ or (now >= believed_at(revival) and bool(unsure(revival, now)))


def _after_a_kill(snapshot: Snapshot, revival: Revival, as_of: datetime) -> Plan:
    now, compared = snapshot.now, _compared_at(snapshot, revival)
    actions: tuple[Action, ...] = ()
    times = [(moment - now).total_seconds() for moment in _moments(snapshot, revival) if moment > now]
    if now >= believed_at(revival):
        actions += _registered(snapshot, revival)
    if compared is not None and as_of >= compared:
        actions += _closed(snapshot, revival.lost, f"slurmctld restarted at {revival.at:%H:%M:%S}")
        times += [ASK_AGAIN_S] if revival.lost is None else []
    return Plan(actions=actions, again_after_s=min(times, default=None))


def _after_a_loss(snapshot: Snapshot, beginning: Beginning, as_of: datetime) -> Plan:
    actions: tuple[Action, ...] = ()
    again_s = SHOWN_WITHIN_S if any(map(_may_lose_its_drain, _unknown(snapshot, beginning))) else None
    emptied = f"slurmctld started with an empty state at {beginning.at:%H:%M:%S}"
    if pods := strangers(snapshot, beginning):
        message = f"{emptied}: {_again(pods)}"
        actions += _done(snapshot, some(pods), RegisterAnew(pods=pods), "WorkersRegister", message)
    records = _reliable_from(snapshot.accounting, beginning.at)
    if records is None or as_of < records:
        return Plan(actions=actions, again_after_s=again_s)
    actions += _closed(snapshot, beginning.lost, emptied)
    return Plan(actions=actions, again_after_s=again_s or (ASK_AGAIN_S if beginning.lost is None else None))


def strangers(snapshot: Snapshot, beginning: Beginning) -> tuple[str, ...]:
    """Workers that were ready before slurmctld began, and that it does not know; so many are told in one pass."""
    found = (pod.metadata.name for pod in _unknown(snapshot, beginning) if not _may_lose_its_drain(pod))
    return tuple(found)[:REGISTERED_MAX]


def _unknown(snapshot: Snapshot, beginning: Beginning) -> Iterator[Pod]:
    before = beginning.at - READY_BEFORE
    for holder in snapshot.holders:
        is_new = holder.pod.metadata.name not in beginning.known
        if is_new and _is_slurmd(holder) and (since := _ready_since(holder)) is not None and since < before:
            yield holder.pod


def _may_lose_its_drain(pod: Pod) -> bool:
    return shows_somebodys_drain(pod.status.conditions)


def believed_at(revival: Revival) -> datetime:
    return max(revival.at, revival.loaded) + BELIEVED_AFTER


def _compared_at(snapshot: Snapshot, revival: Revival) -> datetime | None:
    """When slurmctld has told slurmdbd what it had kept for it; None while slurmdbd is away."""
    reliable = _reliable_from(snapshot.accounting, revival.at)
    return None if reliable is None else reliable + COMPARED_AFTER


def _reliable_from(accounting: Accounting | None, began: datetime) -> datetime | None:
    """Since when both slurmctld and slurmdbd are there; None while there is no slurmdbd."""
    if accounting is None or not slurmdbd(accounting).yes:
        return None
    ready = next(condition for condition in accounting.status.conditions if condition.type == READY)
    return max(began, ready.last_transition_time or began)


def _moments(snapshot: Snapshot, revival: Revival) -> tuple[datetime, ...]:
    """When there is something to look at."""
    compared = _compared_at(snapshot, revival)
    return (believed_at(revival),) if compared is None else (believed_at(revival), compared)


def unsure(revival: Revival, now: datetime) -> frozenset[str]:
    """Nodes with jobs from before that have not registered since slurmctld would believe them."""
    if now >= revival.at + HEALED_AFTER:
        return frozenset()
    return frozenset(node for node, registered in revival.holding.items() if registered < believed_at(revival))


def _registered(snapshot: Snapshot, revival: Revival) -> tuple[Action, ...]:
    names = unsure(revival, snapshot.now)
    found = (holder.pod.metadata.name for holder in snapshot.holders if _is_slurmd(holder))
    pods = tuple(pod for pod in found if pod in names)[:REGISTERED_MAX]
    if not pods:
        return ()
    back = f"slurmctld restarted at {revival.at:%H:%M:%S} and may show ended jobs as running"
    message = f"{back}: {_again(pods)}"
    return _done(snapshot, some(pods), RegisterAnew(pods=pods), "WorkersRegister", message)


def _again(pods: tuple[str, ...]) -> str:
    return f"Corral makes {some(pods)} register again"


def _closed(snapshot: Snapshot, lost: tuple[str, ...] | None, start: str) -> tuple[Action, ...]:
    if not lost:
        return ()
    jobs = f"job{'s' if len(lost) > 1 else ''} {some(lost)}"
    message = f"{start} and lost {jobs}: Corral closes the open accounting records"
    return _done(snapshot, jobs, CloseRecords(pod=pod_name(snapshot.object)), "RecordsClosed", message)


def _done(
    snapshot: Snapshot, subject: str, call: RegisterAnew | CloseRecords, reason: str, message: str
) -> tuple[Action, ...]:
    meta = snapshot.object.metadata
    system = f"Slurm {meta.namespace}/{meta.name}"
    return (
        Outside(system=system, subject=subject, call=call, reason=reason, message=message),
        EmitEvent(regarding=target(snapshot.object), reason=reason, message=message, action="Recover"),
    )


def _is_slurmd(holder: Holder) -> bool:
    return holder.daemon == SLURMD and is_ready(holder.pod)


def _ready_since(holder: Holder) -> datetime | None:
    return next((one.last_transition_time for one in holder.pod.status.conditions if one.type == READY), None)
