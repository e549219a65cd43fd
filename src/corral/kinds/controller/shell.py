"""Speaking with slurmctld from inside its pod, by the two small programs of the image: each prints one line of JSON.

No agent and no sidecar: the operator runs them when it needs to know, or when there is something to deliver.
"""

from datetime import datetime
from typing import Literal, Protocol

import msgspec

from corral.engine import OutsideFailed
from corral.kinds.controller.objects import COMPONENT
from corral.kinds.controller.plan import ApplyConfig, Running
from corral.kube.client import Client
from corral.kube.errors import KubeError

STATE = "/usr/libexec/corral/slurmctld-state"
APPLY = "/usr/libexec/corral/slurmctld-apply"
STATE_S_MAX = 20.0
MOUNTED_WITHIN_S = 20  # what slurmctld-apply waits for kubelet
APPLY_S_MAX = 100.0
REFUSED_RETRY_S = 300.0
LATE_RETRY_S = 1.0


class Answer(msgspec.Struct, frozen=True):
    """What a command in a pod wrote, and how it ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes = b""


class PodShell(Protocol):
    """Runs a command in a container of a pod. Raises KubeError when it cannot."""

    async def run(self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float) -> Answer: ...


class ClientShell:
    """The real one: exec through the API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float) -> Answer:
        result = await self._client.exec(pod, namespace, command, container=COMPONENT, run_s_max=run_s_max)
        return Answer(result.exit_code, result.stdout, result.stderr)


class _State(msgspec.Struct, frozen=True):
    digest: str
    version: str
    up: bool


class _Applied(msgspec.Struct, frozen=True):
    result: Literal["applied", "refused", "late"]
    digest: str
    message: str


async def ask_state(shell: PodShell, namespace: str, pod: str, now: datetime) -> Running | None:
    """None: it did not say. That is no reason to fail a pass; nothing is decided on what is not known."""
    try:
        answer = await shell.run(namespace, pod, (STATE,), run_s_max=STATE_S_MAX)
        said = msgspec.json.decode(answer.stdout, type=_State)
    except (KubeError, msgspec.DecodeError):
        return None
    return Running(digest=said.digest, version=said.version, up=said.up, as_of=now)


async def apply_config(shell: PodShell, namespace: str, call: ApplyConfig) -> None:
    """Return when slurmctld runs it; raise OutsideFailed with its own words when it does not."""
    command = (APPLY, call.digest, str(MOUNTED_WITHIN_S))
    answer = await shell.run(namespace, call.pod, command, run_s_max=APPLY_S_MAX)
    try:
        said = msgspec.json.decode(answer.stdout, type=_Applied)
    except msgspec.DecodeError:
        words = answer.stderr.decode(errors="replace").strip()[-500:]
        message = f"pod {namespace}/{call.pod}: {APPLY} ended with {answer.exit_code}: {words or 'without a word'}"
        raise OutsideFailed("ConfigUnconfirmed", message) from None
    if said.result == "refused":
        message = f"slurmctld refuses the configuration, the last good one stays: {said.message}"
        raise OutsideFailed("ConfigRefused", message, stalled=True, retry_after_s=REFUSED_RETRY_S)
    if said.result == "late":
        message = f"the files are not in the pod yet: {said.message}"
        raise OutsideFailed("ConfigLate", message, retry_after_s=LATE_RETRY_S)
