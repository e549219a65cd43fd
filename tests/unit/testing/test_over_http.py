"""The fake server behind a socket is the same server."""

import asyncio
from pathlib import Path

import pytest

from corral.kube import HttpTransport, load_credentials
from corral.kube.errors import Unreachable
from corral.testing.apiserver import FakeApiServer, Fault, serve_over_http
from corral.testing.contract import CONFIG_MAP, World

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: fake, cluster: {{server: "{url}"}}}}]
users: [{{name: fake, user: {{}}}}]
contexts: [{{name: fake, context: {{cluster: fake, user: fake}}}}]
current-context: fake
"""


def transport(url: str, folder: Path) -> HttpTransport:
    path = folder / "kubeconfig"
    path.write_text(KUBECONFIG.format(url=url))
    return HttpTransport(load_credentials(path))


async def test_what_is_written_over_http_is_seen_by_a_watch_over_http(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with serve_over_http(server) as url:
        world = World(transport(url, tmp_path), "default")
        watching = asyncio.create_task(world.events(CONFIG_MAP, 2))
        made = await world.create(world.config_map("a"))
        await world.merge(made, {"data": {"b": "2"}})

        assert [event[1] for event in await watching] == ["a", "a"]
        assert server.get(CONFIG_MAP, "a", "default") is not None
        await world.client.close()


async def test_a_lost_answer_is_a_broken_connection(tmp_path: Path) -> None:
    server = FakeApiServer()
    async with serve_over_http(server) as url:
        world = World(transport(url, tmp_path), "default")
        server.fail_next(Fault.LOSE_ANSWER, method="POST", times=10)

        with pytest.raises(Unreachable):
            await world.create(world.config_map("a"))
        assert server.get(CONFIG_MAP, "a", "default") is not None
        await world.client.close()
