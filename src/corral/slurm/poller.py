"""One look after another at one cluster, for everyone who wants to know.

However many NodeSets there are, a cluster is asked once. `view` is what is known now, `subscribe` tells of changes, and
`fresh` waits for a look that began late enough to be a proof.

A look asks for the nodes, then for the jobs: a job that starts between the two is in the second answer. Both questions
carry the mark of the last answer, so that an idle cluster answers in milliseconds. In a look that nobody waits for, the
short list of job states goes first, and the long one follows only when the short one differs. A look that somebody does
wait for asks for all nodes, without a mark: slurmrestd says "unchanged" (304) when the last node was deleted. After a
failure all is forgotten, and slurmctld is pinged before it is asked for more: a ping fails at once where a list takes
9 s.

Whoever changes something through the client says so (`wrote`): `current` gives nothing older than that. Partitions and
reservations are part of a look only while somebody asks for them (`Extra`).

Soon after a change looks come often, in a quiet cluster seldom, and however many wait never without a pause between
them. A hanging cluster hangs its own poller only, and no longer than the client's deadlines.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import TypeVar

import msgspec
import structlog

from corral.slurm.clock import Clock
from corral.slurm.errors import (
    Garbled,
    SlurmError,
    Subject,
    TokenUnavailable,
    Unauthorized,
    Unreachable,
    Unsupported,
)
from corral.slurm.facts import Extra, NotAsked, NotReachable, Observed, Reachability, Reachable, Unknown, View
from corral.slurm.rest import SlurmClient
from corral.slurm.values import Job, Listing, Mark, Node, Partition, Reservation

log = structlog.get_logger()

K = TypeVar("K")
V = TypeVar("V")
N = TypeVar("N", Partition, Reservation)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How often to look, in seconds from the end of one look to the next."""

    busy_s: float = 1.0  # after a change, and at the least
    quiet_s: float = 5.0  # grows to this while nothing changes
    failing_s: float = 15.0  # grows to this while nobody answers
    growth: float = 1.5
    details_s: float = 30.0  # job details that change without the state: at most this old
    full_s: float = 60.0  # without marks: the server's clock may have been set back
    extras_s: float = 60.0  # for so long an extra is part of every look after somebody has asked for it


