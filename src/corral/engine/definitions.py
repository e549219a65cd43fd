"""Which kinds the server has come to serve: told by the definitions themselves, so that nobody asks again and again."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import ClassVar

import msgspec
import structlog

from corral.kube.client import Client, Gone, Put
from corral.kube.errors import Forbidden
from corral.kube.meta import Object, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.watch import InitPut, Server, Trouble, follow

log = structlog.get_logger(__name__)


class Definition(Object, frozen=True, kw_only=True):
    """A CustomResourceDefinition of which only the name counts: `Resource.plural_and_group` of what it defines."""

    resource: ClassVar[Resource] = CustomResourceDefinition.resource


class Told(msgspec.Struct, frozen=True):
    """A definition of this name is there, or has gone."""

    name: str
    is_there: bool


async def defined(client: Client, *, server: Server, random: Random) -> AsyncGenerator[Told, None]:
    """What becomes of definitions, as they come, whenever they change, and when they go, for ever.

    Who may not watch them (the rights are those of an older installation) is told once, and noticed when they may.
    """
    events, is_forbidden = follow(client, Definition, server=server, random=random), False
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Trouble) and event.reason == Forbidden.__name__ and not is_forbidden:
                is_forbidden = True
                log.warning("definitions may not be watched: kinds that come later are found late", why=event.message)
            for told in told_in(event):
                yield told


def told_in(event: object) -> tuple[Told, ...]:
    match event:
        case Put(definition):
            return (Told(definition.metadata.name, is_there=True),)
        case InitPut(definitions):
            return tuple(Told(definition.metadata.name, is_there=True) for definition in definitions)
        case Gone(definition):
            return (Told(definition.metadata.name, is_there=False),)
    return ()
