"""What the world outside may ask of a manager: /healthz, /readyz, /metrics.

/healthz   200 while the event loop answers: a restart would help nothing that this does not show
/readyz    200 once the caches are synced, also on standby, so that a roll-out can go on; otherwise what is missing
/metrics   for Prometheus
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest


class Address(msgspec.Struct, frozen=True):
    """Port 0 takes a free one."""

    host: str = "0.0.0.0"  # noqa: S104  (the kubelet asks from outside the pod)
    port: int = 8080


Missing = Callable[[], tuple[str, ...]]
"""What is missing to be ready, as sentences; empty when ready."""


@asynccontextmanager
async def serving(address: Address, missing: Missing, registry: CollectorRegistry) -> AsyncIterator[int]:
    """Answer until the block is left. Yields the port. OSError when the address cannot be had."""
    runner = web.AppRunner(_app(missing, registry), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, address.host, address.port)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _app(missing: Missing, registry: CollectorRegistry) -> web.Application:
    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        lacking = missing()
        return web.Response(status=503 if lacking else 200, text="\n".join(lacking or ("ok",)) + "\n")

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)
    return app