class Poller:
    """Make it while an event loop runs; `run` does the looking."""

    def __init__(self, client: SlurmClient, clock: Clock, pace: Pace | None = None) -> None:
        self._client, self._clock, self._pace = client, clock, pace or Pace()
        self._memory = _Memory()
        self._listeners: list[Callable[[View], None]] = []
        self._waiting: list[tuple[int, asyncio.Future[View]]] = []
        self._wake = asyncio.Event()
        self._begun = 0
        self._began_s: float | None = None  # of the look under way
        self._wrote_s = self._exact_s = float("-inf")  # when we changed something, and when a look in full began
        self._wanted: dict[Extra, float] = {}  # when each was asked for last
        self._interval_s = self._pace.busy_s
        now = clock.wall()
        why = f"cluster {client.cluster} has not been asked yet"
        self._view: View = Unknown(since_s=clock.monotonic_s(), since=now, why=why)
        self._reachability: Reachability = NotAsked(since=now, why=why)

    @property
    def view(self) -> View:
        return self._view

    @property
    def reachability(self) -> Reachability:
        return self._reachability

    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        """Call back, on the event loop, after each look that differs from the last; the returned function ends it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def wrote(self) -> None:
        """Something was changed through our client, or may have been: what was seen before is not `current`."""
        self._wrote_s = self._clock.monotonic_s()

    async def current(self, extras: Iterable[Extra] = (), *, within_s: float = 30.0) -> View:
        """What is known, with these extras, and from after the last write of ours; a look is waited for if need be."""
        wanted, view, began_s = frozenset(extras), self._view, self._began_s
        will_do = began_s is not None and began_s > self._wrote_s and wanted <= self._extras(began_s)
        self._wanted.update(dict.fromkeys(wanted, self._clock.monotonic_s()))
        if not isinstance(view, Observed) or (view.began_after(self._wrote_s) and wanted <= view.extras):
            return view
        return await self._seen(self._begun if will_do else self._begun + 1, within_s)

    async def fresh(self, max_age_s: float = 0.0, *, extras: Iterable[Extra] = (), within_s: float = 30.0) -> View:
        """A look that began at most `max_age_s` ago; 0: after this call, with every job in full, so that it is a proof.

        Unknown, never an error, if none can be had.
        """
        now_s = self._clock.monotonic_s()
        self._wanted.update(dict.fromkeys(extras, now_s))
        if max_age_s > 0 and isinstance(self._view, Observed) and self._view.age_s(now_s) <= max_age_s:
            return self._view
        return await self._seen(self._look_for(now_s, max_age_s), within_s)

    async def _seen(self, number: int, within_s: float) -> View:
        """That look, or a later one."""
        future: asyncio.Future[View] = asyncio.get_running_loop().create_future()
        self._waiting.append((number, future))
        self._wake.set()
        try:
            async with asyncio.timeout(within_s):
                return await future
        except TimeoutError:
            return _not_seen(self._view, f"cluster {self._client.cluster} was not seen anew within {within_s:g} s")
        finally:
            self._waiting = [waiting for waiting in self._waiting if waiting[1] is not future]

    def _look_for(self, now_s: float, max_age_s: float) -> int:
        """The number of the first look that is new enough: the one under way, or the next."""
        under_way = self._began_s is not None and max_age_s > 0 and now_s - self._began_s <= max_age_s
        return self._begun if under_way else self._begun + 1

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._pace.busy_s)
            if not self._waiting:
                try:
                    async with asyncio.timeout(self._interval_s - self._pace.busy_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass

    async def look(self) -> View:
        """One look, now; tells whoever waits or listens. Never raises."""
        self._wake.clear()
        self._begun += 1
        number, began_s, began = self._begun, self._clock.monotonic_s(), self._clock.wall()
        self._began_s = began_s
        try:
            view = await self._asked(began_s, began)
        finally:
            self._began_s = None
        changed = _differs(self._view, view)
        self._pace_on(view, changed=changed)
        self._view = view
        if changed:
            self._tell(view)
        for wanted, future in self._waiting:
            if wanted <= number and not future.done():
                future.set_result(view)
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > number]
        return view

    async def _asked(self, began_s: float, began: datetime) -> View:
        try:
            view = await self._observed(began_s, began)
        except SlurmError as error:
            self._memory = _Memory()
            return self._unknown(error, began_s, began)
        except Exception as error:  # ours, and it must not end the looking
            log.error(
                "poller bug", cluster=self._client.cluster, stack="".join(traceback.format_tb(error.__traceback__))
            )
            self._memory = _Memory()
            bug = Garbled(Subject(self._client.cluster, "look at", "cluster"), f"a bug of ours: {type(error).__name__}")
            return self._unknown(bug, began_s, began)
        if not isinstance(self._reachability, Reachable) or self._reachability.server != view.server:
            since = self._reachability.since if isinstance(self._reachability, Reachable) else began
            self._reachability = Reachable(since=since, server=view.server)
        return view

    async def _observed(self, began_s: float, began: datetime) -> Observed:
        if isinstance(self._reachability, NotReachable):
            await self._require_slurmctld()
        memory = self._memory
        if began_s - memory.full_s >= self._pace.full_s:
            memory.forget_marks(began_s)
        exact = self._exact_s <= self._wrote_s or any(wanted <= self._begun for wanted, _ in self._waiting)
        extras = self._extras(began_s)
        partitions = await _answered(self._client.partitions) if Extra.PARTITIONS in extras else None
        await self._look_at_nodes(memory, exact=exact)
        await self._look_at_jobs(memory, began_s, exact=exact)
        reservations = await _answered(self._client.reservations) if Extra.RESERVATIONS in extras else None
        memory.remember_extras(partitions, reservations)
        self._exact_s = began_s if exact else self._exact_s
        return Observed(
            nodes=memory.nodes,
            jobs=memory.jobs,
            jobs_by_node=memory.jobs_by_node,
            at_s=began_s,
            at=began,
            server=await self._client.server(),
            since=self._reachability.since if isinstance(self._reachability, Reachable) else began,
            extras=extras,
            partitions=memory.partitions,
            reservations=memory.reservations,
        )

    def _extras(self, began_s: float) -> frozenset[Extra]:
        """Of a look that began then."""
        return frozenset(one for one, asked_s in self._wanted.items() if began_s - asked_s <= self._pace.extras_s)

    async def _require_slurmctld(self) -> None:
        pings = await self._client.ping()
        if not any(ping.responding for ping in pings):
            names = ", ".join(ping.hostname for ping in pings) or "none configured"
            subject = Subject(self._client.cluster, "ping", "slurmctld")
            raise Unreachable(subject, f"no slurmctld answers slurmrestd: {names}", part="slurmctld")

    async def _look_at_nodes(self, memory: "_Memory", *, exact: bool) -> None:
        listing = await self._client.nodes(unless=None if exact else memory.nodes_mark)
        if listing is not None:
            memory.remember_nodes(listing)

    async def _look_at_jobs(self, memory: "_Memory", began_s: float, *, exact: bool) -> None:
        states: Mapping[str, tuple[str, ...]] | None = None
        if memory.jobs_known and not exact and began_s - memory.jobs_s < self._pace.details_s:
            states = await self._client.job_states()
            if states == memory.states:
                return
        listing = await self._client.jobs(unless=memory.jobs_mark)
        memory.jobs_s = began_s
        memory.states = states  # asked for before the jobs were: the jobs are at least as new
        if listing is not None:
            memory.remember_jobs(listing)

    def _unknown(self, error: SlurmError, began_s: float, began: datetime) -> Unknown:
        reason = _reason(error)
        if not isinstance(self._reachability, NotReachable):
            self._reachability = NotReachable(since=began, reason=reason, why=str(error))
        elif (self._reachability.reason, self._reachability.why) != (reason, str(error)):
            self._reachability = NotReachable(since=self._reachability.since, reason=reason, why=str(error))
        if isinstance(self._view, Unknown):
            return Unknown(since_s=self._view.since_s, since=self._view.since, why=str(error), last=self._view.last)
        return Unknown(since_s=began_s, since=began, why=str(error), last=self._view)

    def _pace_on(self, view: View, *, changed: bool) -> None:
        limit_s = self._pace.quiet_s if isinstance(view, Observed) else self._pace.failing_s
        grown_s = min(limit_s, self._interval_s * self._pace.growth)
        self._interval_s = self._pace.busy_s if changed else grown_s

    def _tell(self, view: View) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(view)
            except Exception as error:  # one listener's bug is not the others' trouble
                log.error("listener bug", cluster=self._client.cluster, error=type(error).__name__)


class _Memory:
    """What the last looks found. Written by the look under way only; what it hands out is replaced, never changed."""

    def __init__(self) -> None:
        self.nodes: Mapping[str, Node] = {}
        self.nodes_mark: Mark | None = None
        self.jobs: Mapping[int, Job] = {}
        self.jobs_by_node: Mapping[str, tuple[Job, ...]] = {}
        self.jobs_mark: Mark | None = None
        self.jobs_known = False
        self.jobs_s = 0.0
        self.states: Mapping[str, tuple[str, ...]] | None = None
        self.partitions: Mapping[str, Partition] | None = None
        self.reservations: Mapping[str, Reservation] | None = None
        self.full_s = float("-inf")

    def forget_marks(self, now_s: float) -> None:
        self.nodes_mark = self.jobs_mark = self.states = None
        self.jobs_known = False
        self.full_s = now_s

    def remember_nodes(self, listing: Listing[Node]) -> None:
        nodes = kept_where_equal({node.name: node for node in listing.items}, self.nodes)
        self.nodes = self.nodes if nodes == self.nodes else nodes
        self.nodes_mark = listing.mark

    def remember_jobs(self, listing: Listing[Job]) -> None:
        jobs = kept_where_equal({job.id: job for job in listing.items}, self.jobs)
        if jobs != self.jobs:
            by_node = jobs_by_node(tuple(jobs.values()))
            self.jobs, self.jobs_by_node = jobs, kept_where_equal(by_node, self.jobs_by_node)
        self.jobs_mark = listing.mark
        self.jobs_known = True

    def remember_extras(
        self, partitions: Mapping[str, Partition] | None, reservations: Mapping[str, Reservation] | None
    ) -> None:
        self.partitions = self.partitions if partitions == self.partitions else partitions
        self.reservations = self.reservations if reservations == self.reservations else reservations


async def _answered(ask: Callable[[], Awaitable[tuple[N, ...]]]) -> Mapping[str, N] | None:
    """By name; None if it cannot be had, which makes nothing else unknown."""
    try:
        return {one.name: one for one in await ask()}
    except SlurmError:
        return None


def kept_where_equal(new: Mapping[K, V], old: Mapping[K, V]) -> Mapping[K, V]:
    """With the very values that were known already, so that whoever made something of one sees at a glance it holds."""
    return {key: was if (was := old.get(key)) == value and was is not None else value for key, value in new.items()}


def jobs_by_node(jobs: tuple[Job, ...]) -> Mapping[str, tuple[Job, ...]]:
    """Who holds each node, by job number. Only jobs that hold nodes, or may."""
    held: dict[str, list[Job]] = {}
    for job in sorted((job for job in jobs if job.holds_nodes), key=lambda job: job.id):
        for node in job.nodes:
            held.setdefault(node, []).append(job)
    return {node: tuple(holders) for node, holders in held.items()}


def _differs(before: View, after: View) -> bool:
    match before, after:
        case Observed(), Observed():
            # By identity: the memory hands out the same mapping while its content is the same.
            return (
                before.nodes is not after.nodes
                or before.jobs is not after.jobs
                or before.partitions is not after.partitions
                or before.reservations is not after.reservations
                or before.server != after.server
            )
        case Unknown(), Unknown():
            return before.why != after.why
    return True


def _not_seen(view: View, why: str) -> Unknown:
    """Since it was seen last, or since what was known before."""
    if isinstance(view, Observed):
        return Unknown(since_s=view.at_s, since=view.at, why=why, last=view)
    return Unknown(since_s=view.since_s, since=view.since, why=why, last=view.last)


def _reason(error: SlurmError) -> str:
    """For condition SlurmReachable. Stable: users' alerts name them."""
    match error:
        case Unreachable(part="slurmrestd"):
            return "RestApiUnreachable"
        case Unreachable(part="slurmctld"):
            return "SlurmctldUnreachable"
        case Unreachable():
            return "SlurmdbdUnreachable"
        case TokenUnavailable():
            return "TokenUnavailable"
        case Unauthorized():
            return "TokenRefused"
        case Unsupported():
            return "VersionUnsupported"
        case Garbled():
            return "AnswerGarbled"
    return "SlurmRefused"
