"""Verbs, errors inside answers, versions, repeats: in virtual time, against answers in the shapes of both versions."""

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.calls import PAUSE_S_FIRST, PAUSE_S_MAX, REPEATS_MAX, pause_s
from corral.slurm.decode import WireJob, WireNode, job, node
from corral.slurm.errors import (
    Busy,
    Forbidden,
    Garbled,
    Invalid,
    NotFound,
    ServerError,
    SlurmError,
    Subject,
    TokenUnavailable,
    Unauthorized,
    Unreachable,
    Unsupported,
    WrongState,
)
from corral.slurm.states import Phase, Standing
from corral.slurm.tokens import IssuerError
from corral.slurm.transport import Response
from corral.slurm.values import Layout, Mark, NodeUpdate, ReservationRequest
from corral.slurm.versions import dialect
from tests.unit.slurm_rest.builders import (
    JWT,
    NEVER,
    PATHS_26_05,
    CountingIssuer,
    FakeRest,
    a_client,
    a_job,
    a_node,
    body,
    jobs,
    nodes,
    number,
    refused,
)

pytestmark = pytest.mark.looptime
SUBJECT = Subject("lab/slurm", "list", "nodes")
GONE = Unreachable(SUBJECT, "reset", sent=True)
DOWN = Unreachable(SUBJECT, "refused", sent=False)
RESERVATION = ReservationRequest(
    name="maint",
    start_at=datetime(2026, 1, 1, tzinfo=UTC),
    duration=timedelta(hours=2),
    nodes=("w-0", "w-1"),
    users=("root",),
    flags=("MAINT",),
)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        pytest.param(refused(500, 2018), NotFound, "2018", id="24.11, no such node"),
        pytest.param(refused(422, 2018), NotFound, "2018", id="26.05, no such node"),
        pytest.param(refused(500, 2016), Busy, "2016", id="24.11, busy"),
        pytest.param(refused(200, 2016), Busy, "2016", id="an error in a 200"),
        pytest.param(refused(500, 2028), WrongState, "2028", id="wrong state"),
        pytest.param(refused(511, 1007), Unauthorized, "1007", id="bad token"),
        pytest.param(Response(status=401, body=b"Authentication failure"), Unauthorized, "401", id="no token"),
        pytest.param(refused(500, 2010), Forbidden, "2010", id="not this user"),
        pytest.param(refused(500, 9207), Invalid, "9207", id="unknown flag"),
        pytest.param(refused(502, 1800), Unreachable, "slurmctld does not answer", id="slurmctld is down"),
        pytest.param(refused(500, 7000), Unreachable, "slurmdbd does not answer", id="slurmdbd is down"),
        pytest.param(refused(200, 4711), ServerError, "4711", id="an unknown number in a 200"),
        pytest.param(Response(status=200, body=b"{"), Garbled, "200", id="half an answer"),
        pytest.param(Response(status=400, body=b"what?"), Invalid, "400", id="a bad request"),
    ],
)
async def test_an_answer_that_means_no_is_an_error(answer: Response, error: type[SlurmError], says: str) -> None:
    rest = FakeRest()
    rest.answer("node/w-0", answer)

    with pytest.raises(error, match=says) as raised:
        await a_client(rest).delete_node("w-0")

    assert str(raised.value).startswith("cluster lab/slurm: delete node w-0: ")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refused(200, 0, "Failure to query node x"), id="error number 0 in a 200"),
        pytest.param(body(nodes=[]), id="an empty list"),
        pytest.param(body(), id="no list"),
    ],
)
async def test_a_node_that_is_not_there_is_not_found(answer: Response) -> None:
    rest = FakeRest()
    rest.answer("node/x", answer)

    with pytest.raises(NotFound):
        await a_client(rest).node("x")


async def test_an_answer_without_the_list_is_not_an_empty_list() -> None:
    rest = FakeRest()
    rest.answer("nodes", body())

    with pytest.raises(Garbled):
        await a_client(rest).nodes()


