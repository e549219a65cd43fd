"""Make kinds known to a server, and wait until it serves them.

`kubectl wait --for=condition=Established` cannot do that: it fails when it comes before the first condition is written.
"""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from random import SystemRandom

from corral.kube.client import Client, Put, Selector
from corral.kube.errors import KubeError, Subject
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.watch import InitPut, Server, follow


class NotServed(KubeError):
    """A definition was accepted, and its kind did not come."""


async def define(
    client: Client, definitions: Iterable[CustomResourceDefinition], *, field_manager: str, within_s: float = 30.0
) -> None:
    """Apply the definitions, taking over fields that others own, and return when all of them are served."""
    for definition in definitions:
        applied = await client.apply(definition, field_manager=field_manager, force=True)
        if not is_served(applied):
            await _wait_until_served(client, applied.metadata.name, within_s)


def is_served(definition: CustomResourceDefinition) -> bool:
    conditions = definition.status.conditions or ()
    return any(condition.type == "Established" and condition.status == "True" for condition in conditions)


async def _wait_until_served(client: Client, name: str, within_s: float) -> None:
    only = Selector(fields=f"metadata.name={name}")
    seen: CustomResourceDefinition | None = None
    try:
        async with (
            asyncio.timeout(within_s),
            aclosing(follow(client, CustomResourceDefinition, only, server=Server(), random=SystemRandom())) as events,
        ):
            async for event in events:
                if isinstance(event, InitPut) and event.objects:
                    seen = event.objects[0]
                elif isinstance(event, Put):
                    seen = event.object
                if seen is not None and is_served(seen):
                    return
    except TimeoutError:
        said = "; ".join(f"{c.type} is {c.status}: {c.message}" for c in (seen and seen.status.conditions) or ())
        raise NotServed(
            Subject("define", CustomResourceDefinition.resource.kind, name=name),
            f"accepted, but not served after {within_s:g} s ({said or 'no condition yet'})",
        ) from None
