"""The same fake server behind a real socket on loopback, for what must speak HTTP: HttpTransport and the CLI.

    async with serve_over_http(server) as url: ...

It speaks plain HTTP and asks for no credentials. Faults of the network (refused, lost answers, dropped watches) become
a closed connection, which is what a client of a real server sees of them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web

from corral.kube.errors import Subject, Unreachable
from corral.kube.transport import Request
from corral.testing.apiserver.connection import Connection
from corral.testing.apiserver.routes import REQUEST_BYTES_MAX
from corral.testing.apiserver.server import FakeApiServer

LONG_S = 3600.0  # the client has the deadlines
STOP_WITHIN_S = 1.0


@asynccontextmanager
async def serve_over_http(server: FakeApiServer) -> AsyncIterator[str]:
    """The URL of the server while the block runs. Needs a loop with real time."""
    connection = server.connect("http")
    application = web.Application(client_max_size=2 * REQUEST_BYTES_MAX)
    application.router.add_route("*", "/{path:.*}", partial(answer, connection))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_WITHIN_S)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site_url(runner)
    finally:
        server.drop_watches("http")
        await connection.close()
        await runner.cleanup()


def site_url(runner: web.AppRunner) -> str:
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


async def answer(connection: Connection, incoming: web.Request) -> web.StreamResponse:
    request = Request(
        subject=Subject(incoming.method.lower(), incoming.path),
        method=incoming.method,
        path=incoming.rel_url.raw_path,
        query=tuple(incoming.query.items()),
        body=await incoming.read(),
        content_type=incoming.headers.get("content-type", ""),
        deadline_s=LONG_S,
    )
    try:
        if incoming.query.get("watch") in ("1", "true"):
            return await stream(connection, request, incoming)
        response = await connection.request(request)
    except Unreachable:
        return hang_up(incoming)
    return web.Response(status=response.status, headers=dict(response.headers), body=response.body)


async def stream(connection: Connection, request: Request, incoming: web.Request) -> web.StreamResponse:
    async with connection.stream(request) as watch:
        outgoing = web.StreamResponse(status=watch.status, headers=dict(watch.headers))
        await outgoing.prepare(incoming)
        try:
            async for chunk in watch.chunks(silence_s_max=LONG_S):
                await outgoing.write(chunk)
            await outgoing.write_eof()
        except Unreachable:
            return hang_up(incoming)
        except ConnectionError:
            pass  # the client left, as watchers do
        return outgoing


def hang_up(incoming: web.Request) -> web.StreamResponse:
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()
