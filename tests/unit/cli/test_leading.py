"""An operator that a person starts and one that is installed run for one Lease, and a person is told who leads."""

import asyncio
from datetime import timedelta
from random import Random

import pytest

from corral.cli import leading
from corral.cli.errors import Failure
from corral.engine import LeaseAddress, virtual_clock
from corral.install.rbac import NAMESPACE
from corral.kube.client import Client
from corral.kube.models.core_v1 import Namespace
from corral.testing.apiserver import FakeApiServer, Fault
from corral.testing.operators import Operator
from corral.testing.toys import Toy, toy_controller

pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer()
    server.register(Toy)
    return server


def client_of(server: FakeApiServer) -> Client:
    return Client(server.connect("person"), luck=Random(1).random)


async def prepared(server: FakeApiServer, lease: LeaseAddress, *, later_s: float = 0) -> list[str]:
    told: list[str] = []
    now = virtual_clock(1).wall() + timedelta(seconds=later_s)
    await leading.prepare(client_of(server), lease, now, told.append)
    return told


def test_without_a_choice_a_persons_operator_runs_for_the_lease_of_the_installed_one() -> None:
    installed, persons = leading.address(None, NAMESPACE), leading.address(None, "")
    assert persons == installed
    assert leading.address("lab", NAMESPACE) == LeaseAddress("lab")


async def test_where_nothing_is_installed_the_leases_namespace_is_made_once(server: FakeApiServer) -> None:
    lease = leading.address(None, "")
    assert await prepared(server, lease) == []
    assert await prepared(server, lease) == []
    assert (await client_of(server).get(Namespace, NAMESPACE)).metadata.name == NAMESPACE


async def test_whoever_stands_by_is_told_who_leads_and_how_to_have_it_stand_aside(server: FakeApiServer) -> None:
    lease = leading.address(None, "")
    await prepared(server, lease)
    installed = Operator(server, toy_controller, name="installed", lease=lease)
    installed.start()
    await asyncio.sleep(5)  # virtual: it leads by now

    (told,) = await prepared(server, lease)
    assert f"installed-1 leads (Lease {NAMESPACE}/corral): this operator stands by until that one stops" in told
    assert f"kubectl scale deployment corral -n {NAMESPACE} --replicas 0" in told
    assert await prepared(server, lease, later_s=3600) == []
    await installed.stop()
    assert await prepared(server, lease) == []


async def test_a_namespace_that_somebody_named_is_not_made(server: FakeApiServer) -> None:
    with pytest.raises(Failure, match="there is no namespace lab for the Lease"):
        await prepared(server, LeaseAddress("lab"))


async def test_who_may_not_make_the_namespace_is_told_what_to_do(server: FakeApiServer) -> None:
    server.fail_next(Fault.FORBID, resource="namespaces", method="POST")
    with pytest.raises(Failure, match=r"you may not create it .*: have Corral installed, or .*--lease-namespace"):
        await prepared(server, leading.address(None, ""))
