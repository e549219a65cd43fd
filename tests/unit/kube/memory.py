"""A transport in memory: answers are prepared in order, requests are kept to be looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

import msgspec

from corral.kube.errors import Unreachable
from corral.kube.meta import EMPTY, Model, Object, ObjectMeta, Resource
from corral.kube.transport import Request, Response, Socket, Stream

Answer = Response | Exception | Callable[[Request], Awaitable[Response]]


class PodSpec(Model, frozen=True, kw_only=True):
    node_name: str = ""


class Pod(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("", "v1", "Pod", "pods", namespaced=True)
    spec: PodSpec = PodSpec()


class Node(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("", "v1", "Node", "nodes", namespaced=False)


DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)


def a_pod(name: str = "web", namespace: str = "lab", *, version: str = "", uid: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, resource_version=version, uid=uid))


def answer(content: object, status: int = 200, headers: Mapping[str, str] = EMPTY) -> Response:
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(status=status, headers=headers, body=body)


def refusal(status: int, reason: str = "", message: str = "no", **more: object) -> Response:
    return answer({"kind": "Status", "code": status, "reason": reason, "message": message, **more}, status)


class MemoryStream:
    def __init__(self, chunks: tuple[bytes | Exception, ...], status: int = 200) -> None:
        self.status = status
        self.headers: Mapping[str, str] = EMPTY
        self.closed = False
        self._chunks = chunks

    async def chunks(self, *, silence_s_max: float) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await asyncio.sleep(0)
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class MemorySocket:
    def __init__(self, messages: tuple[bytes, ...], subprotocol: str = "v5.channel.k8s.io") -> None:
        self.subprotocol = subprotocol
        self.sent: list[bytes] = []
        self.closed = False
        self._messages = list(messages)

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def receive(self) -> bytes | None:
        await asyncio.sleep(0)
        return self._messages.pop(0) if self._messages else None


class MemoryTransport:
    """Each request takes the next answer; the last one is repeated."""

    def __init__(
        self, *answers: Answer, stream: MemoryStream | Exception | None = None, socket: MemorySocket | None = None
    ) -> None:
        self.requests: list[Request] = []
        self.under_way = 0
        self.closed = False
        self._answers = list(answers)
        self._stream = stream
        self._socket = socket

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        given = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.under_way += 1
        try:
            await asyncio.sleep(0)
            if isinstance(given, Exception):
                raise given
            async with asyncio.timeout(request.deadline_s):
                return given if isinstance(given, Response) else await given(request)
        except TimeoutError:
            raise Unreachable(request.subject, "no answer in time") from None
        finally:
            self.under_way -= 1

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.requests.append(request)
        await asyncio.sleep(0)
        if not isinstance(self._stream, MemoryStream):
            raise self._stream or Unreachable(request.subject, "no stream prepared")
        try:
            yield self._stream
        finally:
            self._stream.closed = True

    @asynccontextmanager
    async def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AsyncIterator[Socket]:
        self.requests.append(request)
        await asyncio.sleep(0)
        if self._socket is None:
            raise Unreachable(request.subject, "no socket prepared")
        try:
            yield self._socket
        finally:
            self._socket.closed = True

    async def close(self) -> None:
        self.closed = True
