"""Which kinds the server has come to serve: told by the definitions themselves, so that nobody asks again and again."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import ClassVar

import structlog

from corral.kube.client import Client, Put
from corral.kube.errors import Forbidden
from corral.kube.meta import Object, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.watch import InitPut, Server, Trouble, follow

log = structlog.get_logger(__name__)


class Definition(Object, frozen=True, kw_only=True):
    """A CustomResourceDefinition of which only the name counts: `Resource.plural_and_group` of what it defines."""

    resource: ClassVar[Resource] = CustomResourceDefinition.resource


async def defined(client: Client, *, server: Server, random: Random) -> AsyncGenerator[str, None]:
    """The names of definitions, as they come and whenever they change, for ever.

    Who may not watch them (the rights are those of an older installation) is told once, and noticed when they may.
    """
    events, is_forbidden = follow(client, Definition, server=server, random=random), False
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Trouble) and event.reason == Forbidden.__name__ and not is_forbidden:
                is_forbidden = True
                log.warning("definitions may not be watched: kinds that come later are found late", why=event.message)
            for definition in definitions_in(event):
                yield definition.metadata.name


def definitions_in(event: object) -> tuple[Definition, ...]:
    match event:
        case Put(definition):
            return (definition,)
        case InitPut(definitions):
            return definitions
    return ()
