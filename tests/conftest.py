"""What holds for every test."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from corral.kube.client import Client
from corral.testing.cluster import Cluster
from tests.lanes import lane_of, turn_of

# Up to Python 3.13 the first look at "the current event loop" makes one, which pytest-asyncio then never closes.
asyncio.set_event_loop(None)

# A busy machine is slow, which is no fault of the code under test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


class Lanes(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    """`--dist loadfile` keeps together what `tests.lanes` says."""
    return Lanes(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn_of(item.nodeid))


@pytest.fixture
async def client(corral_cluster: Cluster) -> AsyncIterator[Client]:
    async with corral_cluster.client() as client:
        yield client
