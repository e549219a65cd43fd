"""The baselines of `bench.wukong`: bare loops over aiohttp that make the children of Wukongs, and decide nothing.

    asked_alike    what Corral asks the server for: the finalizer, networks, guests' data and machines applied,
                   disks posted
    posted         only the children, each by a POST

The Wukongs are there. Both go 16 at a time beside the same stand-in. Like Corral they make a machine when a watch has
told that its disk awaits it, so that the stand-in's own time is in all of them.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from bench.process import MeasurementFailed, Settings
from bench.server import bare_request, bare_session, our_client
from corral.engine import Apply, children
from corral.engine.differences import wire
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.cloudinit import cloud_init_secret
from corral.kinds.wukong.disks import AWAITS_MACHINE, disks_of, new_object
from corral.kinds.wukong.farewell import FINALIZER
from corral.kinds.wukong.machine import virtual_machine
from corral.kinds.wukong.networks import own_attachments
from corral.kinds.wukong.spec import Wukong, WukongSpec
from corral.kube.client import Selector
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import PersistentVolumeClaim
from corral.kube.requests import APPLY_PATCH, MERGE_PATCH

AT_ONCE = 16
WATCHES_MAX = 30
CLASS = "bench-wukong"
POSTED_BY_CORRAL = (DataVolume, PersistentVolumeClaim)  # what a disk holds is nobody's to change

SPEC = msgspec.convert(
    {
        "cpu": 2,
        "memory": "4Gi",
        "disks": [
            {"name": "root", "size": "1Gi", "image": "docker://images.test/debian:13", "storageClassName": CLASS},
            {"name": "data", "size": "2Gi", "storageClassName": CLASS},
        ],
        "networks": [{"name": "default"}, {"name": "lan", "bridgeName": "br0", "vlanId": 42}],
    },
    WukongSpec,
)


def a_wukong(number: int, where: str) -> Wukong:
    return Wukong(metadata=ObjectMeta(name=f"vm-{number}", namespace=where), spec=SPEC)


def children_of(wukong: Wukong) -> list[Object]:
    """The same objects that Corral makes, with owner and marks, in the same order."""
    disks = disks_of(wukong, {}, {}, ())
    owned = [cloud_init_secret(wukong, {}), *own_attachments(wukong), virtual_machine(wukong, disks, None, None)]
    first, *others = [action.object for action in children(wukong, owned, ()).actions if isinstance(action, Apply)]
    return [first, *(_placed(new_object(wukong, disk), wukong) for disk in disks), *others]


def _placed(obj: Object, wukong: Wukong) -> Object:
    meta = msgspec.structs.replace(obj.metadata, namespace=wukong.metadata.namespace)
    return msgspec.structs.replace(obj, metadata=meta)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    content_type: str
    body: bytes


async def posted(settings: Settings, where: str) -> float:
    families = [children_of(wukong) for wukong in await _asked_for(settings, where)]
    return await _made(settings, where, families, [[_post(o, where) for o in family] for family in families])


async def asked_alike(settings: Settings, where: str) -> float:
    wukongs = await _asked_for(settings, where)
    families = [children_of(wukong) for wukong in wukongs]
    asked = [
        [_finalizer(wukong), *(_as_corral(o, where) for o in family)]
        for wukong, family in zip(wukongs, families, strict=True)
    ]
    return await _made(settings, where, families, asked)


async def _asked_for(settings: Settings, where: str) -> tuple[Wukong, ...]:
    async with our_client(settings) as client:
        return tuple((await client.list(Wukong, Selector(namespace=where))).items)


def _post(obj: Object, where: str) -> Request:
    path = type(obj).resource.path(where)
    return Request(method="POST", path=path, content_type="application/json", body=_body(obj))


def _as_corral(obj: Object, where: str) -> Request:
    if isinstance(obj, POSTED_BY_CORRAL):
        return _post(obj, where)
    path = f"{type(obj).resource.path(where, obj.metadata.name)}?fieldManager=bench&force=true"
    return Request(method="PATCH", path=path, content_type=APPLY_PATCH, body=_body(obj))


def _finalizer(wukong: Wukong) -> Request:
    body = json.dumps({"metadata": {"finalizers": [FINALIZER]}}).encode()
    path = Wukong.resource.path(wukong.metadata.namespace, wukong.metadata.name)
    return Request(method="PATCH", path=path, content_type=MERGE_PATCH, body=body)


def _body(obj: Object) -> bytes:
    return json.dumps(wire(obj)).encode()


async def _made(
    settings: Settings, where: str, families: Sequence[Sequence[Object]], asked: Sequence[Sequence[Request]]
) -> float:
    """Seconds until the last machine, which is the last request of each, was made."""
    disks = [next(o.metadata.name for o in family if isinstance(o, DataVolume)) for family in families]
    awaits = {disk: asyncio.Event() for disk in disks}
    gate = asyncio.Semaphore(AT_ONCE)
    async with bare_session(settings, connections=AT_ONCE + 1) as session, watch(session, where) as lines:
        listening = asyncio.create_task(tell_disks(lines, awaits))

        async def send(requests: Sequence[Request]) -> None:
            async with gate:
                for one in requests:
                    await bare_request(session, one.method, one.path, one.body, one.content_type)

        async def make(requests: Sequence[Request], disk: str) -> None:
            await send(requests[:-1])
            await awaits[disk].wait()
            await send(requests[-1:])

        async def all_made() -> float:
            began_s = time.monotonic()
            await asyncio.gather(*(make(requests, disk) for requests, disk in zip(asked, disks, strict=True)))
            return time.monotonic() - began_s

        making = asyncio.create_task(all_made())
        await asyncio.wait((making, listening), return_when=asyncio.FIRST_COMPLETED)
        if not making.done():
            raise MeasurementFailed(f"nobody tells any more which disks await their machines: {listening.exception()}")
        listening.cancel()
        return making.result()


class Told(msgspec.Struct):
    """A line of a watch."""

    object: DataVolume


@asynccontextmanager
async def watch(session: aiohttp.ClientSession, where: str) -> AsyncIterator[aiohttp.StreamReader]:
    """Of DataVolumes. A definition that is new is refused for a moment, until the server has a cache for it."""
    refusals: list[int] = []
    while len(refusals) < WATCHES_MAX:
        async with session.get(DataVolume.resource.path(where), params={"watch": "1"}) as response:
            if response.ok:
                yield response.content
                return
            refusals.append(response.status)
        await asyncio.sleep(1)
    raise MeasurementFailed(f"DataVolumes cannot be watched: {refusals[-1]}")


async def tell_disks(lines: aiohttp.StreamReader, awaits: dict[str, asyncio.Event]) -> None:
    """Set the event of each DataVolume that waits for its machine."""
    async for line in lines:
        found = msgspec.json.decode(line, type=Told).object
        if found.status.phase in AWAITS_MACHINE:
            awaits[found.metadata.name].set()
