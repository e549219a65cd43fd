"""Reading and writing for the stand-in: lists of kinds that may be missing, and patches that may come too late."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from corral.kube.client import Client, Precondition, Selector
from corral.kube.errors import Conflict, NotFound
from corral.kube.meta import Object

A = TypeVar("A")
T = TypeVar("T", bound=Object)
MANAGER = "kubevirt-standin"
AT_ONCE = 8


class Access:
    """`namespace`: whose objects it looks at; empty for all. Cluster-wide kinds are always seen."""

    def __init__(self, client: Client, namespace: str = "") -> None:
        self._client = client
        self.namespace = namespace
        self.writes = 0

    async def all(self, kind: type[T]) -> tuple[T, ...]:
        try:
            where = Selector(namespace=self.namespace if kind.resource.namespaced else "")
            return tuple((await self._client.list(kind, where)).items)
        except NotFound:
            return ()  # its definition is not there

    async def each(self, things: Iterable[A], do: Callable[[A], Awaitable[None]]) -> None:
        """Some at a time, as controllers with several workers do it; one that fails does not stop the others."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(thing: A) -> None:
            async with gate:
                await do(thing)

        for ended in await asyncio.gather(*map(one, things), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended

    async def find(self, kind: type[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None

    async def create(self, obj: Object) -> Object:
        self.writes += 1
        return await self._client.create(obj, field_manager=MANAGER)

    async def set_status(self, obj: Object, status: Mapping[str, Any], *, subresource: bool = True) -> None:
        await self.patch(obj, {"status": status}, subresource="status" if subresource else "")

    async def patch(self, obj: Object, merge: Mapping[str, Any], *, subresource: str = "") -> Object | None:
        meta = obj.metadata
        self.writes += 1
        try:
            return await self._client.patch(
                type(obj),
                meta.name,
                meta.namespace,
                merge=merge,
                subresource=subresource,
                field_manager=MANAGER,
                precondition=Precondition(uid=meta.uid),
            )
        except (NotFound, Conflict):
            return None  # it is another one by now; the next look sees it

    async def delete(self, obj: Object) -> None:
        meta = obj.metadata
        self.writes += 1
        try:
            await self._client.delete(type(obj), meta.name, meta.namespace, precondition=Precondition(uid=meta.uid))
        except (NotFound, Conflict):
            return


def made_at(obj: Object) -> str:
    """When it was asked for, which is here when it happens."""
    assert obj.metadata.creation_timestamp is not None
    return f"{obj.metadata.creation_timestamp:%Y-%m-%dT%H:%M:%SZ}"
