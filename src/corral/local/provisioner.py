"""The process that makes and removes volumes: wait for a change, look at everything, plan, act.

    python -m corral.local.provisioner KUBECONFIG DIRECTORY

Watches only wake it up; what it decides on is a fresh list each time, so a lost event costs nothing but a minute.
"""

import asyncio
import shutil
import sys
from contextlib import aclosing, suppress
from pathlib import Path
from random import Random

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
from corral.kube.meta import Object
from corral.kube.models.core_v1 import PersistentVolume, PersistentVolumeClaim
from corral.kube.watch import Server, follow
from corral.local.storage import Make, plan

LOOK_AGAIN_S = 60.0
TRY_AGAIN_S = 2.0


async def run(kubeconfig: Path, directory: Path) -> None:
    woken = asyncio.Event()
    transport = HttpTransport(load_credentials(kubeconfig), component="storage")
    async with Client(transport) as client, asyncio.TaskGroup() as tasks:
        server = Server()
        for kind in (PersistentVolumeClaim, PersistentVolume):
            tasks.create_task(_wake(client, kind, server, woken))
        while True:
            woken.clear()
            wait_s = await _pass(client, directory)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await woken.wait()


async def _wake(client: Client, kind: type[Object], server: Server, woken: asyncio.Event) -> None:
    async with aclosing(follow(client, kind, server=server, random=Random())) as events:  # noqa: S311 jitter
        async for _ in events:
            woken.set()


async def _pass(client: Client, directory: Path) -> float:
    """Returns how long nothing more needs to be done."""
    try:
        claims = await client.list(PersistentVolumeClaim)
        volumes = await client.list(PersistentVolume)
        for step in plan(claims.items, volumes.items, directory):
            await (_make if isinstance(step, Make) else _remove)(client, step.volume)
    except (KubeError, OSError) as error:
        _say(f"{error}; trying again in {TRY_AGAIN_S:g} s")
        return TRY_AGAIN_S
    return LOOK_AGAIN_S


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
