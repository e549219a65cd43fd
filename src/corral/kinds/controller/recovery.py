"""After slurmctld was killed: jobs and records about which it and the others differ are brought to an end. Pure.

Killed, slurmctld loses its last seconds. What follows from that does not heal by itself, or only after minutes:

    a job that ended in these seconds   is RUNNING again; it ends when its slurmd registers and does not name it. By
                                        itself a slurmd does so every few minutes, and slurmctld listens only once it
                                        has known a job for a while
    a job that began in them            is not known any more; its record in slurmdbd would stay RUNNING for ever

So workers that hold jobs from before are told to register again as soon as they are believed, and such records are
closed. All of it follows from what slurmctld, slurmd and slurmdbd say; nothing is remembered.
"""

from datetime import datetime, timedelta

from corral.engine import NOTHING, READY, Action, EmitEvent, Outside, Plan, target
from corral.kinds.controller.snapshot import (
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

BELIEVED_AFTER = timedelta(seconds=25)  # slurmctld's own: BatchStartTimeout (10 s) and MessageTimeout (10 s)
COMPARED_AFTER = timedelta(seconds=60)  # slurmctld has then told slurmdbd what it had kept for it
HEALED_AFTER = timedelta(minutes=10)  # by then every slurmd has registered without being told
ASK_AGAIN_S = 60.0  # slurmdbd, that says it is up
REGISTERED_MAX = 200  # workers in one pass
SLURMD = "slurmd"


def plan(snapshot: Snapshot) -> Plan:
    running, now = snapshot.running, snapshot.now
    if running is None or running.revival is None:
        return NOTHING
    revival, compared = running.revival, _compared_at(snapshot, running.revival)
    actions: tuple[Action, ...] = ()
    times = [(moment - now).total_seconds() for moment in _moments(snapshot, revival) if moment > now]
    if now >= believed_at(revival):
        actions += _registered(snapshot, revival)
    if compared is not None and running.as_of >= compared:
        actions += _closed(snapshot, revival)
        times += [ASK_AGAIN_S] if revival.lost is None else []
    return Plan(actions=actions, again_after_s=min(times, default=None))


def is_unfinished(snapshot: Snapshot, running: Running) -> bool:
    """Whether what slurmctld said then has to be asked for again: it and the others may agree by now, or not yet."""
    now, revival = snapshot.now, running.revival
    if revival is None:
        return False
    if any(running.as_of < moment <= now for moment in _moments(snapshot, revival)):
        return True
    compared = _compared_at(snapshot, revival)
    differ = compared is not None and now >= compared and revival.lost != ()
    return differ or (now >= believed_at(revival) and bool(unsure(revival, now)))


def believed_at(revival: Revival) -> datetime:
    return max(revival.at, revival.loaded) + BELIEVED_AFTER


def _compared_at(snapshot: Snapshot, revival: Revival) -> datetime | None:
    """When slurmdbd's records can be relied on; None while there are none, or slurmdbd is away."""
    accounting = snapshot.accounting
    if accounting is None or not slurmdbd(accounting).yes:
        return None
    ready = next(condition for condition in accounting.status.conditions if condition.type == READY)
    return max(revival.at, ready.last_transition_time or revival.at) + COMPARED_AFTER


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
    back = f"slurmctld came back at {revival.at:%H:%M:%S} and may not know which of its jobs have ended"
    message = f"{back}: {some(pods)} register{'s' if len(pods) == 1 else ''} anew"
    return _done(snapshot, some(pods), RegisterAnew(pods=pods), "WorkersRegister", message)


def _closed(snapshot: Snapshot, revival: Revival) -> tuple[Action, ...]:
    if not revival.lost:
        return ()
    jobs = f"job{'s' if len(revival.lost) > 1 else ''} {some(revival.lost)}"
    message = f"slurmctld came back at {revival.at:%H:%M:%S} without {jobs}: the open records are closed"
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
