"""A RestApi's life in virtual time: its Controller comes late, its pods become available, people meddle."""

import asyncio

import pytest

from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.parts import Ref
from corral.kinds.restapi.controller import restapi_controller
from corral.kinds.restapi.spec import RestApi, RestApiSpec
from corral.kube.client import Client, Precondition
from corral.kube.errors import NotFound
from corral.kube.meta import ObjectMeta
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import ConfigMap
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged

META = ObjectMeta(name="slurm", namespace="lab")


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer(seed=1, namespaces=("lab",))
        for kind in (RestApi, Controller, Accounting):
            self.server.register(kind.resource, status=True)
        self.client = Client(self.server.connect("person"))
        Operator(self.server, restapi_controller).start()

    async def make(self, *objects: RestApi | Controller | Accounting) -> None:
        for obj in objects:
            await self.client.create(obj, field_manager="person")
        await self.settled()

    async def settled(self) -> None:
        await converged(self.server, restapi_controller, within_s=120)

    async def reason(self) -> str:
        return (await self.client.get(RestApi, "slurm", "lab")).status.conditions[0].reason

    async def pods_are_up(self, count: int) -> None:
        """What Kubernetes would say of the Deployment."""
        generation = (await self.client.get(Deployment, "slurm-restapi", "lab")).metadata.generation
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), count)
        await self.client.patch(
            Deployment,
            "slurm-restapi",
            "lab",
            merge={"status": {**counts, "observedGeneration": generation}},
            subresource="status",
            field_manager="kubernetes",
            precondition=Precondition(),
        )
        await self.settled()


def a_restapi() -> RestApi:
    return RestApi(metadata=META, spec=RestApiSpec(controller_ref=Ref(name="slurm"), replicas=2))


def a_controller(*, accounting: str = "") -> Controller:
    return Controller(metadata=META, spec=ControllerSpec(accounting_ref=Ref(name=accounting) if accounting else None))


@pytest.mark.looptime
async def test_what_it_refers_to_may_come_later() -> None:
    world = World()
    await world.make(a_restapi())
    assert await world.reason() == "ControllerMissing"
    await world.make(a_controller(accounting="slurm"))
    assert await world.reason() == "AccountingMissing"

    await world.make(Accounting(metadata=META))

    assert "slurm-accounting.lab" in (await world.client.get(ConfigMap, "slurm-restapi", "lab")).data["slurm.conf"]
    assert await world.reason() == "NotAvailable"


@pytest.mark.looptime
async def test_it_is_ready_when_all_replicas_are_available_and_not_before() -> None:
    world = World()
    await world.make(a_controller(), a_restapi())
    await world.pods_are_up(1)
    assert await world.reason() == "NotAvailable"

    await world.pods_are_up(2)

    assert await world.reason() == "AsDesired"
    assert (await world.client.get(RestApi, "slurm", "lab")).status.ready_replicas == 2


@pytest.mark.looptime
async def test_a_configuration_that_someone_changed_is_put_back() -> None:
    world = World()
    await world.make(a_controller(), a_restapi())
    before = (await world.client.get(ConfigMap, "slurm-restapi", "lab")).data

    changed = ConfigMap(metadata=ObjectMeta(name="slurm-restapi", namespace="lab"), data={"slurm.conf": "rubbish"})
    await world.client.apply(changed, field_manager="person", force=True)
    await world.settled()

    assert (await world.client.get(ConfigMap, "slurm-restapi", "lab")).data == before


@pytest.mark.looptime
async def test_slurmrestd_goes_on_when_its_controller_is_gone_and_goes_with_its_restapi() -> None:
    world = World()
    await world.make(a_controller(), a_restapi())
    await world.client.delete(Controller, "slurm", "lab", precondition=Precondition())
    await world.settled()
    assert await world.reason() == "ControllerMissing"
    await world.client.get(Deployment, "slurm-restapi", "lab")

    await world.client.delete(RestApi, "slurm", "lab", precondition=Precondition())
    await asyncio.sleep(30)

    with pytest.raises(NotFound):
        await world.client.get(Deployment, "slurm-restapi", "lab")
