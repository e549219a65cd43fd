"""Many seeds; `make sim SEEDS=1000` runs more, `make sim SEEDS==17` just one. What fails is in the message, shrunk."""

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import zip_longest

import pytest

from tests.sim.conftest import SEEDS_RAN
from tests.sim.seeds import failure_of, shrunk

SEEDS = int(os.environ.get("SIM_SEEDS", "304"))
BATCHES = 16
LINES_MIN = 100


@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_happens_no_job_is_lost_and_the_world_becomes_as_asked_for(
    batch: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = range(batch, SEEDS, BATCHES)
    for seed in seeds:
        failure = failure_of(seed)
        if failure is not None:
            pytest.fail(str(shrunk(failure)), pytrace=False)
    record_property(SEEDS_RAN, len(seeds))


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_is_the_same_run_to_the_byte(seed: int) -> None:
    """In another process too, where sets have another order."""
    first, again = (traced(seed, hashing).splitlines() for hashing in ("1", "2"))
    differing = [pair for pair in zip_longest(first, again) if pair[0] != pair[1]]
    assert differing[:1] == []
    assert len(first) > LINES_MIN


def traced(seed: int, hashing: str) -> str:
    program = f"from tests.sim.seeds import trace_of; print('\\n'.join(trace_of({seed})))"
    environment = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return run.stdout