@pytest.mark.parametrize("gone", [GONE, refused(503, -1)], ids=["reset", "server error"])
async def test_a_read_is_repeated_three_times(gone: Response | Exception) -> None:
    rest = FakeRest()
    rest.answer("nodes", gone, gone, gone, nodes(a_node()))

    listing = await a_client(rest).nodes()

    assert listing is not None
    assert [node.name for node in listing.items] == ["w-0"]
    assert len(rest.asked("nodes")) == 1 + REPEATS_MAX


async def test_the_fourth_failure_is_the_answer() -> None:
    rest = FakeRest()
    rest.answer("nodes", GONE)

    with pytest.raises(Unreachable):
        await a_client(rest).nodes()

    assert len(rest.asked("nodes")) == 1 + REPEATS_MAX


@pytest.mark.parametrize(
    ("trouble", "attempts"), [pytest.param(GONE, 1, id="perhaps done"), pytest.param(DOWN, 2, id="certainly not sent")]
)
async def test_what_may_have_been_done_is_not_done_again(trouble: Exception, attempts: int) -> None:
    rest = FakeRest()
    rest.answer("node/w-0", trouble, body())

    if attempts == 1:
        with pytest.raises(Unreachable):
            await a_client(rest).undrain("w-0")
    else:
        await a_client(rest).undrain("w-0")

    assert len(rest.asked("node/w-0")) == attempts


async def test_a_drain_is_repeated_because_it_is_harmless() -> None:
    rest = FakeRest()
    rest.answer("node/w-0", GONE, body())

    await a_client(rest).drain("w-0", "corral: scale-in")

    sent = [msgspec.json.decode(request.body) for request in rest.asked("node/w-0")]
    assert sent == [{"state": ["DRAIN"], "reason": "corral: scale-in"}] * 2


async def test_a_refusal_is_not_repeated() -> None:
    rest = FakeRest()
    rest.answer("nodes", refused(500, 2010))

    with pytest.raises(Forbidden):
        await a_client(rest).nodes()

    assert len(rest.asked("nodes")) == 1


@given(repeats=st.integers(0, REPEATS_MAX - 1), luck=st.floats(0, 1, exclude_max=True))
def test_pauses_are_between_a_quarter_and_two_seconds(repeats: int, luck: float) -> None:
    assert PAUSE_S_FIRST <= pause_s(repeats, luck) <= PAUSE_S_MAX


async def test_the_token_goes_with_every_request_and_a_refused_one_is_replaced_once() -> None:
    rest, issuer = FakeRest(), CountingIssuer()
    rest.answer("nodes", refused(511, 1007), nodes(a_node()))

    await a_client(rest, issuer).nodes()

    assert [request.token.text for request in rest.requests] == ["t1", "t1", "t2"]


async def test_a_token_refused_twice_is_unauthorized() -> None:
    rest, issuer = FakeRest(), CountingIssuer()
    rest.answer("nodes", refused(511, 1007))

    with pytest.raises(Unauthorized):
        await a_client(rest, issuer).nodes()

    assert issuer.issued == 2


async def test_without_a_token_nothing_is_sent() -> None:
    rest, issuer = FakeRest(), CountingIssuer()
    issuer.trouble = IssuerError("the Secret lab/jwt does not exist")

    with pytest.raises(TokenUnavailable, match="the Secret lab/jwt does not exist"):
        await a_client(rest, issuer).nodes()

    assert rest.requests == []


async def test_an_issuer_that_hangs_is_an_error_by_the_calls_deadline() -> None:
    with pytest.raises(TokenUnavailable):
        await a_client(FakeRest(), CountingIssuer(takes_s=NEVER)).ping()


async def test_tokens_are_in_no_error_and_no_repr() -> None:
    rest = FakeRest()
    rest.answer("nodes", refused(511, 1007))

    with pytest.raises(Unauthorized) as raised:
        await a_client(rest).nodes()

    assert JWT not in f"{raised.value!r} {raised.value} {rest.requests!r}"


def test_the_highest_common_version_is_taken() -> None:
    def served(*apis: str) -> str | None:
        found = dialect({f"/slurm/{api}/nodes/": ("get",) for api in apis})
        return found.api if found else None

    assert served("v0.0.40", "v0.0.41", "v0.0.42") == "v0.0.42"
    assert served("v0.0.42", "v0.0.45", "v0.0.43", "v0.0.44", "v0.0.46") == "v0.0.45"
    assert served("v0.0.40", "v0.0.99") is None


