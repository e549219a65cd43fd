"""What the daemons of a cluster say of themselves: asked inside their pods, and kept as long as it can be relied on."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from corral.engine import Key
from corral.kinds.controller import recovery, rotation
from corral.kinds.controller.changes import Rest
from corral.kinds.controller.files import DIGEST_FILE
from corral.kinds.controller.objects import COMPONENT
from corral.kinds.controller.shell import PodShell, ask_jobs, ask_keys, ask_state
from corral.kinds.controller.snapshot import Holder, Jobs, KeyFact, Running, Snapshot, current, is_ready
from corral.kube.models.core_v1 import Pod

STATE_AGE_MAX = timedelta(minutes=10)
ASKED_AT_ONCE_MAX = 16


class Fact(msgspec.Struct, frozen=True):
    """What one container of slurmctld said. Another container is another slurmctld."""

    container: str
    running: Running


class Facts:
    """Written by the one pass that a key has at a time."""

    def __init__(self) -> None:
        self._running: dict[Key, Fact] = {}
        self._keys: dict[Key, dict[str, KeyFact]] = {}  # by container: those that had loaded what they had to

    def forget(self, key: Key) -> None:
        self._running.pop(key, None)
        self._keys.pop(key, None)

    def forget_running(self, key: Key) -> None:
        self._running.pop(key, None)

    async def running(self, shell: PodShell, key: Key, seen: Snapshot) -> Running | None:
        """Asked only where the answer may have changed: another container, configuration or key, an old answer."""
        pod = seen.pod
        if pod is None or not is_ready(pod):
            return None
        container = container_of(pod, COMPONENT)
        known = self._running.get(key)
        if known is not None and known.container == container and _still_holds(known.running, seen):
            return known.running
        running = await ask_state(shell, key.namespace, pod.metadata.name, seen.now)
        if running is None:
            self._running.pop(key, None)
        else:
            self._running[key] = Fact(container, running)
        return running

    async def holders(self, shell: PodShell, key: Key, seen: Snapshot, found: Iterable[Holder]) -> tuple[Holder, ...]:
        """Every daemon besides slurmctld that holds keys, with what it says; nobody is asked while no key changes."""
        if not rotation.is_under_way(seen):
            self._keys.pop(key, None)
            return tuple(found)
        kept, wanted = self._keys.setdefault(key, {}), rotation.wanted_files(seen)
        at_once = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

        async def asked(holder: Holder) -> Holder:
            container = container_of(holder.pod, holder.daemon)
            said = kept.get(container)
            if said is None or not rotation.has_loaded(said, wanted):
                async with at_once:
                    said = await ask_keys(shell, key.namespace, holder.pod.metadata.name, holder.daemon)
            if said is not None:
                kept[container] = said
            return msgspec.structs.replace(holder, said=said)

        answers = await asyncio.gather(*(asked(holder) for holder in found))
        present = {container_of(one.pod, one.daemon) for one in answers}
        self._keys[key] = {container: said for container, said in kept.items() if container in present}
        return tuple(answers)


async def jobs_in_the_way(shell: PodShell, seen: Snapshot, rest: Rest | None) -> Jobs | None:
    if rest is None or seen.pod is None or not is_ready(seen.pod):
        return None
    return await ask_jobs(shell, seen.pod.metadata.namespace, seen.pod.metadata.name, rest.partitions)


def container_of(pod: Pod, name: str) -> str:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ids = (status.container_id for status in statuses if status.name == name)
    return f"{pod.metadata.uid}/{next(ids, '')}"


def _still_holds(running: Running, seen: Snapshot) -> bool:
    delivered = current(seen).get(DIGEST_FILE, "")
    confirmed = running.digest == delivered and not running.slurmd.no and not running.slurmd.unknown
    if not running.up or not confirmed or not _is_fresh(running.as_of, seen.now):
        return False
    if recovery.is_unfinished(seen, running):
        return False
    return not rotation.due(msgspec.structs.replace(seen, running=running))


def _is_fresh(as_of: datetime, now: datetime) -> bool:
    return now - as_of < STATE_AGE_MAX
