"""The process that makes and removes volumes: wait for a change, look at everything, plan, act.

    python -m corral.local.provisioner KUBECONFIG DIRECTORY

It looks at what its watches have told. A picture that is late costs nothing: a volume's name follows from its claim's
uid, so none is made twice, and one is removed by the uid that was looked at. To list anew at each change would cost the
API server more than all else that a few hundred claims bring.
"""

import asyncio
import shutil
import sys
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

from corral.kube import (
    AlreadyExists,
    Client,
    Conflict,
    HttpTransport,
    KubeError,
    NotFound,
    Precondition,
    load_credentials,
)
from corral.kube.client import Gone, Put
from corral.kube.meta import Object
from corral.kube.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from corral.kube.watch import Event, InitDone, InitGone, InitPut, InitStart, Server, follow
from corral.local.storage import Make, plan

T = TypeVar("T", bound=Object)
TRY_AGAIN_S = 2.0


class Picture(Generic[T]):
    """All objects of a kind, once a first full picture is there."""

    def __init__(self) -> None:
        self._by_uid: dict[str, T] = {}
        self._coming: dict[str, T] = {}
        self.is_complete = False

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._by_uid.values()))

    def see(self, event: Event[T]) -> None:
        match event:
            case InitStart():
                self._coming = {}
            case InitPut(objects):
                self._coming |= {obj.metadata.uid: obj for obj in objects}
            case InitGone(obj):
                self._coming.pop(obj.metadata.uid, None)
            case InitDone():
                self._by_uid, self._coming, self.is_complete = self._coming, {}, True
            case Put(obj):
                self._by_uid[obj.metadata.uid] = obj
            case Gone(obj):
                self._by_uid.pop(obj.metadata.uid, None)


async def run(kubeconfig: Path, directory: Path) -> None:
    woken, server = asyncio.Event(), Server()
    claims, volumes = Picture[PersistentVolumeClaim](), Picture[PersistentVolume]()
    transport = HttpTransport(load_credentials(kubeconfig), component="storage")
    async with Client(transport) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(_look(client, PersistentVolumeClaim, server, claims, woken))
        tasks.create_task(_look(client, PersistentVolume, server, volumes, woken))
        while True:
            await woken.wait()
            woken.clear()
            if claims.is_complete and volumes.is_complete and not await carry_out(client, claims, volumes, directory):
                await asyncio.sleep(TRY_AGAIN_S)
                woken.set()


async def _look(client: Client, kind: type[T], server: Server, picture: Picture[T], woken: asyncio.Event) -> None:
    async with aclosing(follow(client, kind, server=server, random=Random())) as events:  # noqa: S311 jitter
        async for event in events:
            picture.see(event)
            woken.set()


async def carry_out(
    client: Client, claims: Picture[PersistentVolumeClaim], volumes: Picture[PersistentVolume], directory: Path
) -> bool:
    """Whether all that is to be done was done. A volume in trouble keeps no other waiting."""
    is_done = True
    for step in plan(claims, volumes, directory):
        try:
            await (_make if isinstance(step, Make) else _remove)(client, step.volume)
        except (KubeError, OSError) as error:
            _say(f"{error}; trying again in {TRY_AGAIN_S:g} s")
            is_done = False
    return is_done


async def _make(client: Client, volume: PersistentVolume) -> None:
    path = _directory(volume)
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)  # any user of any pod, as with a fresh volume of a cloud
    with suppress(AlreadyExists):
        await client.create(volume, field_manager="corral-storage")
        _say(f"made {volume.metadata.name}")


async def _remove(client: Client, volume: PersistentVolume) -> None:
    path = _directory(volume)
    if path.exists():
        await asyncio.to_thread(shutil.rmtree, path)
    with suppress(NotFound, Conflict):
        await client.delete(PersistentVolume, volume.metadata.name, precondition=Precondition(uid=volume.metadata.uid))
        _say(f"removed {volume.metadata.name}")


def _directory(volume: PersistentVolume) -> Path:
    if volume.spec.host_path is None:
        raise OSError(f"PersistentVolume {volume.metadata.name}: expected a hostPath, found none")
    return Path(volume.spec.host_path.path)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), Path(sys.argv[2])))