async def test_no_common_version_is_said_with_both_sides() -> None:
    with pytest.raises(Unsupported, match=r"v0\.0\.45.*the server speaks v0\.0\.40"):
        await a_client(FakeRest(api="v0.0.40")).nodes()


async def test_the_version_is_asked_once_and_again_when_the_server_is_another() -> None:
    rest = FakeRest()
    rest.answer("nodes", nodes(a_node()))
    client = a_client(rest)
    await asyncio.gather(client.nodes(), client.nodes())
    rest.api = "v0.0.45"
    await client.nodes()

    asked = [request.path for request in rest.requests]
    assert asked.count("/openapi/v3") == 2
    assert asked[-1] == "/slurm/v0.0.45/nodes"
    assert (await client.server()).api == "v0.0.45"


async def test_what_24_11_cannot_names_the_command_and_sends_nothing() -> None:
    rest = FakeRest()

    with pytest.raises(Unsupported) as refusal:
        await a_client(rest).create_reservation(RESERVATION)

    assert refusal.value.command[:3] == ("scontrol", "create", "reservation")
    assert {"ReservationName=maint", "Duration=120", "Nodes=w-[0-1]", "Users=root", "Flags=MAINT"} <= set(
        refusal.value.command
    )
    assert rest.asked() == []


async def test_26_05_makes_reservations() -> None:
    rest = FakeRest("v0.0.45", PATHS_26_05)
    rest.answer("reservation", body())

    await a_client(rest).create_reservation(RESERVATION)

    sent = msgspec.json.decode(rest.asked("reservation")[0].body)
    assert (sent["name"], sent["duration"]["number"], sent["node_list"]) == ("maint", 120, ["w-0", "w-1"])


async def test_a_reservation_is_left_only_some_of_its_nodes_and_nothing_else_of_it_is_said() -> None:
    rest = FakeRest("v0.0.45", PATHS_26_05)
    rest.answer("reservation", body())

    await a_client(rest).narrow_reservation("maint", ["w-1"])

    assert msgspec.json.decode(rest.asked("reservation")[0].body) == {"name": "maint", "node_list": ["w-1"]}
    with pytest.raises(Unsupported, match="run: scontrol update ReservationName=maint Nodes=w-1"):
        await a_client(FakeRest()).narrow_reservation("maint", ["w-1"])


async def test_a_reboot_is_never_a_rest_call() -> None:
    with pytest.raises(Unsupported, match="run: scontrol reboot ASAP nextstate=RESUME reason=why w-0"):
        await a_client(FakeRest()).reboot("w-0", "why")


async def test_a_topology_that_the_version_cannot_set_is_not_silently_dropped() -> None:
    with pytest.raises(Unsupported, match="topology=tree1:leaf0"):
        await a_client(FakeRest()).update_node("w-0", NodeUpdate(topology="tree1:leaf0"))


async def test_304_is_unchanged() -> None:
    rest = FakeRest()
    rest.answer("nodes", Response(status=304))

    assert await a_client(rest).nodes(unless=Mark(updated_s=100)) is None
    assert rest.asked("nodes")[0].query == (("update_time", "100"),)


async def test_an_empty_job_list_without_a_time_is_unchanged_only_when_that_was_the_question() -> None:
    rest = FakeRest()
    rest.answer("jobs", jobs(at=0))
    client = a_client(rest)

    assert await client.jobs(unless=Mark(updated_s=100)) is None
    listing = await client.jobs()
    assert listing is not None
    assert listing.items == ()


async def test_a_500_to_a_marked_question_is_asked_again_without_mark_and_without_waiting() -> None:
    rest = FakeRest()
    rest.answer("nodes", refused(500, -1, "Unable to query partitions"), nodes(a_node()))

    listing = await a_client(rest).nodes(unless=Mark(updated_s=100))

    assert listing is not None
    assert [request.query for request in rest.asked("nodes")] == [(("update_time", "100"),), ()]


