"""An Accounting's life in virtual time: keys come late and change, pods become ready, people meddle, it goes."""

import asyncio
from collections.abc import Mapping

import pytest

from corral.kinds.accounting.controller import accounting_controller
from corral.kinds.accounting.spec import Accounting, AccountingSpec
from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.parts import Ref
from corral.kinds.workloads import CONFIG_DIGEST
from corral.kube.client import Client, Precondition
from corral.kube.errors import NotFound
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.batch_v1 import Job
from corral.kube.models.core_v1 import PersistentVolumeClaim, Secret, Service
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged


def meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="lab")


SLURM_KEY = Secret(metadata=meta("slurm-auth-slurm"), data={"slurm.jwks": b"s" * 1024})
JWT_KEY = Secret(metadata=meta("slurm-auth-jwt"), data={"jwt.key": b"j" * 32})
CONTROLLER = Controller(metadata=meta("slurm"), spec=ControllerSpec(accounting_ref=Ref(name="slurm")))


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer(seed=1, namespaces=("lab",))
        for kind in (Accounting, Controller):
            self.server.register(kind.resource, status=True)
        self.client = Client(self.server.connect("person"))
        Operator(self.server, accounting_controller).start()

    async def make(self, *objects: Object) -> None:
        for obj in objects:
            await self.client.create(obj, field_manager="person")
        await self.settled()

    async def settled(self) -> None:
        await converged(self.server, accounting_controller, within_s=120)

    async def reason(self) -> str:
        return (await self.client.get(Accounting, "slurm", "lab")).status.conditions[0].reason

    async def config_digest(self) -> str:
        template = (await self.client.get(StatefulSet, "slurm-accounting", "lab")).spec.template
        return template.metadata.annotations[CONFIG_DIGEST]

    async def password(self) -> bytes:
        return (await self.client.get(Secret, "slurm-database", "lab")).data["password"]

    async def is_up(self, name: str) -> None:
        """What Kubernetes would say of a StatefulSet."""
        generation = (await self.client.get(StatefulSet, name, "lab")).metadata.generation
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "observedGeneration"), 1)
        status = {**counts, "observedGeneration": generation}
        await self.patch(StatefulSet, name, {"status": status}, subresource="status")

    async def patch(self, kind: type[Object], name: str, merge: Mapping[str, object], *, subresource: str = "") -> None:
        await self.client.patch(
            kind,
            name,
            "lab",
            merge=merge,
            subresource=subresource,
            field_manager="kubernetes",
            precondition=Precondition(),
        )
        await self.settled()

    async def image(self) -> str:
        return (await self.client.get(StatefulSet, "slurm-accounting", "lab")).spec.template.spec.containers[0].image


@pytest.mark.looptime
async def test_each_thing_that_is_waited_for_is_named_and_picked_up_when_it_comes() -> None:
    world = World()
    await world.make(Accounting(metadata=meta("slurm")))
    assert await world.reason() == "NoController"
    await world.make(CONTROLLER)
    assert await world.reason() == "DatabaseNotReady"
    await world.is_up("slurm-database")
    assert await world.reason() == "SecretMissing"
    await world.make(SLURM_KEY, JWT_KEY)
    assert await world.reason() == "SlurmdbdNotReady"

    await world.is_up("slurm-accounting")

    status = (await world.client.get(Accounting, "slurm", "lab")).status
    assert status.conditions[0].reason == "AsDesired"
    assert (status.slurm_version, status.controllers) == ("26.05", ("slurm",))


@pytest.mark.looptime
async def test_keys_that_the_controller_makes_meanwhile_are_no_turn_of_the_status() -> None:
    world = World()
    await world.make(CONTROLLER, Accounting(metadata=meta("slurm")))
    first = await world.reason()
    await world.make(SLURM_KEY, JWT_KEY)
    assert (first, await world.reason()) == ("DatabaseNotReady", "DatabaseNotReady")


@pytest.mark.looptime
async def test_a_changed_key_restarts_slurmdbd_and_nothing_else_does() -> None:
    world = World()
    await world.make(CONTROLLER, SLURM_KEY, JWT_KEY, Accounting(metadata=meta("slurm")))
    before = await world.config_digest()
    await asyncio.sleep(11 * 3600)  # a resync
    assert await world.config_digest() == before

    changed = Secret(metadata=meta("slurm-auth-slurm"), data={"slurm.jwks": b"t" * 1024})
    await world.client.apply(changed, field_manager="person", force=True)
    await world.settled()

    assert await world.config_digest() != before


@pytest.mark.looptime
async def test_the_password_is_made_once() -> None:
    world = World()
    await world.make(CONTROLLER, SLURM_KEY, JWT_KEY, Accounting(metadata=meta("slurm")))
    before = await world.password()
    await world.is_up("slurm-database")
    await asyncio.sleep(11 * 3600)

    assert await world.password() == before
    conf = (await world.client.get(Secret, "slurm-accounting", "lab")).data["slurmdbd.conf"]
    assert b"StoragePass=" + before in conf


@pytest.mark.looptime
async def test_a_service_that_someone_deleted_is_made_again() -> None:
    world = World()
    await world.make(CONTROLLER, SLURM_KEY, JWT_KEY, Accounting(metadata=meta("slurm")))

    await world.client.delete(Service, "slurm-accounting", "lab", precondition=Precondition())
    await world.settled()

    assert (await world.client.get(Service, "slurm-accounting", "lab")).spec is not None


@pytest.mark.looptime
async def test_everything_goes_with_its_accounting() -> None:
    world = World()
    await world.make(CONTROLLER, SLURM_KEY, JWT_KEY, Accounting(metadata=meta("slurm")))

    await world.client.delete(Accounting, "slurm", "lab", precondition=Precondition())
    await asyncio.sleep(30)

    for kind, name in ((StatefulSet, "slurm-database"), (StatefulSet, "slurm-accounting"), (Secret, "slurm-database")):
        with pytest.raises(NotFound):
            await world.client.get(kind, name, "lab")
    assert (await world.client.get(Secret, "slurm-auth-slurm", "lab")).data  # not ours, and stays


@pytest.mark.looptime
async def test_a_new_version_waits_for_its_dump_and_is_told_when_it_is_proven() -> None:
    world = World()
    older = Accounting(metadata=meta("slurm"), spec=AccountingSpec(version="24.11"))
    await world.make(CONTROLLER, SLURM_KEY, JWT_KEY, older)
    await world.is_up("slurm-database")
    await world.is_up("slurm-accounting")

    await world.patch(Accounting, "slurm", {"spec": {"version": "26.05"}})
    assert await world.reason() == "Dumping"
    assert await world.image() == "corral/slurm:24.11"

    await world.patch(Job, "slurm-dump-24-11", {"status": {"succeeded": 1}}, subresource="status")
    assert await world.image() == "corral/slurm:26.05"
    assert (await world.client.get(Accounting, "slurm", "lab")).status.slurm_version == "24.11"

    await world.is_up("slurm-accounting")
    assert (await world.client.get(Accounting, "slurm", "lab")).status.slurm_version == "26.05"
    assert (await world.client.get(PersistentVolumeClaim, "slurm-dumps", "lab")).metadata.name
    with pytest.raises(NotFound):
        await world.client.get(Job, "slurm-dump-24-11", "lab")
