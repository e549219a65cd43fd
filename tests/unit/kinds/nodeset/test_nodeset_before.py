"""A pass uses the workers of the last one again where they were told the same. That saves work and decides nothing."""

from random import Random

import msgspec
import pytest

from corral.kinds.nodeset.plan import plan
from corral.kinds.nodeset.snapshot import Snapshot
from corral.slurm.facts import Observed
from tests.unit.kinds.nodeset.builders import UNKNOWN, AWorker, a_snapshot, a_worker

STATES = ("IDLE", "ALLOCATED", "IDLE+DRAIN", "MIXED+DRAIN", "DOWN", "WORD_OF_THE_FUTURE")
REASONS = ("", "corral: scale-in of NodeSet lab/gpu", "bad disk")


def a_random_worker(ordinal: int, luck: Random) -> AWorker:
    return a_worker(
        ordinal,
        state=luck.choice(STATES),
        reason=luck.choice(REASONS),
        jobs=(luck.randrange(100),) if luck.random() < 0.3 else (),
        registered=luck.random() < 0.8,
        phase=luck.choice(("Running", "Running", "Pending", "Failed")),
        leaving=luck.random() < 0.1,
        pod=luck.random() < 0.9,
        runs_s=luck.choice((10.0, 1000.0)),
    )


def after(earlier: Snapshot, present: Snapshot) -> Snapshot:
    return msgspec.structs.replace(present, before=earlier.remembered())


@pytest.mark.parametrize("seed", range(60))
def test_a_decision_does_not_depend_on_what_the_last_pass_made(seed: int) -> None:
    luck = Random(seed)
    kept = [a_random_worker(ordinal, luck) for ordinal in range(6)]
    earlier = a_snapshot(*kept, replicas=4)
    changed = [one if luck.random() < 0.6 else a_random_worker(n, luck) for n, one in enumerate(kept)]
    present = a_snapshot(*changed[: luck.randint(2, 6)], replicas=luck.randint(0, 6), age_s=luck.choice((1.0, 60.0)))

    assert after(earlier, present).workers == present.workers
    assert plan(after(earlier, present)) == plan(present)


def test_a_worker_that_was_told_the_same_is_the_very_one_of_the_last_pass() -> None:
    first, second = a_worker(0), a_worker(1)
    earlier = a_snapshot(first, second, replicas=2)
    present = after(earlier, a_snapshot(first, a_worker(1, state="DOWN"), replicas=2))

    assert present.workers[0] is earlier.workers[0]
    assert present.workers[1] is not earlier.workers[1]


def test_what_follows_from_a_pod_is_kept_while_it_is_the_same_pod_whatever_slurm_says() -> None:
    given = a_worker(0)
    state = a_worker(0, state="DOWN").node
    earlier = a_snapshot(given)
    same_pod = after(earlier, a_snapshot(msgspec.structs.replace(given, node=state)))
    other_pod = after(earlier, a_snapshot(a_worker(0, phase="Pending")))

    assert same_pod.workers[0].body is earlier.workers[0].body
    assert same_pod.workers[0].record != earlier.workers[0].record
    assert not other_pod.workers[0].is_ready


def test_a_slurm_that_falls_silent_makes_every_worker_unknown_at_once() -> None:
    given = a_worker(0, registered=False)
    earlier = a_snapshot(given)
    silent = after(earlier, a_snapshot(a_worker(0, registered=False, jobs=UNKNOWN)))

    assert isinstance(earlier.slurm, Observed)
    assert [worker.facts.value for worker in silent.workers] == ["unknown"]