async def test_a_server_that_never_answers_is_left_at_the_deadline() -> None:
    rest = FakeRest()
    rest.answer("ping", NEVER)

    with pytest.raises(Unreachable):
        await a_client(rest).ping()

    assert asyncio.get_running_loop().time() <= 5.0


async def test_names_are_quoted_in_paths() -> None:
    rest = FakeRest()
    rest.answer("node/a%2F..%2Fb", body())

    await a_client(rest).delete_node("a/../b")

    assert rest.requests[-1].path == "/slurm/v0.0.42/node/a%2F..%2Fb"


async def test_a_large_list_is_read_off_the_loop() -> None:
    rest = FakeRest()
    rest.answer("nodes", nodes(*(a_node(f"w-{i}", comment="x" * 300) for i in range(1000))))

    listing = await a_client(rest).nodes()

    assert listing is not None
    assert len(listing.items) == 1000


@pytest.mark.parametrize("shape", [lambda n: n, number], ids=["plain numbers", "numbers with set"])
async def test_numbers_have_two_shapes_and_one_meaning(shape: Callable[[int], object]) -> None:
    wire = a_node(cpus=shape(4), real_memory=shape(900), boot_time=shape(1_700_000_000), reason_changed_at=shape(0))

    value = node(msgspec.convert(wire, WireNode))

    assert (value.cpus, value.memory_mb, value.reason_at) == (4, 900, None)
    assert value.booted_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_what_is_set_aside_and_how_processors_are_laid_out_is_read_or_not_said() -> None:
    wire = a_node(specialized_memory=100, specialized_cores=0, boards=1, sockets=2, cores=4, threads=2)

    value = node(msgspec.convert(wire, WireNode))

    assert (value.memory_aside_mb, value.cores_aside) == (100, 0)
    assert value.layout == Layout(boards=1, sockets=2, cores_per_socket=4, threads_per_core=2)
    silent = node(msgspec.convert(a_node(), WireNode))
    assert (silent.memory_aside_mb, silent.cores_aside, silent.layout) == (None, None, None)


def test_a_job_is_read() -> None:
    wire = a_job(
        7,
        "RUNNING",
        nodes="w-[0-1,3]",
        time_limit=number(0, infinite=True),
        user_name="alice",
        array_job_id=number(7),
        array_task_id=number(3),
        node_count=number(3),
        memory_per_node=number(100),
        required_nodes=None,
    )

    value = job(msgspec.convert(wire, WireJob))

    assert (value.nodes, value.phase, value.time_limit_s) == (("w-0", "w-1", "w-3"), Phase.RUNNING, math.inf)
    assert (value.array_job_id, value.array_task, value.user) == (7, "3", "alice")
    assert (value.asks.nodes_min, value.asks.memory_per_node_mb) == (3, 100)


def test_a_state_that_nobody_knows_holds_its_nodes() -> None:
    value = job(msgspec.convert(a_job(1, "TELEPORTING", nodes="w-0"), WireJob))

    assert value.phase is Phase.UNKNOWN
    assert value.holds_nodes
    assert node(msgspec.convert(a_node("w-0", "IDLE", "NEW"), WireNode)).state.standing is Standing.UNKNOWN


def test_a_hostlist_that_cannot_be_read_is_not_no_hosts() -> None:
    assert job(msgspec.convert(a_job(1, nodes="w-[0-"), WireJob)).nodes == ("w-[0-",)


any_number = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63),
    st.builds(
        lambda s, i, n: {"set": s, "infinite": i, "number": n}, st.booleans(), st.booleans(), st.integers(0, 2**63)
    ),
)
words = st.one_of(st.none(), st.text(max_size=8), st.lists(st.text(max_size=8), max_size=3))


@given(cpus=any_number, at=any_number, state=words, features=words)
def test_no_shape_of_an_answer_breaks_the_reading(cpus: object, at: object, state: object, features: object) -> None:
    wire = {"name": "w", "state": state, "cpus": cpus, "boot_time": at, "features": features}

    assert node(msgspec.convert(wire, WireNode)).name == "w"
