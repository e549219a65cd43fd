"""The client against real slurmctld, slurmrestd and slurmd of both versions."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from corral.engine.clock import system_clock
from corral.slurm.clients import Clients
from corral.slurm.errors import Busy, NotFound, Unauthorized, Unreachable, Unsupported, WrongState
from corral.slurm.facts import Observed, Reachable, Unknown
from corral.slurm.http import HttpTransport
from corral.slurm.poller import Pace, Poller
from corral.slurm.rest import SlurmClient
from corral.slurm.states import Flag, Phase, Standing
from corral.slurm.tokens import FromCommand, Hs256, Tokens
from corral.slurm.transport import Endpoint
from corral.slurm.values import Job, NodeUpdate, ReservationRequest
from corral.testing.slurmpods import RunningSlurm, running

pytestmark = pytest.mark.slurm

API = {"24.11": "v0.0.42", "26.05": "v0.0.45"}


@pytest.fixture(scope="module", params=sorted(API))
def slurm(request: pytest.FixtureRequest) -> Iterator[RunningSlurm]:
    with running(request.param) as cluster:
        yield cluster


@pytest.fixture
async def url(slurm: RunningSlurm) -> AsyncIterator[str]:
    async with slurm.serve() as url:
        yield url


@pytest.fixture
async def client(slurm: RunningSlurm, url: str) -> AsyncIterator[SlurmClient]:
    client = a_client(url, slurm.jwt_key)
    yield client
    await client.close()


def a_client(url: str, key: bytes, user: str = "slurm") -> SlurmClient:
    clock = system_clock()
    return SlurmClient("test", HttpTransport(Endpoint(url=url)), Tokens(Hs256(key, user=user), clock), clock)


async def test_the_highest_version_that_both_know_is_spoken(slurm: RunningSlurm, client: SlurmClient) -> None:
    server = await client.server()

    assert server.api == API[slurm.version]
    assert server.release.startswith(slurm.version)
    assert server.cluster == "test"


async def test_nodes_are_read(slurm: RunningSlurm, client: SlurmClient) -> None:
    listing = await client.nodes()

    assert listing is not None
    assert {node.name for node in listing.items} == {"w-0", "w-1"}
    node = await client.node("w-0")
    assert node.state.standing is Standing.REMOVABLE
    assert (node.cpus, node.memory_mb, node.features, node.partitions) == (2, 900, ("debug",), ("debug", "all"))
    assert node.slurmd_version.startswith(slurm.version)
    assert node.registered_at is not None
    assert (node.topology is None) == (slurm.version == "24.11")


async def test_a_node_is_drained_undrained_and_annotated(client: SlurmClient) -> None:
    await client.drain("w-0", "corral: test")
    drained = await client.node("w-0")
    await client.undrain("w-0")
    await client.undrain("w-0")
    await client.update_node("w-0", NodeUpdate(comment="pod w-0", extra='{"pod":"w-0"}', features=("debug", "x")))
    after = await client.node("w-0")

    assert (drained.state.standing, drained.reason, drained.reason_by) == (Standing.DRAINED, "corral: test", "slurm")
    assert after.state.standing is Standing.REMOVABLE
    assert (after.comment, after.extra, after.features) == ("pod w-0", '{"pod":"w-0"}', ("debug", "x"))


async def test_what_is_not_there_is_not_found(client: SlurmClient) -> None:
    calls: tuple[Coroutine[None, None, object], ...] = (
        client.node("nosuch"),
        client.job(99999),
        client.reservation("nosuch"),
        client.drain("nosuch", "x"),
        client.delete_node("nosuch"),
    )
    for call in calls:
        with pytest.raises(NotFound, match=r"cluster test: \w+ \w+ (nosuch|99999)"):
            await call


async def test_resume_of_an_idle_node_is_a_wrong_state(client: SlurmClient) -> None:
    with pytest.raises(WrongState):
        await client.resume("w-1")


async def test_a_wrong_key_is_unauthorized(url: str) -> None:
    client = a_client(url, b"k" * 32)

    with pytest.raises(Unauthorized):
        await client.nodes()
    await client.close()


async def test_jobs_hold_their_nodes_and_a_busy_node_is_not_deleted(slurm: RunningSlurm, client: SlurmClient) -> None:
    slurm.run("sbatch", "-N2", "-t", "5", "-D", "/tmp", "--wrap", "sleep 60")
    try:
        listing = await until_running(client)
        job = next(job for job in listing if job.phase is Phase.RUNNING)

        assert sorted(job.nodes) == ["w-0", "w-1"]
        assert (job.user, job.time_limit_s, job.asks.nodes_min) == ("root", 300.0, 2)
        assert (await client.job(job.id)).name == "wrap"
        assert (await client.job_states())[str(job.id)] == ("RUNNING",)
        with pytest.raises(Busy):
            await client.delete_node("w-0")
    finally:
        slurm.run("scancel", "-u", "root")


async def until_running(client: SlurmClient) -> tuple[Job, ...]:
    async with asyncio.timeout(20):
        while True:
            listing = await client.jobs()
            assert listing is not None
            if any(job.phase is Phase.RUNNING for job in listing.items):
                return listing.items
            await asyncio.sleep(0.1)


async def test_nothing_new_is_told_from_nothing_there(slurm: RunningSlurm, client: SlurmClient) -> None:
    """An unchanged job list is an HTTP 200 with an empty list: it must not be taken for a cluster without jobs."""
    slurm.run("sbatch", "-H", "-D", "/tmp", "--wrap", "true")
    try:
        async with asyncio.timeout(20):
            while True:
                nodes, jobs = await client.nodes(), await client.jobs()
                assert nodes is not None
                assert jobs is not None
                assert jobs.items
                await asyncio.sleep(1.1)
                if await client.nodes(unless=nodes.mark) is None and await client.jobs(unless=jobs.mark) is None:
                    break
    finally:
        slurm.run("scancel", "-u", "root")


async def test_a_change_is_seen_through_a_mark(client: SlurmClient) -> None:
    """24.11 answers 500 to this question when nodes have changed and partitions have not."""
    before = await client.nodes()
    assert before is not None
    await asyncio.sleep(1.1)  # the server counts in seconds
    await client.update_node("w-0", NodeUpdate(comment="changed"))

    after = await client.nodes(unless=before.mark)

    assert after is not None
    assert {node.comment for node in after.items if node.name == "w-0"} == {"changed"}


async def test_reservations_are_made_where_rest_can_and_by_command_elsewhere(
    slurm: RunningSlurm, client: SlurmClient
) -> None:
    wanted = ReservationRequest(
        name="maint",
        start_at=datetime.now(UTC) + timedelta(minutes=5),
        duration=timedelta(minutes=10),
        nodes=("w-0", "w-1"),
        users=("root",),
        flags=("MAINT", "IGNORE_JOBS"),
    )
    await as_rest_or_command(slurm, client.create_reservation(wanted))
    made = await client.reservation("maint")
    await as_rest_or_command(slurm, client.delete_reservation("maint"))

    assert made.maintenance
    assert sorted(made.nodes) == ["w-0", "w-1"]
    assert made.users == ("root",)
    assert made.end_at is not None
    assert made.start_at is not None
    assert made.end_at - made.start_at == timedelta(minutes=10)
    assert await client.reservations() == ()


async def test_no_node_of_a_reservation_that_has_begun_is_forgotten_before_it_has_left_it(
    slurm: RunningSlurm, client: SlurmClient
) -> None:
    spare = ("gone-0", "gone-1")
    for name in spare:
        assert slurm.run("scontrol", "create", f"NodeName={name}", "CPUs=1", "State=CLOUD").returncode == 0
    wanted = ReservationRequest(
        name="begun",
        start_at=datetime.now(UTC) + timedelta(seconds=1),
        duration=timedelta(minutes=10),
        nodes=spare,
        users=("root",),
        flags=("MAINT", "IGNORE_JOBS"),
    )
    await as_rest_or_command(slurm, client.create_reservation(wanted))
    await until_reserved(client, "gone-0")
    with pytest.raises(Busy):
        await client.delete_node("gone-0")

    await as_rest_or_command(slurm, client.narrow_reservation("begun", ["gone-1"]))
    await client.delete_node("gone-0")

    left = await client.reservation("begun")
    assert (left.nodes, left.maintenance) == (("gone-1",), True)
    assert left.end_at is not None
    assert left.start_at is not None
    assert left.end_at - left.start_at == timedelta(minutes=10)
    await as_rest_or_command(slurm, client.delete_reservation("begun"))
    await client.delete_node("gone-1")


async def until_reserved(client: SlurmClient, node: str) -> None:
    """slurmctld looks only now and then what has begun."""
    async with asyncio.timeout(60):
        while Flag.RESERVED not in (await client.node(node)).state.flags:  # noqa: ASYNC110 - Slurm tells nobody
            await asyncio.sleep(0.5)


async def as_rest_or_command(slurm: RunningSlurm, call: Awaitable[None]) -> None:
    if slurm.version != "24.11":
        await call
        return
    with pytest.raises(Unsupported) as refused:
        await call
    done = slurm.run(*refused.value.command)
    assert done.returncode == 0, done.stdout


async def test_partitions_diag_ping_and_shares_are_read(client: SlurmClient) -> None:
    partitions = {partition.name: partition for partition in await client.partitions()}

    assert partitions["debug"].up
    assert (partitions["debug"].nodes, partitions["debug"].nodes_total) == ("debug", 2)
    assert partitions["all"].time_max_s == 3600
    assert [(ping.hostname, ping.responding, ping.primary) for ping in await client.ping()] == [("ctld", True, True)]
    assert (await client.diag()).server_threads >= 1
    assert await client.shares() == ()


async def test_the_running_configuration_is_read_back_or_the_command_is_named(
    slurm: RunningSlurm, client: SlurmClient
) -> None:
    if slurm.version == "24.11":
        with pytest.raises(Unsupported) as refused:
            await client.running_conf()
        assert "ClusterName" in slurm.run(*refused.value.command).stdout
        return
    conf = await client.running_conf()

    assert conf.values["ClusterName"] == "test"
    assert conf.values["MaxNodeCount"] == 64
    assert conf.version.startswith("26.05")


async def test_accounting_that_is_not_there_is_said_so(client: SlurmClient) -> None:
    with pytest.raises((Unsupported, Unreachable)):
        await client.accounting_jobs(since=datetime.now(UTC) - timedelta(hours=1))


async def test_a_token_of_scontrol_is_as_good(slurm: RunningSlurm, url: str) -> None:
    async def scontrol_token(user: str, lifetime_s: int) -> str:
        done = await asyncio.to_thread(slurm.run, "scontrol", "token", f"username={user}", f"lifespan={lifetime_s}")
        return done.stdout

    clock = system_clock()
    tokens = Tokens(FromCommand(scontrol_token, user="slurm"), clock)
    client = SlurmClient("test", HttpTransport(Endpoint(url=url)), tokens, clock)

    assert await client.nodes() is not None
    await client.close()


async def test_reconfigure_is_accepted(client: SlurmClient) -> None:
    await client.reconfigure()

    assert [ping.hostname for ping in await client.ping()] == ["ctld"]


async def test_a_hanging_slurmctld_makes_all_unknown_and_its_return_is_seen(slurm: RunningSlurm, url: str) -> None:
    """It stops slurmctld for a while."""
    clients = Clients(system_clock(), pace=Pace(busy_s=0.1, quiet_s=0.2, failing_s=0.2))
    cluster = clients.connect("test", Endpoint(url=url), Hs256(slurm.jwt_key, user="slurm"))
    seen = await cluster.poller.fresh()
    slurm.run("sh", "-c", "kill -STOP $(cat /run/slurmctld/slurmctld.pid)")
    hung = await cluster.poller.fresh(within_s=2)
    slurm.run("sh", "-c", "kill -CONT $(cat /run/slurmctld/slurmctld.pid)")
    back = await cluster.poller.fresh(within_s=30)
    await clients.close()

    assert isinstance(seen, Observed)
    assert set(seen.nodes) == {"w-0", "w-1"}
    assert isinstance(hung, Unknown)
    assert isinstance(back, Observed)
    assert isinstance(cluster.poller.reachability, Reachable)


async def test_a_look_that_is_waited_for_sees_that_no_node_is_left(client: SlurmClient) -> None:
    """Last in this file: it deletes the nodes. 26.05 goes on saying "unchanged" to whoever asks with a mark."""
    poller = Poller(client, system_clock())
    looking = asyncio.create_task(poller.run())
    before = await poller.fresh()
    async with asyncio.timeout(60):
        for node in ("w-0", "w-1"):
            while not await is_deleted(client, node):
                await poller.fresh()
    after = await poller.fresh()
    looking.cancel()

    assert isinstance(before, Observed)
    assert set(before.nodes) == {"w-0", "w-1"}
    assert isinstance(after, Observed)
    assert after.nodes == {}


async def is_deleted(client: SlurmClient, node: str) -> bool:
    """Not while a job of an earlier test is still completing there."""
    try:
        await client.delete_node(node)
    except Busy:
        return False
    return True
