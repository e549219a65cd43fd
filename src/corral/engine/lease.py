"""Leader election on a Lease: of several processes at most one writes.

`decide` is the election: a pure function of the lease as last seen and of local time. `Election` carries it out.
`Election.may_write` is the fence: the client calls it, without an await, right before each write is sent.

Theory of operation. Clocks of different machines are never compared. A candidate measures, on its own clock, for how
long the lease has not changed; only when that is longer than the lease's duration does it take over. The leader counts
from the moment at which it *started* the last renewal that succeeded, and stops writing `renew_deadline_s` after it.
The others saw the lease change later than that, and wait for `duration_s`: the difference of both, in which nobody
writes, is for writes that are still under way.

A leader that was late once has lost, also if nobody took the lease meanwhile: what it was doing was decided by a
leader, and it may not be one any more. The process ends and starts again as a candidate.
"""

import asyncio
from collections.abc import Mapping

import msgspec
import structlog

from corral.engine.clock import Clock
from corral.kube.client import Client, Precondition
from corral.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from corral.kube.meta import ObjectMeta
from corral.kube.models.coordination_v1 import Lease, LeaseSpec
from corral.kube.transport import Priority
from corral.kube.values import micro_time

log = structlog.get_logger(__name__)


class Terms(msgspec.Struct, frozen=True):
    """As client-go's defaults."""

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


TERMS = Terms()


class Observed(msgspec.Struct, frozen=True):
    """A lease, and since when (on our clock) it has not changed."""

    lease: Lease
    since_s: float


class Create(msgspec.Struct, frozen=True):
    """There is no lease yet."""


class Take(msgspec.Struct, frozen=True):
    """Nobody holds it any more."""

    transitions: int


class Renew(msgspec.Struct, frozen=True):
    """It is ours."""


class Wait(msgspec.Struct, frozen=True):
    """Another holds it, at least until `until_s`."""

    holder: str
    until_s: float


Decision = Create | Take | Renew | Wait


def observe(known: Observed | None, lease: Lease, now_s: float) -> Observed:
    """Its age starts anew when its spec changes; what people write elsewhere on the lease does not count."""
    return Observed(lease, known.since_s if known is not None and known.lease.spec == lease.spec else now_s)


def decide(identity: str, observed: Observed | None, now_s: float) -> Decision:
    if observed is None:
        return Create()
    spec = observed.lease.spec
    if spec.holder_identity == identity:
        return Renew()
    until_s = observed.since_s + (spec.lease_duration_seconds or 0)
    if spec.holder_identity and now_s < until_s:
        return Wait(spec.holder_identity, until_s)
    return Take((spec.lease_transitions or 0) + 1)


class LeaseLost(Exception):
    """We led and may not any more. The process should end: another may be leading already."""


class ElectionStatistics(msgspec.Struct, frozen=True):
    identity: str
    holder: str  # as last seen; empty when nobody holds it
    leading: bool
    transitions: int  # of the lease, since it was made
    renewed_s_ago: float | None
    failures: int  # attempts to get or renew it that failed, in a row
    trouble: str  # the last of them, as a sentence


