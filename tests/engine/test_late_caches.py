"""A cache that does not come to show what was written: for how long an old view is worse than none."""

import asyncio

import pytest

from corral.engine import Barrier, Controller, Key, Reader
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator
from corral.testing.toys import Toy, ToyReconciler, ToySnapshot

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Late(Barrier[Key]):
    def _is_met(self, expectation: object) -> bool:
        return False


class Looking(ToyReconciler):
    def __init__(self) -> None:
        self.looks: list[float] = []

    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        self.looks.append(asyncio.get_running_loop().time())
        return await super().observe(key, read)


async def delay_s(*, decides_by_its_status: bool) -> float:
    """Of a change that comes when the status was written."""
    server, looking = FakeApiServer(), Looking()
    server.register(Toy)

    def build() -> Controller[Toy, ToySnapshot]:
        controller = Controller.for_(Toy, looking).owns(ConfigMap).owns(Secret)
        return controller.remembers(lambda status: status.copies) if decides_by_its_status else controller

    operator = Operator(server, build, barrier=Late)
    operator.start()
    server.add({"apiVersion": "test.corral.dev/v1", "kind": "Toy", "metadata": {"name": "bear"}})
    await asyncio.sleep(200)
    changed_s = asyncio.get_running_loop().time()
    server.edit(Toy, "bear", "default", merge={"spec": {"greeting": "bye"}})
    await asyncio.sleep(200)
    await operator.stop()
    server.stop_collecting()
    return next(look - changed_s for look in looking.looks if look > changed_s)


async def test_it_is_looked_at_again_after_half_a_minute() -> None:
    assert await delay_s(decides_by_its_status=False) == pytest.approx(30, abs=1)


async def test_who_decides_by_a_status_waits_until_a_silent_watch_was_noticed() -> None:
    assert await delay_s(decides_by_its_status=True) == pytest.approx(90, abs=1)
