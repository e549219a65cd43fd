"""Follow a kind for ever: a full picture first, then every change, with nothing lost between connections.

`follow` is a thin loop around two pure functions: `advance` (the server said something) and `recover` (it failed, or
the stream ended). Both map a state to the next one, with the events for the consumer. Objects are not kept here.

States, and what leads out of them
    Streaming   the server sends its list over the watch    its closing bookmark         -> Watching
                                                            the server cannot do it      -> Paging
                                                            anything else                -> Streaming, from nothing
    Paging      the list comes in pages                     the last page                -> Watching
                                                            a failed page, 410           -> Paging, from nothing
    Watching    changes since `version` come                the server ends the watch    -> Watching, from `version`
                                                            410, history went backwards  -> Streaming or Paging
                                                            anything else                -> Probing
    Probing     after a gap: is the server's version        yes                          -> Watching, from `version`
                at least ours?                              no                           -> Streaming or Paging

Why Probing: a server whose etcd was restored from a backup is behind us. It accepts a watch from a version that it has
not reached, and says nothing until it has; all that happens up to there would be lost. (If it has overtaken us before
we ask, nobody can tell. That is why etcd's restore has `--bump-revision` and `--mark-compacted`.)

Guarantees. Between InitStart and InitDone comes everything that exists; a broken attempt is followed by another
InitStart. After InitDone(version) every change after `version` comes at least once, until the next InitStart.
Deletions during a gap do not come as Gone: they are what is missing from the next full picture.

Caveats. Events may repeat and, from a confused server, come late: the consumer ignores what it already knows.
A kind that the server does not serve (404) is trouble, not an empty list: what was known stays known until the server
says otherwise.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import Generic, TypeVar

import msgspec

from corral.kube.client import Bookmark, Client, Gone, Page, Put, Selector
from corral.kube.errors import (
    ApiError,
    Expired,
    Garbled,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    ServerTimeout,
    StreamingListUnsupported,
    Unreachable,
)
from corral.kube.meta import Object

T = TypeVar("T", bound=Object)

EVERYTHING = Selector()
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.8, 30.0  # as client-go's reflector
FAILURES_MAX = 3  # a way to list or resume that failed so often in a row is left for the other one
SILENCE_S_MAX = 75.0  # a little more than a minute: a server that lives sends a bookmark every minute
PAGE_SIZE = 500  # client-go's default; a page of pods is then some 2 MiB


class InitStart(msgspec.Struct, frozen=True):
    """A full picture begins; forget what an unfinished one has brought."""


class InitPut(msgspec.Struct, Generic[T], frozen=True):
    objects: tuple[T, ...]


class InitGone(msgspec.Struct, Generic[T], frozen=True):
    """Went while the picture was coming."""

    object: T


class InitDone(msgspec.Struct, frozen=True):
    """The picture is complete and true at `version`; what it does not contain does not exist."""

    version: str


class Progress(msgspec.Struct, frozen=True):
    """Everything up to `version` has come, though nothing changed."""

    version: str


class Trouble(msgspec.Struct, frozen=True):
    """We may be out of date, and try again in `retry_s`. Over with the next InitDone, Put, Gone or Progress."""

    reason: str
    message: str
    retry_s: float


Event = InitStart | InitPut[T] | InitGone[T] | InitDone | Put[T] | Gone[T] | Progress | Trouble


class Streaming(msgspec.Struct, frozen=True):
    failures: int = 0


class Paging(msgspec.Struct, frozen=True):
    failures: int = 0
    continue_token: str = ""
    at_once: bool = False  # after the pages expired under way: one page with everything cannot


class Watching(msgspec.Struct, frozen=True):
    """Everything up to `version` has been given to the consumer. `heard`: this connection has brought something."""

    version: str
    failures: int = 0
    heard: bool = False


class Probing(msgspec.Struct, frozen=True):
    """As Watching, but the connection broke: first see whether the server still has what we have seen."""

    version: str
    failures: int = 0


State = Streaming | Paging | Watching | Probing


class Ended(msgspec.Struct, frozen=True):
    """The server closed the stream, as it may at any time. Trouble only when nothing came before."""

    def __str__(self) -> str:
        return "the server closed the watch before it sent anything of use"


class Step(msgspec.Struct, Generic[T], frozen=True):
    state: State
    events: tuple[Event[T], ...] = ()
    reconnect: bool = False  # the open stream, if any, is of no more use
    pause_s: float = 0.0
    cannot_stream: bool = False  # learnt: this server does not stream lists


class Server:
    """What is known of one API server, shared by all who follow kinds on it."""

    def __init__(self) -> None:
        self.streams_lists = True  # until it says that it cannot


async def follow(
    client: Client,
    kind: type[T],
    where: Selector = EVERYTHING,
    *,
    server: Server,
    random: Random,
    silence_s_max: float = SILENCE_S_MAX,
) -> AsyncGenerator[Event[T], None]:
    """Yield events for ever. Trouble with the server is an event, never an exception; cancel or close to stop."""
    state = fresh(0, streams_lists=server.streams_lists)
    while True:
        if isinstance(state, Streaming) or (isinstance(state, Paging) and not state.continue_token):
            yield InitStart()
        trouble: KubeError | Ended = Ended()
        reconnect = False
        try:
            async with aclosing(answers(client, kind, where, state, silence_s_max)) as said:
                async for answer in said:
                    step = advance(state, answer, streams_lists=server.streams_lists)
                    state, reconnect = step.state, step.reconnect
                    server.streams_lists = server.streams_lists and not step.cannot_stream
                    for event in step.events:
                        yield event
                    if reconnect:
                        break
        except KubeError as error:
            trouble = error
        if not reconnect:
            failed: Step[T] = recover(state, trouble, streams_lists=server.streams_lists, jitter=random.random())
            state = failed.state
            server.streams_lists = server.streams_lists and not failed.cannot_stream
            for trouble_event in failed.events:
                yield trouble_event
            await asyncio.sleep(failed.pause_s)


def answers(
    client: Client, kind: type[T], where: Selector, state: State, silence_s_max: float
) -> AsyncGenerator[Page[T] | Put[T] | Gone[T] | Bookmark, None]:
    """Ask the server what the state asks for, once."""
    match state:
        case Probing():
            return _one_page(client, kind, where, limit=1)
        case Paging(continue_token=token, at_once=at_once):
            return _one_page(client, kind, where, limit=0 if at_once else PAGE_SIZE, continue_token=token)
        case Watching(version):
            return client.watch(kind, where, resource_version=version, silence_s_max=silence_s_max)
        case Streaming():
            return client.watch(kind, where, initial_list=True, silence_s_max=silence_s_max)


async def _one_page(
    client: Client, kind: type[T], where: Selector, *, limit: int, continue_token: str = ""
) -> AsyncGenerator[Page[T], None]:
    yield await client.list_page(kind, where, limit=limit, continue_token=continue_token)


def fresh(failures: int, *, streams_lists: bool) -> State:
    """Where a full picture begins. When one way keeps failing (a proxy that cuts long answers), take turns."""
    other_ways_turn = failures // FAILURES_MAX % 2 == 1
    return Streaming(failures) if streams_lists and not other_ways_turn else Paging(failures)


def advance(state: State, said: Page[T] | Put[T] | Gone[T] | Bookmark, *, streams_lists: bool) -> Step[T]:
    """The server said something."""
    if isinstance(state, Watching):
        return watched(state, said, streams_lists=streams_lists)
    if isinstance(state, Probing):
        return probed(state, said, streams_lists=streams_lists)
    match said:
        case Page(items, version, token):
            if token:
                return Step(Paging(state.failures, token), (InitPut(items),), reconnect=True)
            return Step(Watching(version, state.failures), (InitPut(items), InitDone(version)), reconnect=True)
        case Put(obj):
            return Step(state, (InitPut((obj,)),))
        case Gone(obj):
            return Step(state, (InitGone(obj),))
        case Bookmark(version, initial_list_ends=True):
            return Step(Watching(version, state.failures), (InitDone(version),))
        case Bookmark():
            # No bookmark comes before the closing one from a server that understood what we asked for.
            return Step(Paging(state.failures), reconnect=True, cannot_stream=True)


def watched(state: Watching, said: Page[T] | Put[T] | Gone[T] | Bookmark, *, streams_lists: bool) -> Step[T]:
    match said:
        case Put(obj) | Gone(obj):
            return Step(Watching(later(state.version, obj.metadata.resource_version), 0, True), (said,))
        case Bookmark(version) if later(state.version, version) == version:
            return Step(Watching(version, 0, True), (Progress(version),))
    # History went backwards: a backup was restored under a running server. Only a list can tell what is true now.
    return Step(fresh(state.failures, streams_lists=streams_lists), reconnect=True)


def probed(state: Probing, said: Page[T] | Put[T] | Gone[T] | Bookmark, *, streams_lists: bool) -> Step[T]:
    reached = isinstance(said, Page) and later(state.version, said.resource_version) == said.resource_version
    resumed = Watching(state.version, state.failures)
    return Step(resumed if reached else fresh(state.failures, streams_lists=streams_lists), reconnect=True)


def recover(state: State, trouble: KubeError | Ended, *, streams_lists: bool, jitter: float) -> Step[T]:
    """The answer failed, or the stream ended. `jitter` is from [0, 1)."""
    if isinstance(trouble, Ended) and isinstance(state, Watching) and state.heard:
        return Step(Watching(state.version))
    if isinstance(trouble, StreamingListUnsupported) and isinstance(state, Streaming):
        return Step(Paging(state.failures), cannot_stream=True)
    pause_s = backoff_s(state.failures, jitter)
    if isinstance(trouble, ApiError) and trouble.retry_after_s is not None:
        pause_s = max(pause_s, trouble.retry_after_s * (1 + jitter))
    told = Trouble(type(trouble).__name__, str(trouble), pause_s)
    return Step(after_failure(state, trouble, streams_lists=streams_lists), (told,), pause_s=pause_s)


def after_failure(state: State, trouble: KubeError | Ended, *, streams_lists: bool) -> State:
    failures = state.failures + 1
    worth_resuming = failures < FAILURES_MAX or isinstance(trouble, Unreachable)
    if isinstance(state, Watching | Probing) and worth_resuming and not needs_list(trouble):
        return Probing(state.version, failures)
    if isinstance(state, Streaming) and isinstance(trouble, Invalid | ServerError):
        return Paging(failures)
    if isinstance(state, Paging) and isinstance(trouble, Expired):
        return Paging(failures, at_once=True)
    return fresh(failures, streams_lists=streams_lists)


def needs_list(trouble: KubeError | Ended) -> bool:
    """Whether the version that we watch from is of no more use."""
    return isinstance(trouble, Expired | NotFound | Invalid | Garbled) or is_version_too_large(trouble)


def is_version_too_large(trouble: KubeError | Ended) -> bool:
    """The server has not come as far as we have: it lags, or its history was set back. A list is right for both."""
    return isinstance(trouble, ServerTimeout) and (
        any(cause.reason == "ResourceVersionTooLarge" for cause in trouble.causes)
        or "Too large resource version" in trouble.message
    )


def backoff_s(failures: int, jitter: float) -> float:
    return float(min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2 ** min(failures, 10))) * (1 + jitter) / 2


def version_number(version: str) -> int | None:
    """A resourceVersion as a number that can be compared, or None where the API numbers its versions otherwise."""
    return int(version) if version.isdecimal() else None


def later(version: str, other: str) -> str:
    """The later of two versions; where they are no numbers, the one that came last: `other`."""
    if version.isdecimal() and other.isdecimal() and int(version) > int(other):
        return version
    return other
