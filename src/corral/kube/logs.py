"""What a container has written, line by line."""

from collections.abc import AsyncGenerator

import msgspec

from corral.kube.calls import Calls
from corral.kube.errors import Garbled, Subject
from corral.kube.lines import Lines, LineTooLong
from corral.kube.meta import Resource
from corral.kube.requests import READ_S_MAX, path_to
from corral.kube.transport import Request

SILENCE_S_MAX = 4 * 3600.0  # when the kubelet itself closes a stream that says nothing (streamingConnectionIdleTimeout)


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What part of the log. `container` may be empty when the pod has only one."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_s: int | None = None


def log_request(pods: Resource, name: str, namespace: str, options: LogOptions) -> Request:
    subject = Subject("logs", pods.kind, namespace, name)
    given = {
        "container": options.container,
        "follow": "true" if options.follow else "",
        "previous": "true" if options.previous else "",
        "timestamps": "true" if options.timestamps else "",
        "tailLines": "" if options.tail_lines is None else str(options.tail_lines),
        "sinceSeconds": "" if options.since_s is None else str(options.since_s),
    }
    return Request(
        subject=subject,
        method="GET",
        path=path_to(pods, subject, "log"),
        query=tuple((key, value) for key, value in given.items() if value),
        accept="text/plain, application/json, */*",
        deadline_s=READ_S_MAX,
    )


async def log_lines(calls: Calls, request: Request, silence_s_max: float) -> AsyncGenerator[str, None]:
    """The last line comes also when nothing ends it."""
    lines = Lines()
    async with calls.stream(request) as stream:
        async for chunk in stream.chunks(silence_s_max=silence_s_max):
            try:
                complete = lines.feed(chunk)
            except LineTooLong as error:
                raise Garbled(request.subject, f"cannot read the log: {error}") from None
            for line in complete.split(b"\n")[:-1]:
                yield _text(line)
    if rest := lines.rest():
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").removesuffix("\r")
