"""The model of Slurm tells the story that real Slurm tells (tests/integration/test_slurm_model.py)."""

import asyncio
from random import Random

from corral.engine.clock import virtual_clock
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Hs256, Tokens
from corral.slurm.transport import Endpoint
from tests.sim.records import Slurmd
from tests.sim.seeds import in_virtual_time
from tests.sim.slurmctld import Slurmctld
from tests.sim.slurmrestd import Slurmrestd
from tests.sim.story import TOLD, story


class ModelLab:
    def __init__(self) -> None:
        now_s = asyncio.get_running_loop().time
        self.slurm = Slurmctld(now_s, Random(1), lambda _text: None)
        for name in ("w-0", "w-1"):
            self.slurm.register(Slurmd(name, f"uid-{name}", ("debug",), now_s()))
        transport = Slurmrestd(self.slurm, now_s, Random(2)).connect("story")(Endpoint(url="http://192.0.2.1"))
        clock = virtual_clock()
        self.client = SlurmClient("test", transport, Tokens(Hs256(b"k" * 32, user="slurm"), clock), clock)

    def submit(self) -> None:
        self.slurm.submit(1, 600.0)

    def end_jobs(self) -> None:
        self.slurm.end_all()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            self.slurm.tick()


async def told_by_the_model() -> tuple[str, ...]:
    lab = ModelLab()
    living = asyncio.create_task(lab.live())
    try:
        return await story(lab)
    finally:
        living.cancel()
        await lab.client.close()


def test_the_model_tells_the_story() -> None:
    assert in_virtual_time(told_by_the_model()) == TOLD
