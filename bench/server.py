"""The two ways to the API server: Corral's client, and a bare aiohttp session as the baseline to it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from bench.process import Settings
from corral.kube import Client, HttpTransport, Observer, load_credentials
from corral.kube.certificates import tls_context


@asynccontextmanager
async def our_client(settings: Settings, observer: Observer | None = None) -> AsyncIterator[Client]:
    transport = HttpTransport(load_credentials(settings.kubeconfig), component="bench")
    async with Client(transport, observer=observer) as client:
        yield client


@asynccontextmanager
async def bare_session(settings: Settings, *, connections: int = 16) -> AsyncIterator[aiohttp.ClientSession]:
    """Nothing but the same TLS. Paths are relative to the server."""
    credentials = load_credentials(settings.kubeconfig)
    auth = await credentials.source.auth()
    context = tls_context(credentials.server, auth.certificate, credentials.origin)
    async with aiohttp.ClientSession(
        credentials.server.url,
        connector=aiohttp.TCPConnector(limit=connections, ssl=context),
        headers={"Accept-Encoding": "identity", **dict(auth.headers())},
        timeout=aiohttp.ClientTimeout(total=300),
        read_bufsize=1 << 18,
    ) as session:
        yield session


async def requests_served(session: aiohttp.ClientSession, resource: str) -> float:
    """How often the API server was asked about a resource, by anyone and with any verb but WATCH, since it started."""
    async with session.get("/metrics") as response:
        response.raise_for_status()
        return count_requests(await response.text(), resource)


def count_requests(metrics: str, resource: str) -> float:
    samples = re.findall(r"^apiserver_request_total\{(.*)\} (\S+)$", metrics, re.MULTILINE)
    return sum(
        float(amount)
        for labels, amount in samples
        if f'resource="{resource}"' in labels and 'verb="WATCH"' not in labels
    )


async def bare_post(session: aiohttp.ClientSession, path: str, body: bytes) -> None:
    await bare_request(session, "POST", path, body, "application/json")


async def bare_request(session: aiohttp.ClientSession, method: str, path: str, body: bytes, content_type: str) -> None:
    async with session.request(method, path, data=body, headers={"Content-Type": content_type}) as response:
        response.raise_for_status()
        await response.read()
