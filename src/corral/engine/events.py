"""Tell people what happened: events of events.k8s.io/v1, repeated ones as a series, never at the cost of a pass.

`tell` is synchronous: it counts, and perhaps queues. A background task sends. Telling is best effort by design: what
does not fit the queue, comes too often, or cannot be written is dropped and counted, and no pass ever waits for it.

Theory of operation. Events that say the same about the same object (object, reason, note, type) within six minutes are
one Event object whose `series.count` grows; counts are written every ten seconds at most. A new Event takes a token of
its object: 25 at once, then one in five minutes (client-go's figures), so that an object in trouble cannot flood etcd.
"""

import asyncio
from collections import OrderedDict, deque
from datetime import timedelta

import msgspec

from corral.engine.actions import EmitEvent, Target
from corral.engine.clock import Clock
from corral.kube.client import Client, Precondition
from corral.kube.errors import KubeError
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ObjectReference
from corral.kube.models.events_v1 import Event
from corral.kube.transport import Priority
from corral.kube.values import micro_time

SERIES_ENDS_AFTER_S = 360.0
SERIES_WRITTEN_EVERY_S = 10.0
SERIES_MAX = 2048
TOKENS_MAX = 25.0
TOKEN_EVERY_S = 300.0
PENDING_MAX = 1000
NOTE_BYTES_MAX = 1024  # more is refused by the server


class RecorderStatistics(msgspec.Struct, frozen=True):
    told: int
    written: int
    repeated: int  # of those told, counted in a series
    dropped: int  # too many at once or too often
    failed: int  # the server did not take it
    pending: int


class _Told:
    """One Event object and how often it was said. `uid` is empty until the server has it."""

    def __init__(self, event: Event, now_s: float) -> None:
        self.event = event
        self.uid = ""
        self.count = self.count_written = 1
        self.last_s = now_s

    def forget(self) -> None:
        """The server does not have it: the next one like it is no repetition, and is told anew."""
        self.uid, self.last_s = "", -SERIES_ENDS_AFTER_S


_Saying = tuple[str, str, str, str, str]  # controller, uid, type, reason, note


class Recorder:
    """One per process. `run` must run for anything to be sent; `flush` sends what is left at the end."""

    def __init__(self, client: Client, clock: Clock, *, instance: str) -> None:
        self._client = client
        self._clock = clock
        self._instance = instance
        self._sayings: OrderedDict[_Saying, _Told] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()  # uid -> tokens, as of when
        self._new: deque[_Told] = deque()
        self._wake = asyncio.Event()
        self._told = self._written = self._repeated = self._dropped = self._failed = 0

    def tell(self, controller: str, said: EmitEvent) -> None:
        self._told += 1
        now_s = self._clock.monotonic_s()
        saying = (controller, said.regarding.uid, said.type, said.reason, said.message)
        known = self._sayings.get(saying)
        if known is not None and now_s - known.last_s < SERIES_ENDS_AFTER_S:
            known.count += 1
            known.last_s = now_s
            self._repeated += 1
        elif len(self._new) >= PENDING_MAX or not self._takes_token(said.regarding.uid, now_s):
            self._dropped += 1
        else:
            fresh = _Told(self._event(controller, said), now_s)
            self._remember(saying, fresh)
            self._new.append(fresh)
            self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_new_ones())
            tasks.create_task(self._write_counts_regularly())

    async def flush(self) -> None:
        """Send everything that was told. Put a deadline around it."""
        while self._new:
            await self._send(self._new.popleft())
        await self._write_counts()

    def statistics(self) -> RecorderStatistics:
        return RecorderStatistics(
            self._told, self._written, self._repeated, self._dropped, self._failed, len(self._new)
        )

    async def _send_new_ones(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._new:
                await self._send(self._new.popleft())

    async def _write_counts_regularly(self) -> None:
        while True:
            await asyncio.sleep(SERIES_WRITTEN_EVERY_S)
            await self._write_counts()

    async def _write_counts(self) -> None:
        for told in [told for told in self._sayings.values() if told.uid and told.count > told.count_written]:
            await self._write_count(told)

    async def _send(self, told: _Told) -> None:
        event = told.event
        try:
            answer = await self._client.create(event, field_manager=event.reporting_controller, priority=Priority.BULK)
        except KubeError:
            self._failed += 1
            told.forget()
            return
        self._written += 1
        told.uid = answer.metadata.uid

    async def _write_count(self, told: _Told) -> None:
        count, event = told.count, told.event
        seen = micro_time(self._clock.wall() - timedelta(seconds=self._clock.monotonic_s() - told.last_s))
        try:
            await self._client.patch(
                Event,
                event.metadata.name,
                event.metadata.namespace,
                merge={"series": {"count": count, "lastObservedTime": seen}},
                precondition=Precondition(uid=told.uid),
                field_manager=event.reporting_controller,
                priority=Priority.BULK,
            )
        except KubeError:  # most often: the server has let it expire; the next one like it begins anew
            self._failed += 1
            told.forget()
            return
        told.count_written = count
        self._written += 1

    def _event(self, controller: str, said: EmitEvent) -> Event:
        at = said.regarding
        suffix = f"{self._clock.random.getrandbits(64):016x}"
        meta = ObjectMeta(name=f"{at.name[:236]}.{suffix}", namespace=at.namespace or "default")
        return Event(
            metadata=meta,
            event_time=micro_time(self._clock.wall()),
            reporting_controller=controller,
            reporting_instance=self._instance,
            action=said.action,
            reason=said.reason,
            regarding=_reference(at),
            related=_reference(said.related) if said.related else None,
            note=note_of(said.message),
            type=said.type,
        )

    def _takes_token(self, uid: str, now_s: float) -> bool:
        left, as_of_s = self._tokens.pop(uid, (TOKENS_MAX, now_s))
        left = min(TOKENS_MAX, left + (now_s - as_of_s) / TOKEN_EVERY_S)
        self._tokens[uid] = (left - 1 if left >= 1 else left, now_s)
        if len(self._tokens) > SERIES_MAX:
            self._tokens.popitem(last=False)
        return left >= 1

    def _remember(self, saying: _Saying, told: _Told) -> None:
        self._sayings.pop(saying, None)
        self._sayings[saying] = told
        if len(self._sayings) > SERIES_MAX:
            self._sayings.popitem(last=False)


def note_of(message: str) -> str:
    """As much of it as the server takes."""
    whole = message.encode()
    if len(whole) <= NOTE_BYTES_MAX:
        return message
    return whole[: NOTE_BYTES_MAX - 3].decode(errors="ignore") + "..."


def _reference(at: Target) -> ObjectReference:
    resource = at.kind.resource
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=at.namespace,
        name=at.name,
        uid=at.uid,
        resource_version=at.resource_version,
    )
