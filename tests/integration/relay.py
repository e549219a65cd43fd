"""Ways to the API server that a test holds in its hands: TCP on this machine, with the server at the other end."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from corral.testing.cluster import Cluster


class Way(Protocol):
    async def connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None: ...


W = TypeVar("W", bound=Way)


@asynccontextmanager
async def by_way_of(make: Callable[[str, int], W], cluster_of: Cluster, folder: Path) -> AsyncIterator[tuple[W, Path]]:
    """What `make` makes of the server's address, and the kubeconfig that leads through it."""
    config = json.loads(cluster_of.kubectl("config", "view", "--raw", "--output=json"))
    cluster = config["clusters"][0]["cluster"]
    host, port = cluster["server"].removeprefix("https://").split(":")
    way = make(host, int(port))
    listening = await asyncio.start_server(way.connected, "127.0.0.1", 0)
    cluster |= {"server": f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}", "tls-server-name": host}
    ours = folder / "kubeconfig"
    ours.write_text(json.dumps(config))
    try:
        yield way, ours
    finally:
        listening.close()


class Relay:
    """Passes everything on, until it is cut, ended half way or hushed. Each is for the connections of that moment."""

    def __init__(self, host: str, port: int) -> None:
        self.is_closed = False  # new connections are broken off
        self._server = host, port
        self._open: set[asyncio.StreamWriter] = set()
        self._mute: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        for to_client in self._open:
            to_client.transport.abort()

    def end_half_way(self) -> None:
        """The server's side says that nothing more will come, and still listens."""
        for to_client in self._open - self._mute:
            to_client.write_eof()
        self.hush()

    def hush(self) -> None:
        """They stay open, and nothing comes any more."""
        self._mute |= self._open

    async def connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._open.add(to_client)
        to_server: asyncio.StreamWriter | None = None
        try:
            if not self.is_closed:
                server, to_server = await asyncio.open_connection(*self._server)
                answers = asyncio.create_task(self._pass_on(server, to_client, to_client))
                await self._pass_on(client, to_server, to_client)
                answers.cancel()
        except OSError:
            pass  # the server is away, or one side broke off
        finally:
            self._open.discard(to_client)
            self._mute.discard(to_client)
            to_client.transport.abort()
            if to_server is not None:
                to_server.transport.abort()

    async def _pass_on(
        self, come: asyncio.StreamReader, go: asyncio.StreamWriter, to_client: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await come.read(1 << 16):
                if to_client not in self._mute:
                    go.write(data)
        if to_client not in self._mute:
            to_client.transport.abort()
