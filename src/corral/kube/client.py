"""The verbs, typed by the object's class: `await client.get(Pod, "web-0", "lab")` is a Pod.

There is no verb that replaces an object (PUT): our models drop fields they do not know, so a decoded object sent back
would erase what a newer API has. What we own is applied; everything else is patched with a precondition.

A kind is a class of ours (`Pod`), or a `Resource` for kinds we have no class for; those come back as `Unstructured`.
Every verb raises what `errors.py` lists and nothing else. Reads and writes have a deadline for all their attempts.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from copy import copy
from typing import Any, TypeVar

from corral.kube import discovery, requests
from corral.kube.answers import Bookmark, Gone, Page, Put
from corral.kube.calls import Calls, CallStatistics, Observer
from corral.kube.codec import decode, decode_deleted, decode_events, decode_list, decode_metadata
from corral.kube.discovery import ServedResource, ServerVersion
from corral.kube.errors import Conflict, Expired, Garbled, Invalid, Unreachable
from corral.kube.execution import ExecResult, RunningCommand, exec_request, run, running
from corral.kube.gate import Gate
from corral.kube.lines import Lines, LineTooLong
from corral.kube.logs import SILENCE_S_MAX, LogOptions, log_lines, log_request
from corral.kube.meta import EMPTY, Object, ObjectMeta, Resource
from corral.kube.retry import Repeat
from corral.kube.scale import Scale
from corral.kube.selection import Precondition, Propagation, Selector
from corral.kube.transport import Fence, Priority, Request, Socket, Stream, Transport
from corral.kube.unstructured import Kind, class_of

__all__ = ["Bookmark", "Client", "Gone", "Page", "Precondition", "Propagation", "Put", "Selector"]

T = TypeVar("T", bound=Object)

EVERYTHING = Selector()
ALL_LOGS = LogOptions()
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)


class Client:
    """See the module's docstring. One Client a process is the rule; it is cheap to share and has no per-call state."""

    def __init__(
        self,
        transport: Transport,
        *,
        gate: Gate | None = None,
        observer: Observer | None = None,
        fence: Fence | None = None,
        luck: Callable[[], float] = random.random,
    ) -> None:
        """`luck`, from [0, 1), spreads the pauses between attempts; a seeded one makes a simulation repeatable."""
        self._calls = Calls(transport, gate=gate, observer=observer, luck=luck)
        self._fence = fence

    def fenced(self, fence: Fence) -> Client:
        """The same client, whose every write asks the fence first; Refused when it says no. Both share one gate."""
        other = copy(self)
        other._fence = fence  # noqa: SLF001 - it is one of us
        return other

    @property
    def may_write(self) -> bool:
        """What the fence says now; for writes that go to another system, and so past this client."""
        return self._fence is None or self._fence()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._calls.close()

    def statistics(self) -> CallStatistics:
        return self._calls.statistics()

    async def get(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        deadline_s: float = requests.READ_S_MAX,
        priority: Priority = Priority.NORMAL,
    ) -> T:
        cls = class_of(kind)
        request = requests.get(cls.resource, name, namespace, priority=priority, deadline_s=deadline_s)
        answer = await self._calls.send(request, Repeat.HARMLESS)
        return decode(cls, answer.body, request.subject)

    async def list_page(
        self,
        kind: Kind[T],
        where: Selector = EVERYTHING,
        *,
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Page[T]:
        """One page; Expired when its continue token is too old. `limit=0` asks for everything at once."""
        cls = class_of(kind)
        request = requests.list_page(
            cls.resource,
            where,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            priority=priority,
        )
        answer = await self._calls.send(request, Repeat.HARMLESS)
        return decode_list(cls, answer.body, request.subject)

    async def list(
        self,
        kind: Kind[T],
        where: Selector = EVERYTHING,
        *,
        limit: int = 500,
        priority: Priority = Priority.NORMAL,
    ) -> Page[T]:
        """All pages in one, all of one version. If the pages expire under way, everything is asked for at once."""
        page = await self.list_page(kind, where, limit=limit, priority=priority)
        items = [*page.items]
        while page.continue_token:
            try:
                page = await self.list_page(
                    kind, where, limit=limit, continue_token=page.continue_token, priority=priority
                )
            except Expired:
                return await self.list_page(kind, where, limit=0, priority=priority)
            items += page.items
        return Page(tuple(items), page.resource_version)

    async def watch(
        self,
        kind: Kind[T],
        where: Selector = EVERYTHING,
        *,
        resource_version: str = "",
        initial_list: bool = False,
        silence_s_max: float = 75.0,
    ) -> AsyncGenerator[Put[T] | Gone[T] | Bookmark, None]:
        """ONE watch, never repeated. Ends when the server closes it; raises what the server or the network says.

        Expired may come at once or within the stream. With `initial_list` the objects come first, and a Bookmark with
        `initial_list_ends` closes them; StreamingListUnsupported when the server or its etcd cannot do that.
        Close it (`contextlib.aclosing`) when leaving early, or the connection stays until it is collected.
        """
        cls = class_of(kind)
        request = requests.watch(cls.resource, where, resource_version=resource_version, initial_list=initial_list)
        async with (
            self._calls.stream(request) as stream,
            aclosing(whole_lines(stream, request, silence_s_max)) as pieces,
        ):
            async for lines in pieces:
                for event in decode_events(cls, lines, request.subject):
                    yield event

    async def create(
        self, obj: T, *, field_manager: str, dry_run: bool = False, priority: Priority = Priority.NORMAL
    ) -> T:
        """AlreadyExists when there is one of that name: nothing is overwritten."""
        request = requests.create(obj, field_manager=field_manager, dry_run=dry_run, priority=priority)
        answer = await self._calls.send(request, Repeat.HARMLESS if dry_run else Repeat.UNSENT, self._fence)
        return decode(type(obj), answer.body, request.subject)

    async def make(self, obj: Object, *, field_manager: str, priority: Priority = Priority.NORMAL) -> ObjectMeta:
        """As `create`, for whoever wants back no more than the metadata; a server that cannot tell less tells all."""
        request = requests.create(
            obj, field_manager=field_manager, dry_run=False, priority=priority, accept=requests.METADATA_ONLY
        )
        answer = await self._calls.send(request, Repeat.UNSENT, self._fence)
        return decode_metadata(answer.body, request.subject)

    async def apply(
        self,
        obj: T,
        *,
        field_manager: str,
        force: bool,
        subresource: str = "",
        dry_run: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> T:
        """Server-side apply: Conflict when another manager owns a field of it, unless `force`."""
        request = requests.apply(
            obj,
            field_manager=field_manager,
            force=force,
            subresource=subresource,
            dry_run=dry_run,
            priority=priority,
        )
        answer = await self._calls.send(request, Repeat.HARMLESS, self._fence)
        return decode(type(obj), answer.body, request.subject)

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        merge: Mapping[str, Any] | None = None,
        json: tuple[Mapping[str, Any], ...] | None = None,
        precondition: Precondition,
        field_manager: str,
        subresource: str = "",
        dry_run: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> T:
        """A merge patch or a JSON patch, exactly one of them; Conflict when the object has become another."""
        cls = class_of(kind)
        request, repeat = requests.patch(
            cls.resource,
            name,
            namespace,
            change=one_change(merge, json),
            precondition=precondition,
            field_manager=field_manager,
            subresource=subresource,
            dry_run=dry_run,
            priority=priority,
        )
        try:
            answer = await self._calls.send(request, repeat, self._fence)
        except Invalid as error:
            raise another_object(error) or error from None
        return decode(cls, answer.body, request.subject)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        precondition: Precondition,
        propagation: Propagation = "Background",
        grace_period_s: int | None = None,
        dry_run: bool = False,
        priority: Priority = Priority.NORMAL,
    ) -> T | None:
        """The object as it was deleted or marked, with its new version; None when the server only said "done"."""
        cls = class_of(kind)
        request, repeat = requests.delete(
            cls.resource,
            name,
            namespace,
            precondition=precondition,
            propagation=propagation,
            grace_period_s=grace_period_s,
            dry_run=dry_run,
            priority=priority,
        )
        answer = await self._calls.send(request, repeat, self._fence)
        return decode_deleted(cls, answer.body, request.subject)

    async def evict(
        self,
        name: str,
        namespace: str,
        *,
        precondition: Precondition,
        grace_period_s: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete a pod if its disruption budgets allow; TooManyRequests when they say not now."""
        request, repeat = requests.evict(
            PODS, name, namespace, precondition=precondition, grace_period_s=grace_period_s, dry_run=dry_run
        )
        await self._calls.send(request, repeat, self._fence)

    async def get_scale(self, kind: Kind[Object], name: str, namespace: str = "") -> Scale:
        request = requests.get(class_of(kind).resource, name, namespace, subresource="scale")
        answer = await self._calls.send(request, Repeat.HARMLESS)
        return decode(Scale, answer.body, request.subject)

    async def set_scale(
        self,
        kind: Kind[Object],
        name: str,
        namespace: str = "",
        *,
        replicas: int,
        precondition: Precondition,
        field_manager: str,
        dry_run: bool = False,
    ) -> Scale:
        request, repeat = requests.patch(
            class_of(kind).resource,
            name,
            namespace,
            change={"spec": {"replicas": replicas}},
            precondition=precondition,
            field_manager=field_manager,
            subresource="scale",
            dry_run=dry_run,
            priority=Priority.NORMAL,
        )
        answer = await self._calls.send(request, repeat, self._fence)
        return decode(Scale, answer.body, request.subject)

    def logs(
        self,
        name: str,
        namespace: str,
        options: LogOptions = ALL_LOGS,
        *,
        silence_s_max: float = SILENCE_S_MAX,
    ) -> AsyncGenerator[str, None]:
        """The lines a container wrote; with `follow`, as it writes them. Close it when leaving early."""
        return log_lines(self._calls, log_request(PODS, name, namespace, options), silence_s_max)

    async def exec(
        self,
        name: str,
        namespace: str,
        command: tuple[str, ...],
        *,
        container: str = "",
        stdin: bytes | None = None,
        run_s_max: float = 60.0,
    ) -> ExecResult:
        """Run a command in a pod to its end. Its exit code is an answer, not an error."""
        request = exec_request(PODS, name, namespace, command, container, stdin=stdin is not None)
        return await run(self._calls, request, self._fence, stdin=stdin, run_s_max=run_s_max)

    def exec_stream(
        self, name: str, namespace: str, command: tuple[str, ...], *, container: str = "", stdin: bool = False
    ) -> AbstractAsyncContextManager[RunningCommand]:
        """Run a command in a pod, writing to it and reading from it as it runs. Leaving the block breaks it off."""
        request = exec_request(PODS, name, namespace, command, container, stdin=stdin)
        return running(self._calls, request, self._fence)

    async def act(
        self, resource: Resource, name: str, namespace: str = "", *, action: str, options: Mapping[str, Any] = EMPTY
    ) -> None:
        """An action below an object, as an API server of others serves it (KubeVirt's `start`). Never sent twice."""
        request = requests.act(resource, name, namespace, action=action, options=options)
        await self._calls.send(request, Repeat.UNSENT, self._fence)

    async def told(self, resource: Resource, name: str, namespace: str = "", *, of: str) -> bytes:
        """What an API server of others tells below an object (KubeVirt's `filesystemlist`), as it came."""
        request = requests.get(resource, name, namespace, subresource=of)
        return (await self._calls.send(request, Repeat.HARMLESS)).body

    def attach(
        self, resource: Resource, name: str, namespace: str = "", *, to: str, subprotocol: str
    ) -> AbstractAsyncContextManager[Socket]:
        """A WebSocket below an object, as an API server of others serves it (KubeVirt's `console`)."""
        request = requests.attach(resource, name, namespace, to=to)
        return self._calls.socket(request, (subprotocol,), self._fence)

    async def server_version(self) -> ServerVersion:
        return await discovery.server_version(self._calls)

    async def resources(self) -> tuple[ServedResource, ...]:
        """Everything the server serves, in the preferred order of its versions."""
        return await discovery.resources(self._calls)

    async def served(self, resource: Resource) -> bool:
        """Whether this very group, version and kind is there."""
        return await discovery.served(self._calls, resource)

    async def openapi_paths(self) -> Mapping[str, str]:
        """Where the OpenAPI v3 document of each group and version is: `apis/apps/v1` -> its path with a hash."""
        return await discovery.openapi_paths(self._calls)

    async def openapi(self, path: str) -> bytes:
        """One document of `openapi_paths`, as it came."""
        return await discovery.openapi(self._calls, path)


async def whole_lines(stream: Stream, request: Request, silence_s_max: float) -> AsyncGenerator[bytes, None]:
    """What came, cut where lines end. A stream that ends within a line was torn."""
    lines = Lines()
    async for chunk in stream.chunks(silence_s_max=silence_s_max):
        try:
            complete = lines.feed(chunk)
        except LineTooLong as error:
            raise Garbled(request.subject, f"cannot read the answer: {error}") from None
        if complete:
            yield complete
    if lines.rest():
        raise Unreachable(request.subject, "the connection broke off within an event")


def one_change(
    merge: Mapping[str, Any] | None, json: tuple[Mapping[str, Any], ...] | None
) -> Mapping[str, Any] | tuple[Mapping[str, Any], ...]:
    if (merge is None) == (json is None):
        raise TypeError("patch() takes exactly one of `merge` and `json`")
    return merge if merge is not None else json or ()


def another_object(error: Invalid) -> Conflict | None:
    """A patch that carries the uid of another object is refused as an attempt to change the uid (422): we mean 409."""
    if all(cause.field != "metadata.uid" for cause in error.causes):
        return None
    return Conflict(error.subject, error.message, status=409, reason="Conflict", causes=error.causes)
