"""The model of Slurm tells the stories that real Slurm tells (tests/integration/test_slurm_model.py)."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from corral.engine.clock import virtual_clock
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Hs256, Tokens
from corral.slurm.transport import Endpoint
from tests.sim.records import Refused, Reservation, Slurmd
from tests.sim.seeds import in_virtual_time
from tests.sim.slurmctld import Slurmctld
from tests.sim.slurmrestd import Slurmrestd
from tests.sim.story import CPUS, LIVES, TOLD, Lab, lives, story

ADMIN = "root"


class ModelLab:
    def __init__(self, *, forgets_reasons: bool = True) -> None:
        self._now_s = asyncio.get_running_loop().time
        self.slurm = Slurmctld(self._now_s, Random(1), lambda _text: None, forgets_reasons=forgets_reasons)
        self._slurmds: dict[str, Slurmd] = {}
        self.slurm.configure({"debug": "UP"})
        for name in ("w-0", "w-1"):
            self.start_slurmd(name)
        transport = Slurmrestd(self.slurm, self._now_s, Random(2)).connect("story")(Endpoint(url="http://192.0.2.1"))
        clock = virtual_clock()
        self.client = SlurmClient("test", transport, Tokens(Hs256(b"k" * 32, user="slurm"), clock), clock)

    def submit(self, partition: str = "debug") -> str:
        try:
            self.slurm.submit(1, 600.0, partition)
        except Refused as no:
            return no.text
        return ""

    def end_jobs(self) -> None:
        self.slurm.end_all()

    def kill_slurmd(self, node: str) -> None:
        self.slurm.slurmd_ended(self._slurmds[node], "kill -9")

    def start_slurmd(self, node: str, cpus: int = CPUS) -> None:
        self._slurmds[node] = Slurmd(node, f"uid-{node}", ("debug",), self._now_s(), cpus)
        self.slurm.register(self._slurmds[node])

    def hang_up(self, node: str) -> None:
        self._slurmds[node].started_s = self._now_s()
        self.slurm.register(self._slurmds[node])

    def set_state(self, node: str, state: str, reason: str = "") -> None:
        {"down": self.slurm.set_down, "fail": self.slurm.set_fail}[state](node, reason, ADMIN)

    def reserve(self, node: str) -> None:
        self.slurm.reserve(Reservation("story", (node,), self._now_s(), self._now_s() + 600), ADMIN)

    def unreserve(self) -> None:
        self.slurm.unreserve("story", ADMIN)

    def partition(self, state: str) -> None:
        self.slurm.configure({"debug": state} if state else {})
        for node in tuple(self.slurm.nodes):
            self.hang_up(node)

    def restart_slurmctld(self, *, kill: bool) -> None:
        if kill:
            self.slurm.kill()
        self.slurm.start()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.slurm.tick()


async def told_by_the_model(tell: Callable[[Lab], Awaitable[tuple[str, ...]]], lab: ModelLab) -> tuple[str, ...]:
    living = asyncio.create_task(lab.live())
    try:
        return await tell(lab)
    finally:
        living.cancel()
        await lab.client.close()


@pytest.mark.parametrize("forgets_reasons", [True, False], ids=["26.05", "24.11"])
@pytest.mark.parametrize(("tell", "told"), [(story, TOLD), (lives, LIVES)], ids=["a job and a drain", "lives"])
def test_the_model_tells_the_story(
    tell: Callable[[Lab], Awaitable[tuple[str, ...]]], told: tuple[str, ...], forgets_reasons: bool
) -> None:
    async def run() -> tuple[str, ...]:
        return await told_by_the_model(tell, ModelLab(forgets_reasons=forgets_reasons))

    assert in_virtual_time(run()) == told
