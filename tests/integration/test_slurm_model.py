"""Real Slurm tells the story that the simulator's model of it tells (tests/sim/test_model.py)."""

import pytest

from corral.slurm.rest import SlurmClient
from corral.testing.slurmpods import RunningSlurm, running
from tests.integration.test_slurm_rest import a_client
from tests.sim.story import TOLD, story

pytestmark = pytest.mark.slurm


class RealLab:
    def __init__(self, slurm: RunningSlurm, client: SlurmClient) -> None:
        self._slurm, self.client = slurm, client

    def submit(self) -> None:
        self._slurm.run("sbatch", "-w", "w-0", "-t", "5", "-D", "/tmp", "--wrap", "sleep 600")

    def end_jobs(self) -> None:
        self._slurm.run("scancel", "-u", "root")


async def test_real_slurm_tells_the_story() -> None:
    with running("26.05") as slurm:
        async with slurm.serve() as url:
            client = a_client(url, slurm.jwt_key)
            try:
                assert await story(RealLab(slurm, client)) == TOLD
            finally:
                await client.close()
