"""Each contract test runs against the fake server, in virtual time, and against the real one."""

import uuid
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from corral.kube import HttpTransport, load_credentials
from corral.kube.errors import AlreadyExists
from corral.kube.transport import Transport
from corral.kube.unstructured import untyped
from corral.testing.apiserver import FakeApiServer
from corral.testing.contract import DEFINITION, NAMESPACE, PLAYTHING, PLAYTHING_DEFINITION, SERVICE_ACCOUNT, World


@pytest.fixture(
    params=[
        pytest.param("fake", marks=pytest.mark.looptime),
        pytest.param("real", marks=pytest.mark.cluster),
    ]
)
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[Transport]:
    if request.param == "fake":
        chosen: Transport = FakeApiServer().connect("contract")
    else:
        kubeconfig = request.getfixturevalue("corral_cluster").kubeconfig
        chosen = HttpTransport(load_credentials(kubeconfig), component="contract")
    yield chosen
    await chosen.close()


@pytest.fixture
async def world(transport: Transport) -> AsyncIterator[World]:
    world = World(transport, f"contract-{uuid.uuid4().hex[:8]}")
    space = await world.create(world.thing(NAMESPACE, world.namespace))
    with suppress(AlreadyExists):  # a real cluster makes it too, a moment later; pods need it now
        await world.create(world.thing(SERVICE_ACCOUNT, "default"))
    yield world
    await world.delete(space)


@pytest.fixture
async def playthings(world: World) -> None:
    """The custom kind is served."""
    with suppress(AlreadyExists):
        await world.create(untyped(DEFINITION)(content=PLAYTHING_DEFINITION))
    await world.until_served(PLAYTHING)
