"""Snapshots by a schedule: which one is due, and which ones are old enough to go. Pure.

A snapshot is called after the time it was due, not after the time it was made: a lost answer or a restart makes no
second one. Of several that were missed, one is taken; what was due before there was a policy was not missed. While one
is being taken, or the machine is being set back to one, no other is begun. One that a Wukong is made from or set back
to is not deleted. They stay when their Wukong is deleted: they are for that.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from corral.engine import NOTHING, Action, Create, Delete, Plan, Wait, target
from corral.kinds.names import fitted
from corral.kinds.wukong import names
from corral.kinds.wukong.cron import BadCron, parse_cron
from corral.kinds.wukong.spec import SnapshotPolicy, Wukong
from corral.kinds.wukongsnapshot.facts import is_over, is_stalled
from corral.kinds.wukongsnapshot.spec import WukongSnapshot, WukongSnapshotSpec
from corral.kube.meta import Condition, ObjectMeta
from corral.kube.values import parse_duration

SNAPSHOTS_AS_SCHEDULED = "SnapshotsAsScheduled"
TIME_FORMAT = "%Y-%m-%dT%H:%MZ"


def scheduled(
    wukong: Wukong, taken: Iterable[WukongSnapshot], now: datetime, *, can_begin: bool, held: frozenset[str]
) -> Plan:
    """`held`: the names of those that somebody restores from."""
    policy = wukong.spec.snapshot_policy
    if policy is None:
        return NOTHING
    try:
        cron = parse_cron(policy.schedule)
    except BadCron as error:
        message = f"snapshotPolicy.schedule: {error}"
        return Plan(waits=(Wait(reason="BadSchedule", message=message, stalled=True),))
    ours = sorted(taken, key=due_time)
    upcoming = cron.next_after(now)
    if upcoming is None:
        message = f"snapshotPolicy.schedule: {policy.schedule!r} never occurs"
        return Plan(waits=(Wait(reason="BadSchedule", message=message, stalled=True),))
    since = last_due(wukong, ours) if can_begin and not any(map(_is_under_way, ours)) else None
    due = cron.latest(since, now) if since is not None else None
    again = [(upcoming - now).total_seconds()]
    expiry = _next_expiry(ours, policy, now)
    again += [expiry] if expiry is not None else []
    actions: list[Action] = [_delete(old) for old in outdated(ours, policy, now) if old.metadata.name not in held]
    if due is not None:
        message = f"snapshotPolicy says {policy.schedule}; the last one was due"
        known_by = (names.SCHEDULED_LABEL,)
        create = Create(object=_snapshot(wukong, due), known_by=known_by, reason="SnapshotDue", message=message)
        actions.insert(0, create)
    return Plan(actions=tuple(actions), again_after_s=max(min(again), 1.0))


def last_due(wukong: Wukong, ours: Iterable[WukongSnapshot]) -> datetime | None:
    """From when on something may be due; None if the policy was not seen before: nothing is due yet."""
    known = wukong.status.last_snapshot_due
    return max([known, *(due_time(snapshot) for snapshot in ours)]) if known is not None else None


def _is_under_way(snapshot: WukongSnapshot) -> bool:
    return not is_over(snapshot) and snapshot.metadata.deletion_timestamp is None


def due_time(snapshot: WukongSnapshot) -> datetime:
    written = snapshot.metadata.annotations.get(names.DUE_ANNOTATION, "")
    try:
        return datetime.strptime(written, TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return snapshot.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def outdated(ours: list[WukongSnapshot], policy: SnapshotPolicy, now: datetime) -> list[WukongSnapshot]:
    """More than maxCount, older than maxAge, or failed before a good one; never the newest good one.

    Of those that failed since the newest good one, as many are kept: what they say is worth no more than that. One that
    is lost may be found again, so it goes only as a good one would: for its age, or when as many newer ones are good or
    lost.
    """
    good = [snapshot for snapshot in ours if snapshot.status.phase == "Succeeded"]
    failed = [snapshot for snapshot in ours if snapshot.status.phase == "Failed" and not snapshot.status.lost]
    lost = [snapshot for snapshot in ours if snapshot.status.lost]
    older = good[:-1]
    too_many = older[: max(len(good) - policy.max_count, 0)]
    too_many += [s for s in lost if max(_newer(s, good), _newer(s, lost)) >= policy.max_count]
    aging = [s for s in (*older, *lost) if _newer(s, good)]
    too_old = [s for s in aging if policy.max_age and now - due_time(s) > parse_duration(policy.max_age)]
    overtaken = [s for s in failed if _newer(s, good)]
    in_vain = failed[: max(len(failed) - policy.max_count, 0)]
    gone = {snapshot.metadata.name for snapshot in (*too_many, *too_old, *overtaken, *in_vain)}
    return [s for s in ours if s.metadata.name in gone and s.metadata.deletion_timestamp is None]


def _newer(one: WukongSnapshot, others: Iterable[WukongSnapshot]) -> int:
    return sum(due_time(one) < due_time(other) for other in others)


def _next_expiry(ours: list[WukongSnapshot], policy: SnapshotPolicy, now: datetime) -> float | None:
    if not policy.max_age:
        return None
    good = [s for s in ours if s.status.phase == "Succeeded"][:-1]
    left = [(due_time(s) + parse_duration(policy.max_age) - now).total_seconds() for s in good]
    return min((seconds for seconds in left if seconds > 0), default=None)


def _delete(old: WukongSnapshot) -> Delete:
    return Delete(target=target(old), reason="SnapshotOutdated", message="snapshotPolicy keeps only newer ones")


def _snapshot(wukong: Wukong, due: datetime) -> WukongSnapshot:
    return WukongSnapshot(
        metadata=ObjectMeta(
            name=fitted(f"{wukong.metadata.name}-{due:%Y%m%d%H%M}"),
            namespace=wukong.metadata.namespace,
            labels={**names.MANAGED_BY, names.SCHEDULED_LABEL: wukong.metadata.name},
            annotations={names.DUE_ANNOTATION: due.strftime(TIME_FORMAT)},
        ),
        spec=WukongSnapshotSpec(wukong_name=wukong.metadata.name),
    )


def as_scheduled(wukong: Wukong, taken: Iterable[WukongSnapshot]) -> Iterator[Condition]:
    """Whether the newest that is over was taken, for whoever looks at the Wukong alone; no policy, no condition."""
    if wukong.spec.snapshot_policy is None:
        return
    ours = sorted(taken, key=due_time)
    newest = next((snapshot for snapshot in reversed(ours) if is_over(snapshot)), None)
    waiting = next((snapshot for snapshot in ours if _is_under_way(snapshot) and is_stalled(snapshot)), None)
    status, reason, message = "Unknown", "NoneYet", "snapshotPolicy has not taken a snapshot yet"
    if waiting is not None:
        status, reason = "False", "SnapshotStalled"
        message = f"waiting until WukongSnapshot {waiting.metadata.name} is taken; its status shows what it waits for"
    elif newest is not None and newest.status.phase == "Failed":
        status, reason = "False", "SnapshotFailed"
        message = f"WukongSnapshot {newest.metadata.name} failed: {newest.status.error}"
    elif newest is not None:
        status, reason, message = "True", "Taken", f"the newest is WukongSnapshot {newest.metadata.name}"
    yield Condition(type=SNAPSHOTS_AS_SCHEDULED, status=status, reason=reason, message=message)


def latest_due(wukong: Wukong, taken: Iterable[WukongSnapshot], now: datetime) -> datetime | None:
    """For the status: kept there, because someone may delete the newest snapshot. At first, when the policy began."""
    if wukong.spec.snapshot_policy is None:
        return None
    return last_due(wukong, taken) or now.replace(microsecond=0)
