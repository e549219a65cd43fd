"""Slurm as a NodeSet sees it, through a slurmrestd that is a dictionary."""

from collections.abc import AsyncIterator

import pytest

from corral.engine import OutsideFailed, virtual_clock
from corral.kinds.nodeset.calls import Address, Drain, Forget, Undrain
from corral.kinds.nodeset.rest import RestClusters
from corral.slurm.facts import Observed, Unknown
from corral.slurm.transport import Endpoint
from tests.unit.kinds.nodeset.builders import OURS
from tests.unit.slurm_rest.builders import FakeRest, a_node, body, jobs, nodes, refused

pytestmark = pytest.mark.looptime

CLUSTER = "lab/slurm"
AT = Address(at=Endpoint(url="http://192.0.2.1:6820"), jwt_key=b"k" * 32)
SENT = ("POST", "DELETE")


@pytest.fixture
def rest() -> FakeRest:
    fake = FakeRest()
    fake.answer("nodes", nodes(a_node("gpu-0")))
    fake.answer("jobs", jobs())
    fake.answer("jobs/state", body(jobs=[]))
    return fake


@pytest.fixture
async def slurm(rest: FakeRest) -> AsyncIterator[RestClusters]:
    """Nobody has asked it anything yet: a look begins in the test's own time."""
    clusters = RestClusters(virtual_clock(), transport=lambda _endpoint: rest)
    yield clusters
    await clusters.close()


async def known(slurm: RestClusters) -> None:
    assert isinstance(await slurm.view(CLUSTER, AT, fresh=True), Observed)


def sent(rest: FakeRest) -> list[str]:
    return [request.method for request in rest.requests if request.method in SENT]


async def failure(slurm: RestClusters, call: Drain | Undrain | Forget) -> str:
    with pytest.raises(OutsideFailed) as caught:
        await slurm.perform(CLUSTER, call)
    return caught.value.reason


async def test_without_an_address_slurm_is_unknown(slurm: RestClusters) -> None:
    await known(slurm)
    assert isinstance(await slurm.view(CLUSTER, None, fresh=True), Unknown)
    assert await failure(slurm, Forget(node="gpu-0")) == "SlurmUnreachable"


@pytest.mark.parametrize("call", [Drain(node="gpu-0", reason=OURS), Undrain(node="gpu-0"), Forget(node="gpu-0")])
async def test_a_drain_that_somebody_set_meanwhile_is_left_alone(
    slurm: RestClusters, rest: FakeRest, call: Drain | Undrain | Forget
) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", nodes(a_node("gpu-0", "IDLE", "DRAIN", reason="bad DIMM")))
    assert await failure(slurm, call) == "DrainedBySomebodyElse"
    assert sent(rest) == []


async def test_what_is_done_already_is_not_done_again(slurm: RestClusters, rest: FakeRest) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", nodes(a_node("gpu-0", "IDLE", "DRAIN", reason=OURS)))
    await slurm.perform(CLUSTER, Drain(node="gpu-0", reason=OURS))
    rest.answer("node/gpu-0", nodes(a_node("gpu-0", "IDLE")))
    await slurm.perform(CLUSTER, Undrain(node="gpu-0"))
    assert sent(rest) == []


async def test_a_drain_of_ours_is_given_the_reason_for_which_its_worker_is_to_go_now(
    slurm: RestClusters, rest: FakeRest
) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", nodes(a_node("gpu-0", "IDLE", "DRAIN", reason="corral: not ready")), body())
    await slurm.perform(CLUSTER, Drain(node="gpu-0", reason=OURS))
    assert sent(rest) == ["POST"]


async def test_a_node_with_jobs_is_not_forgotten_and_a_missing_one_is_fine(slurm: RestClusters, rest: FakeRest) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", refused(422, 2016))
    assert await failure(slurm, Forget(node="gpu-0")) == "NodeBusy"
    rest.answer("node/gpu-0", refused(422, 2018))
    await slurm.perform(CLUSTER, Forget(node="gpu-0"))


@pytest.mark.parametrize("spares_others", [True, False])
async def test_a_node_whose_slurmd_is_being_told_to_register_is_not_forgotten(
    slurm: RestClusters, rest: FakeRest, spares_others: bool
) -> None:
    """In the second after `scontrol reconfigure` a record has no slurmd: forgotten then, it comes back undrained."""
    await known(slurm)
    rest.answer("node/gpu-0", nodes(a_node("gpu-0", "IDLE", "DRAIN", reason=OURS, slurmd_start_time=0)))
    assert await failure(slurm, Forget(node="gpu-0", spares_others=spares_others)) == "WorkerArriving"
    assert sent(rest) == []
    dead = nodes(a_node("gpu-0", "IDLE", "DRAIN", "NOT_RESPONDING", reason=OURS, slurmd_start_time=0))
    rest.answer("node/gpu-0", dead, body(), nodes())
    await slurm.perform(CLUSTER, Forget(node="gpu-0", spares_others=spares_others))
    assert sent(rest) == ["DELETE"]


async def test_after_a_node_was_forgotten_no_older_look_is_shown(slurm: RestClusters, rest: FakeRest) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", nodes())
    await slurm.perform(CLUSTER, Forget(node="gpu-0"))
    rest.answer("nodes", nodes())
    view = await slurm.view(CLUSTER, AT, fresh=False)
    assert isinstance(view, Observed)
    assert view.nodes == {}
    assert rest.asked("/nodes")[-1].query == ()  # with a mark slurmrestd would say that nothing has changed


async def test_a_node_that_came_back_under_its_name_is_seen(slurm: RestClusters, rest: FakeRest) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", nodes())
    await slurm.perform(CLUSTER, Forget(node="gpu-0"))
    view = await slurm.view(CLUSTER, AT, fresh=True)
    assert isinstance(view, Observed)
    assert "gpu-0" in view.nodes


async def test_a_node_is_not_forgotten_when_only_the_lookup_failed(slurm: RestClusters, rest: FakeRest) -> None:
    await known(slurm)
    rest.answer("node/gpu-0", refused(200, 0))
    assert await failure(slurm, Forget(node="gpu-0")) == "SlurmUnclear"
