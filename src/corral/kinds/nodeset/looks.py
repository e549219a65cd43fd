"""Looking into workers whom no slurmctld knows any more: what runs there, told by their own processes."""

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from corral.kinds.controller.shell import SLURMD, PodShell
from corral.kube.errors import KubeError

STEPS = "/usr/libexec/corral/slurmd-steps"
LOOK_S_MAX = 10.0
AT_ONCE_MAX = 16


class _Said(msgspec.Struct, frozen=True):
    steps: tuple[str, ...]


async def steps_on(shell: PodShell, namespace: str, pods: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The steps of jobs that run there, by pod. Who is not in it did not say."""
    at_once = asyncio.Semaphore(AT_ONCE_MAX)

    async def said_by(pod: str) -> tuple[str, _Said | None]:
        async with at_once:
            try:
                answer = await shell.run(namespace, pod, (STEPS,), run_s_max=LOOK_S_MAX, container=SLURMD)
                return pod, msgspec.json.decode(answer.stdout, type=_Said) if answer.exit_code == 0 else None
            except (KubeError, msgspec.DecodeError):
                return pod, None

    found = await asyncio.gather(*map(said_by, pods))
    return {pod: said.steps for pod, said in found if said is not None}
