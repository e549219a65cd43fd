"""What can go wrong between a client and the server, as values: by chance (`Faults`) or exactly (`Scripted`).

A run is repeatable from its seed: chance is drawn in the order in which requests reach the server, which in one event
loop with virtual time is always the same.
"""

import enum
from random import Random
from typing import Final

import msgspec

from corral.testing.apiserver.routes import Call


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Probabilities (`_p`) and durations. The default is a server without faults."""

    # For each request, before it is carried out:
    refuse_p: float = 0.0  # connection refused
    conflict_p: float = 0.0  # a write is answered 409 and not done
    throttle_p: float = 0.0  # 429
    retry_after_s: int = 1  # what a 429 says
    server_error_p: float = 0.0  # 500
    # For each request, around its being carried out:
    slow_p: float = 0.0
    slow_s_max: float = 2.0
    # For each write, after it is done:
    lose_answer_p: float = 0.0  # the connection breaks: the client cannot know
    compact_p: float = 0.0  # all history so far is forgotten
    # For each request: the server dies after it and is away for a while; all watches break.
    restart_p: float = 0.0
    restart_s_max: float = 5.0
    # For each watch that is opened:
    expire_p: float = 0.0  # 410, as HTTP status or within the stream
    # For each event that is sent:
    drop_p: float = 0.0  # the connection breaks, maybe within the line
    stall_p: float = 0.0  # nothing is sent any more, and nothing is closed
    delay_p: float = 0.0
    delay_s_max: float = 2.0
    repeat_p: float = 0.0  # an event sent before is sent again: a duplicate, and out of order
    tear_p: float = 0.0  # the bytes arrive in pieces that end anywhere


NONE: Final = Faults()

ROUGH: Final = Faults(
    refuse_p=0.03,
    conflict_p=0.03,
    throttle_p=0.03,
    server_error_p=0.03,
    slow_p=0.1,
    lose_answer_p=0.03,
    compact_p=0.02,
    restart_p=0.005,
    expire_p=0.05,
    drop_p=0.03,
    stall_p=0.01,
    delay_p=0.1,
    repeat_p=0.05,
    tear_p=0.2,
)


class Fault(enum.Enum):
    """What `fail_next` can ask for."""

    REFUSE = "connection refused; nothing done"
    LOSE_ANSWER = "done, but the answer is lost"
    HANG = "done, but no answer comes until the deadline"
    SLOW = "answered late"
    CONFLICT = "409"
    THROTTLE = "429"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    TIMEOUT = "504"
    UNAUTHORIZED = "401"
    FORBID = "403"
    EXPIRE = "410 as HTTP status"
    EXPIRE_IN_STREAM = "200, then an ERROR event with 410"
    GARBLE = "200 with bytes that are not JSON"


class Scripted(msgspec.Struct, frozen=True, kw_only=True):
    """A fault for the next `times` requests that match. Empty means any."""

    fault: Fault
    method: str = ""
    resource: str = ""  # plural and group
    name: str = ""
    client: str = ""
    watch: bool | None = None
    times: int = 1

    def matches(self, call: Call, client: str) -> bool:
        return (
            self.method in ("", call.method)
            and self.resource in ("", call.served.resource.plural_and_group)
            and self.name in ("", call.name)
            and self.client in ("", client)
            and self.watch in (None, call.is_watch)
        )


class Fate(msgspec.Struct, frozen=True):
    """What happens to one request."""

    fault: Fault | None = None
    retry_after_s: int = 1
    before_s: float = 0.0
    after_s: float = 0.0
    restart_s: float = 0.0
    compact: bool = False


class SendFate(enum.Enum):
    """What happens to one event of a watch."""

    SENT = enum.auto()
    DROPPED = enum.auto()
    STALLED = enum.auto()
    REPEATED = enum.auto()


class Chance:
    """Draws fates. Requests and watches have streams of their own, so that more of one leaves the other as it was."""

    def __init__(self, seed: int) -> None:
        self._requests = Random(f"{seed} requests")  # noqa: S311 (repeatable on purpose)
        self._watches = Random(f"{seed} watches")  # noqa: S311

    def request_fate(self, faults: Faults, call: Call) -> Fate:
        draw = self._requests.random
        fault = self._fault_of_watch(faults) if call.is_watch else self._fault_of_request(faults, call)
        slow = draw() < faults.slow_p
        restarts = draw() < faults.restart_p
        return Fate(
            fault=fault,
            retry_after_s=faults.retry_after_s,
            before_s=self._requests.uniform(0, faults.slow_s_max) if slow else 0.0,
            after_s=self._requests.uniform(0, faults.slow_s_max) if slow else 0.0,
            restart_s=self._requests.uniform(0, faults.restart_s_max) if restarts else 0.0,
            compact=call.is_write and draw() < faults.compact_p,
        )

    def _fault_of_watch(self, faults: Faults) -> Fault | None:
        if self._requests.random() < faults.expire_p:
            return self._requests.choice((Fault.EXPIRE, Fault.EXPIRE_IN_STREAM))
        return self._first({Fault.REFUSE: faults.refuse_p, Fault.SERVER_ERROR: faults.server_error_p})

    def _fault_of_request(self, faults: Faults, call: Call) -> Fault | None:
        return self._first(
            {
                Fault.REFUSE: faults.refuse_p,
                Fault.CONFLICT: faults.conflict_p if call.is_write else 0.0,
                Fault.THROTTLE: faults.throttle_p,
                Fault.SERVER_ERROR: faults.server_error_p,
                Fault.LOSE_ANSWER: faults.lose_answer_p if call.is_write else 0.0,
            }
        )

    def _first(self, chances: dict[Fault, float]) -> Fault | None:
        draw = self._requests.random()
        for fault, probability in chances.items():
            if draw < probability:
                return fault
            draw -= probability
        return None

    def send_fate(self, faults: Faults) -> SendFate:
        draw = self._watches.random()
        for fate, probability in (
            (SendFate.DROPPED, faults.drop_p),
            (SendFate.STALLED, faults.stall_p),
            (SendFate.REPEATED, faults.repeat_p),
        ):
            if draw < probability:
                return fate
            draw -= probability
        return SendFate.SENT

    def delay_s(self, faults: Faults) -> float:
        return self._watches.uniform(0, faults.delay_s_max) if self._watches.random() < faults.delay_p else 0.0

    def pick(self, lines: list[bytes]) -> bytes:
        return self._watches.choice(lines)

    def torn(self, faults: Faults, data: bytes) -> list[bytes]:
        """`data` in one piece or in several; never an empty one."""
        if len(data) < 2 or self._watches.random() >= faults.tear_p:
            return [data]
        cuts = sorted({self._watches.randrange(1, len(data)) for _ in range(self._watches.randint(1, 3))})
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
