"""Looking into workers whom no slurmctld knows any more: what runs there, told by their own processes."""

import asyncio
import random
from collections.abc import Mapping, Sequence

import msgspec

from corral.kinds.controller.shell import SLURMD, PodShell
from corral.kube.errors import KubeError

STEPS = "/usr/libexec/corral/slurmd-steps"
LOOK_S_MAX = 5.0
ALL_S_MAX = 20.0  # what was seen is old by then: somebody may have created the Controller again
AT_ONCE_MAX = 16


class _Said(msgspec.Struct, frozen=True):
    steps: tuple[str, ...]


async def steps_on(shell: PodShell, namespace: str, pods: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """The steps of jobs that run there, by pod. Who is not in it did not say, or not in time."""
    found: dict[str, tuple[str, ...]] = {}
    at_once = asyncio.Semaphore(AT_ONCE_MAX)

    async def look_into(pod: str) -> None:
        async with at_once:
            try:
                answer = await shell.run(namespace, pod, (STEPS,), run_s_max=LOOK_S_MAX, container=SLURMD)
                if answer.exit_code == 0:
                    found[pod] = msgspec.json.decode(answer.stdout, type=_Said).steps
            except (KubeError, msgspec.DecodeError):
                return

    try:
        async with asyncio.timeout(ALL_S_MAX), asyncio.TaskGroup() as looks:
            for pod in random.sample(pods, len(pods)):  # another order each time: those who are mute take long
                looks.create_task(look_into(pod))
    except TimeoutError:
        pass
    return dict(found)
