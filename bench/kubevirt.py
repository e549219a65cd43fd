"""`python -m bench.kubevirt SETTINGS NAMESPACE`: the stand-in for KubeVirt and CDI, for hundreds of machines.

What it does is the stand-in's of the tests. As real controllers do, it reads what watches have told, and machines and
volumes do not wait for each other: to list everything ten times a second would cost the server more than what is
measured beside it.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from bench.process import Settings
from bench.server import our_client
from corral.engine.clock import system_clock
from corral.engine.informer import Informers
from corral.engine.store import Key, key_of
from corral.kube.client import Client, Selector
from corral.kube.errors import KubeError
from corral.kube.meta import Object
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.kubevirt_standin.access import Access

T = TypeVar("T", bound=Object)
PACE_S = 0.1
SEEN_WITHIN_S = 5.0


class Watching(Access):
    """Everything as the watches show it, and on top what it has itself written since."""

    def __init__(self, client: Client, informers: Informers, namespace: str) -> None:
        super().__init__(client, namespace)
        self._informers = informers
        self._written: dict[type[Object], dict[Key, tuple[float, Any]]] = {}

    async def all(self, kind: type[T]) -> tuple[T, ...]:
        where = Selector(namespace=self.namespace if kind.resource.namespaced else "")
        informer = self._informers.of(kind, where, optional=True)
        await informer.synced.wait()
        found: dict[Key, T] = {key_of(obj): obj for obj in informer.store}
        now_s, unseen = asyncio.get_running_loop().time(), self._written.get(kind, {})
        for key, (at_s, obj) in list(unseen.items()):
            seen = found.get(key)
            if now_s - at_s > SEEN_WITHIN_S or (seen is not None and _version(seen) >= _version(obj)):
                del unseen[key]
            else:
                found[key] = obj
        return tuple(found.values())

    async def create(self, obj: Object) -> Object:
        return self._wrote(await super().create(obj))

    async def patch(self, obj: Object, merge: Mapping[str, Any], *, subresource: str = "") -> Object | None:
        answer = await super().patch(obj, merge, subresource=subresource)
        return self._wrote(answer) if answer is not None else None

    def _wrote(self, answer: Object) -> Object:
        at_s = asyncio.get_running_loop().time()
        self._written.setdefault(type(answer), {})[key_of(answer)] = (at_s, answer)
        return answer


def _version(obj: Object) -> int:
    return int(obj.metadata.resource_version)


async def again_and_again(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        with suppress(KubeError):
            await step()
        await asyncio.sleep(PACE_S)


async def play(settings: Settings, where: str) -> None:
    async with our_client(settings) as client, asyncio.TaskGroup() as parts:
        informers = Informers(client, system_clock())
        standin = KubeVirtStandIn(client, access=Watching(client, informers, where), real_binding=True)
        parts.create_task(informers.run())
        for step in (standin.step_machines, standin.step_volumes):
            parts.create_task(again_and_again(step))


if __name__ == "__main__":
    asyncio.run(play(msgspec.json.decode(sys.argv[1], type=Settings), sys.argv[2]))
