"""A Token's life in virtual time: the key comes late, changes, is taken away; time passes; people meddle."""

import asyncio

import jwt
import msgspec
import pytest

from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.parts import KeyRef, Ref
from corral.kinds.token.controller import token_controller
from corral.kinds.token.spec import Token, TokenSpec
from corral.kube.client import Client, Precondition
from corral.kube.errors import NotFound
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Secret
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator

A_MOMENT_S = 5.0
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


class World:
    def __init__(self) -> None:
        self.server = FakeApiServer(seed=1, namespaces=("lab",))
        self.server.register(Token.resource, status=True)
        self.server.register(Controller.resource, status=True)
        self.client = Client(self.server.connect("person"))
        self.operator = Operator(self.server, token_controller)
        self.operator.start()

    async def make_token(self, *, key: str = "", controller: str = "") -> None:
        spec = TokenSpec(
            username="alice",
            lifetime="10m",
            jwt_key_ref=KeyRef(name=key, key="jwt.key") if key else None,
            controller_ref=Ref(name=controller) if controller else None,
        )
        await self.client.create(Token(metadata=meta("ci"), spec=spec), field_manager="person")
        await asyncio.sleep(A_MOMENT_S)

    async def make_key(self, name: str, key: bytes = KEY) -> None:
        await self.client.create(Secret(metadata=meta(name), data={"jwt.key": key}), field_manager="person")
        await asyncio.sleep(A_MOMENT_S)

    async def change(self, name: str, data: dict[str, bytes]) -> None:
        await self.client.apply(Secret(metadata=meta(name), data=data), field_manager="person", force=True)
        await asyncio.sleep(A_MOMENT_S)

    async def text(self) -> str:
        return (await self.client.get(Secret, "ci-jwt-alice", "lab")).data["SLURM_JWT"].decode()

    async def reason(self) -> str:
        return (await self.client.get(Token, "ci", "lab")).status.conditions[0].reason


def meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="lab")


def is_signed_with(key: bytes, text: str) -> bool:
    try:
        options: jwt.types.Options = {"verify_exp": False, "verify_iat": False}
        return bool(jwt.decode(text, key, algorithms=["HS256"], options=options)["sun"] == "alice")
    except jwt.InvalidSignatureError:
        return False


@pytest.mark.looptime(noop_cycles=0)
async def test_a_key_that_appears_later_is_picked_up() -> None:
    world = World()
    await world.make_token(key="key")
    assert await world.reason() == "KeyMissing"

    await world.make_key("key")

    assert is_signed_with(KEY, await world.text())
    assert await world.reason() == "AsDesired"


@pytest.mark.looptime(noop_cycles=0)
async def test_the_key_of_a_controller_signs_when_controller_and_key_have_come() -> None:
    world = World()
    await world.make_token(controller="slurm")
    assert await world.reason() == "ControllerMissing"
    await world.client.create(Controller(metadata=meta("slurm"), spec=ControllerSpec()), field_manager="person")
    await asyncio.sleep(A_MOMENT_S)
    assert await world.reason() == "KeyMissing"

    await world.make_key("slurm-auth-jwt")

    assert is_signed_with(KEY, await world.text())


@pytest.mark.looptime(noop_cycles=0)
async def test_a_changed_key_signs_again_at_once() -> None:
    world = World()
    await world.make_key("key")
    await world.make_token(key="key")

    await world.change("key", {"jwt.key": OTHER_KEY})

    assert is_signed_with(OTHER_KEY, await world.text())


@pytest.mark.looptime(noop_cycles=0)
async def test_a_token_is_signed_again_before_a_fifth_of_its_life_is_left_and_not_much_earlier() -> None:
    world = World()
    await world.make_key("key")
    await world.make_token(key="key")
    first = await world.text()

    await asyncio.sleep(8 * 60 - 2 * A_MOMENT_S)
    assert await world.text() == first
    await asyncio.sleep(2 * A_MOMENT_S)

    assert await world.text() != first


@pytest.mark.looptime(noop_cycles=0)
async def test_what_someone_writes_over_the_token_is_replaced() -> None:
    world = World()
    await world.make_key("key")
    await world.make_token(key="key")

    await world.change("ci-jwt-alice", {"SLURM_JWT": b"rubbish"})

    assert is_signed_with(KEY, await world.text())


@pytest.mark.looptime(noop_cycles=0)
async def test_a_secret_of_someone_else_is_never_touched() -> None:
    world = World()
    await world.make_key("key")
    await world.client.create(Secret(metadata=meta("ci-jwt-alice"), data={"theirs": b"1"}), field_manager="person")
    await world.make_token(key="key")

    assert await world.reason() == "NameTaken"
    assert (await world.client.get(Secret, "ci-jwt-alice", "lab")).data == {"theirs": b"1"}


@pytest.mark.looptime(noop_cycles=0)
async def test_a_key_that_is_too_short_needs_a_person_and_is_not_shown() -> None:
    world = World()
    await world.make_key("key", b"short-secret")
    await world.make_token(key="key")

    status = (await world.client.get(Token, "ci", "lab")).status
    assert await world.reason() == "KeyUnusable"
    assert "short-secret" not in str(msgspec.to_builtins(status))


@pytest.mark.looptime(noop_cycles=0)
async def test_the_secret_goes_with_its_token() -> None:
    world = World()
    await world.make_key("key")
    await world.make_token(key="key")

    await world.client.delete(Token, "ci", "lab", precondition=Precondition())
    await asyncio.sleep(A_MOMENT_S)

    with pytest.raises(NotFound):
        await world.text()
