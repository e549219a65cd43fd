"""Kinds made known by `define` are served when it returns."""

from corral.kube import Client, ObjectMeta
from corral.kube.crd import crd_of, kind
from corral.kube.definitions import define
from corral.kube.meta import Model, Object
from corral.kube.transport import Transport
from corral.testing.contract import World


class GadgetSpec(Model, frozen=True, kw_only=True):
    size: int = 1


@kind(group="test.corral.dev", version="v1", plural="gadgets")
class Gadget(Object, frozen=True, kw_only=True):
    """A kind that nobody has defined before."""

    spec: GadgetSpec = GadgetSpec()


async def test_a_kind_is_served_when_define_returns_and_again_when_it_was_there(
    world: World, transport: Transport
) -> None:
    client = Client(transport)
    for _ in range(2):
        await define(client, [crd_of(Gadget)], field_manager="test")
        made = Gadget(metadata=ObjectMeta(generate_name="g-", namespace=world.namespace))
        assert (await client.create(made, field_manager="test")).spec.size == 1
