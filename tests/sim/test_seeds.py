"""Many seeds; `make sim SEEDS=1000` runs more, `make sim SEEDS==17` just one. What fails is in the message, shrunk."""

import os
from collections.abc import Callable
from itertools import zip_longest

import pytest

from tests.sim.conftest import SEEDS_RAN
from tests.sim.seeds import failure_of, in_virtual_time, outcome, shrunk, steps_of

SEEDS = int(os.environ.get("SIM_SEEDS", "304"))
BATCHES = 16


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
    (_, first), (_, again) = (in_virtual_time(outcome(seed, steps_of(seed))) for _ in range(2))
    differing = [pair for pair in zip_longest(first, again) if pair[0] != pair[1]]
    assert differing[:1] == []