class Election:
    """One candidate. `identity` must be unique to the process, also across restarts."""

    def __init__(
        self, client: Client, clock: Clock, *, name: str, namespace: str, identity: str, terms: Terms = TERMS
    ) -> None:
        self._client, self._clock, self._terms = client, clock, terms
        self._name, self._namespace, self._identity = name, namespace, identity
        self._observed: Observed | None = None
        self._renewed_s: float | None = None  # start of the last renewal that succeeded
        self._lost = False
        self._failures = 0
        self._trouble = ""

    def may_write(self) -> bool:
        """Whether the lease is certainly ours now. Never awaits; once it said no after yes, it says no for ever."""
        if self._renewed_s is None or self._lost:
            return False
        if self._clock.boottime_s() - self._renewed_s >= self._terms.renew_deadline_s:
            self._lost = True
        return not self._lost

    async def acquire(self) -> None:
        """Return when we lead, however long that takes. An election that was lost or released is over: make another."""
        while not self.may_write():
            if self._lost:
                raise LeaseLost(self._lost_because())
            pause_s = await self._round()
            if not self.may_write():
                await asyncio.sleep(pause_s)

    async def hold(self) -> None:
        """Renew until cancelled; raise LeaseLost as soon as we may not write any more."""
        pause_s = self._terms.retry_s
        while True:
            await asyncio.sleep(pause_s)
            if self.may_write():
                pause_s = await self._round()
            if not self.may_write():
                raise LeaseLost(self._lost_because())

    async def release(self) -> None:
        """Stop writing, and let another lead at once. Call it when no write is under way; failing to is harmless."""
        leading, self._lost = self.may_write(), True
        if not leading or self._observed is None:
            return
        freed = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_time(self._clock.wall())}
        try:
            try:
                await self._patch(self._observed.lease, freed)
            except Conflict:  # a renewal that was cancelled may have been done: its answer was not waited for
                lease = await self._client.get(Lease, self._name, self._namespace, priority=Priority.LEASE)
                if lease.spec.holder_identity == self._identity:
                    await self._patch(lease, freed)
        except KubeError as error:
            log.warning("lease not released", lease=self._name, reason=str(error))

    def statistics(self) -> ElectionStatistics:
        spec = LeaseSpec() if self._observed is None else self._observed.lease.spec
        return ElectionStatistics(
            identity=self._identity,
            holder=spec.holder_identity or "",
            leading=self.may_write(),
            transitions=spec.lease_transitions or 0,
            renewed_s_ago=None if self._renewed_s is None else self._clock.boottime_s() - self._renewed_s,
            failures=self._failures,
            trouble=self._trouble,
        )

    async def _round(self) -> float:
        """One attempt; returns how long to wait for the next. What failed is tried again: the deadline decides."""
        started_s = self._clock.monotonic_s()
        attempt_s_max = self._terms.renew_deadline_s / 3  # a request that hangs leaves time for two others
        try:
            async with asyncio.timeout(attempt_s_max):
                await self._look_and_write()
        except (KubeError, TimeoutError) as error:
            self._failures += 1
            self._trouble = str(error) or f"no answer about the lease within {attempt_s_max:.1f} s"
            log.warning("lease not renewed" if self.may_write() else "lease not taken", reason=self._trouble)
        period_s = self._terms.retry_s * (1 + self._clock.random.random() / 5)
        return max(0.0, period_s - (self._clock.monotonic_s() - started_s))

    async def _look_and_write(self) -> None:
        if not self.may_write():
            await self._look()  # a leader knows the lease: it wrote it last
        try:
            await self._decide_and_write()
        except (Conflict, NotFound, AlreadyExists):
            await self._look()
            if not self._is_still_ours():
                raise
            await self._decide_and_write()  # somebody labelled or deleted it, or the answer to our renewal was lost

    async def _decide_and_write(self) -> None:
        started_s = self._clock.boottime_s()
        lease = await self._write(decide(self._identity, self._observed, started_s))
        if lease is None or self._lost or (self._renewed_s is not None and not self.may_write()):
            return  # not ours, released meanwhile, or renewed too late
        self._renewed_s = started_s
        self._observed = Observed(lease, started_s)
        self._failures, self._trouble = 0, ""

    def _is_still_ours(self) -> bool:
        """We led, and the server did not accept our renewal: whose is it?"""
        if self._renewed_s is None:
            return False
        holder = self._observed.lease.spec.holder_identity if self._observed is not None else ""
        if holder and holder != self._identity:
            self._lost = True
        return self.may_write()

    async def _look(self) -> None:
        try:
            lease = await self._client.get(Lease, self._name, self._namespace, priority=Priority.LEASE)
        except NotFound:
            self._observed = None
        else:
            self._observed = observe(self._observed, lease, self._clock.boottime_s())

    async def _write(self, decision: Decision) -> Lease | None:
        now = micro_time(self._clock.wall())
        ours: dict[str, object] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._terms.duration_s,
            "renewTime": now,
        }
        match decision:
            case Wait():
                return None
            case Create():
                metadata = ObjectMeta(name=self._name, namespace=self._namespace)
                spec = msgspec.convert({**ours, "acquireTime": now, "leaseTransitions": 0}, LeaseSpec)
                return await self._client.create(
                    Lease(metadata=metadata, spec=spec), field_manager=FIELD_MANAGER, priority=Priority.LEASE
                )
            case Take(transitions):
                ours |= {"acquireTime": now, "leaseTransitions": transitions}
            case Renew():
                pass
        assert self._observed is not None  # noqa: S101
        return await self._patch(self._observed.lease, ours)

    async def _patch(self, lease: Lease, spec: Mapping[str, object]) -> Lease:
        return await self._client.patch(
            Lease,
            self._name,
            self._namespace,
            merge={"spec": spec},
            precondition=Precondition.of(lease),
            field_manager=FIELD_MANAGER,
            priority=Priority.LEASE,
        )

    def _lost_because(self) -> str:
        holder = self.statistics().holder
        lease = f"lease {self._namespace}/{self._name}"
        if holder and holder != self._identity:
            return f"{lease} is now held by {holder}"
        return (
            f"{lease} was not renewed within {self._terms.renew_deadline_s:g} s: {self._trouble or 'we were suspended'}"
        )


FIELD_MANAGER = "corral-lease"
