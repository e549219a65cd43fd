"""Looking into workers of whom nobody else knows what runs there; and ending the wait of those that go.

Their own programs are run in their pods, through kubelet.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from corral.engine import Key, OutsideFailed
from corral.kinds.controller.shell import SLURMD, PodShell
from corral.kinds.nodeset.calls import END_WAIT
from corral.kube.errors import KubeError

STEPS = "/usr/libexec/corral/slurmd-steps"
RETRY_S = 10.0
LOOK_S_MAX = 5.0
MUTE_S = 60.0
TRIED_AGAIN_S = 0.5  # once, within that time: a connection may break that is there again at once
ALL_S_MAX = 20.0  # what was seen is old by then: somebody may have created the Controller again
AT_ONCE_MAX = 16
HAS_ENDED = f'container not found ("{SLURMD}")'  # kubelet's word for one that does not run: its processes are gone


class Mute:
    """Workers that did not answer. They are not asked again for a while: whatever else a NodeSet has to do would wait
    for them in every pass. Who is not asked does not say, so it stays."""

    def __init__(self) -> None:
        self._since: dict[Key, dict[str, datetime]] = {}

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)

    def has(self, key: Key, pod: str, now: datetime) -> bool:
        at = self._since.get(key, {}).get(pod)
        return at is not None and now - at < timedelta(seconds=MUTE_S)

    def learns(self, key: Key, asked: Iterable[str], mute: Iterable[str], now: datetime) -> None:
        since = self._since.setdefault(key, {})
        for pod in asked:
            since.pop(pod, None)
        since.update(dict.fromkeys(mute, now))


class Look(msgspec.Struct, frozen=True, kw_only=True):
    steps: Mapping[str, tuple[str, ...]]  # of jobs that run there, by pod
    mute: frozenset[str] = frozenset()  # did not say; who is in neither was not asked for lack of time


class _Said(msgspec.Struct, frozen=True):
    steps: tuple[str, ...]


def stepped(
    before: Mapping[str, datetime], pods: Sequence[str], steps: Mapping[str, tuple[str, ...]], now: datetime
) -> Mapping[str, datetime]:
    """When steps were last seen on these, as far as this process has looked."""
    found = {pod: now if steps.get(pod) else before.get(pod) for pod in pods}
    return {pod: at for pod, at in found.items() if at is not None}


async def steps_on(shell: PodShell, namespace: str, pods: Sequence[str]) -> Look:
    found: dict[str, tuple[str, ...]] = {}
    mute: set[str] = set()
    at_once = asyncio.Semaphore(AT_ONCE_MAX)

    async def look_into(pod: str) -> None:
        async with at_once:
            mute.add(pod)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S_MAX):
                    steps = await _steps(shell, namespace, pod)
                if steps is not None:
                    found[pod] = steps
                    mute.discard(pod)

    try:
        async with asyncio.timeout(ALL_S_MAX), asyncio.TaskGroup() as looks:
            for pod in random.sample(pods, len(pods)):  # another order each time: those who are mute take long
                looks.create_task(look_into(pod))
    except TimeoutError:
        pass
    return Look(steps=dict(found), mute=frozenset(mute))


async def end_wait(shell: PodShell | None, namespace: str, pod: str) -> None:
    """Of a worker that was deleted, for its jobs. One whose container has ended waits for nothing."""
    said = "no shell"
    try:
        if shell is not None:
            answer = await shell.run(namespace, pod, END_WAIT, run_s_max=LOOK_S_MAX, container=SLURMD)
            said = answer.stderr.decode(errors="replace").strip() if answer.exit_code else ""
    except KubeError as error:
        said = "" if HAS_ENDED in str(error) else str(error)
    if said:
        raise unreachable(namespace, pod, said)


def unreachable(namespace: str, pod: str, why: str) -> OutsideFailed:
    message = f"pod {namespace}/{pod}: its wait for jobs cannot be ended: {why}"
    return OutsideFailed("PodUnreachable", message, alone=True, retry_after_s=RETRY_S)


async def _steps(shell: PodShell, namespace: str, pod: str) -> tuple[str, ...] | None:
    """Asked twice if kubelet, or the way to it, fails. None: it does not say."""
    with suppress(KubeError):
        return await _asked(shell, namespace, pod)
    await asyncio.sleep(TRIED_AGAIN_S)
    with suppress(KubeError):
        return await _asked(shell, namespace, pod)
    return None


async def _asked(shell: PodShell, namespace: str, pod: str) -> tuple[str, ...] | None:
    try:
        answer = await shell.run(namespace, pod, (STEPS,), run_s_max=LOOK_S_MAX, container=SLURMD)
        return msgspec.json.decode(answer.stdout, type=_Said).steps if answer.exit_code == 0 else None
    except msgspec.DecodeError:
        return None
    except KubeError as error:
        if HAS_ENDED in str(error):
            return ()
        raise
