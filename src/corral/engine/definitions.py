"""Which kinds the server has come to serve: told by the definitions themselves, so that nobody asks again and again."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from random import Random
from typing import ClassVar

import msgspec
import structlog

from corral.kube.client import Client, Gone, Put
from corral.kube.errors import Forbidden
from corral.kube.meta import Object, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.watch import Event, InitDone, InitGone, InitPut, InitStart, Server, Trouble, follow

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
    definitions = Definitions()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Trouble) and event.reason == Forbidden.__name__ and not is_forbidden:
                is_forbidden = True
                log.warning("definitions may not be watched: kinds that come later are found late", why=event.message)
            for told in definitions.told_by(event):
                yield told


class Definitions:
    """Those that are there, by name, with their uids: what went while nobody looked is missing from the next picture.

    One that went and came back meanwhile has another uid. Whoever watched its objects watches those of the old one.
    """

    def __init__(self) -> None:
        self._there: dict[str, str] = {}
        self._coming: dict[str, str] = {}

    def told_by(self, event: Event[Definition]) -> Iterator[Told]:
        match event:
            case InitStart():
                self._coming = {}
            case InitPut(definitions):
                self._coming |= {definition.metadata.name: definition.metadata.uid for definition in definitions}
            case InitGone(definition):
                self._coming.pop(definition.metadata.name, None)
            case InitDone():
                before, self._there, self._coming = self._there, self._coming, {}
                yield from (Told(name, is_there=False) for name in before if self._there.get(name) != before[name])
                yield from (Told(name, is_there=True) for name in self._there)
            case Put(definition):
                self._there[definition.metadata.name] = definition.metadata.uid
                yield Told(definition.metadata.name, is_there=True)
            case Gone(definition):
                self._there.pop(definition.metadata.name, None)
                yield Told(definition.metadata.name, is_there=False)
