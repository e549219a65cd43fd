"""A LoginSet's life in virtual time: its Controller comes late, people meddle, host keys stay what they were."""

import asyncio
from collections.abc import Mapping
from itertools import count

import msgspec
import pytest

from corral.engine import Controller as Declaration
from corral.kinds.controller.spec import Controller
from corral.kinds.loginset.controller import loginset_controller
from corral.kinds.loginset.plan import Snapshot
from corral.kinds.loginset.spec import LoginSet
from corral.kube.client import Client, Precondition
from corral.kube.errors import NotFound
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import ConfigMap, Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from tests.unit.kinds.loginset.builders import ALICE, a_controller, a_key, a_loginset


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer(seed=1, namespaces=("lab",))
        for kind in (LoginSet, Controller):
            self.server.register(kind.resource, status=True)
        self.client = Client(self.server.connect("person"))
        self._generated = count()
        Operator(self.server, self.controller).start()

    def controller(self) -> Declaration[LoginSet, Snapshot]:
        return loginset_controller(self._host_keys)

    async def _host_keys(self) -> Mapping[str, bytes]:
        return {"ssh_host_ed25519_key": f"key {next(self._generated)}".encode()}

    async def make(self, *objects: Object) -> None:
        for obj in objects:
            fresh = ObjectMeta(name=obj.metadata.name, namespace="lab")
            await self.client.create(msgspec.structs.replace(obj, metadata=fresh), field_manager="person")
        await self.settled()

    async def settled(self) -> None:
        await converged(self.server, self.controller, within_s=120)

    async def reason(self) -> str:
        return (await self.client.get(LoginSet, "demo", "lab")).status.conditions[0].reason

    async def host_keys(self) -> Mapping[str, bytes]:
        return (await self.client.get(Secret, "demo-host-keys", "lab")).data


def people() -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="demo-identity", namespace="lab"), data={"passwd": "alice"})


@pytest.mark.looptime
async def test_what_it_needs_may_come_later_and_in_any_order() -> None:
    world = World()
    await world.make(a_loginset())
    assert await world.reason() == "ControllerMissing"
    await world.make(a_controller(identity=ALICE))
    assert await world.reason() == "KeyMissing"
    await world.make(a_key(a_controller()))
    assert await world.reason() == "PeopleMissing"

    await world.make(people())

    assert await world.reason() == "NotAvailable"
    await world.client.get(Deployment, "demo-login", "lab")


@pytest.mark.looptime
async def test_host_keys_outlive_everything_but_the_loginset() -> None:
    world = World()
    await world.make(a_controller(identity=ALICE), a_key(a_controller()), people(), a_loginset())
    before = await world.host_keys()

    await world.client.delete(Deployment, "demo-login", "lab", precondition=Precondition())
    await world.settled()
    Operator(world.server, world.controller).start()
    await world.settled()

    assert await world.host_keys() == before
    await world.client.delete(LoginSet, "demo", "lab", precondition=Precondition())
    await asyncio.sleep(30)
    with pytest.raises(NotFound):
        await world.host_keys()


@pytest.mark.looptime
async def test_settings_that_someone_changed_are_put_back() -> None:
    world = World()
    await world.make(a_controller(identity=ALICE), a_key(a_controller()), people(), a_loginset())
    before = (await world.client.get(ConfigMap, "demo-login", "lab")).data

    changed = ConfigMap(metadata=ObjectMeta(name="demo-login", namespace="lab"), data={"sshd_config": "rubbish"})
    await world.client.apply(changed, field_manager="person", force=True)
    await world.settled()

    assert (await world.client.get(ConfigMap, "demo-login", "lab")).data == before
