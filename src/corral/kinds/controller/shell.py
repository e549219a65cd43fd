"""Speaking with daemons from inside their pods, by small programs of the image: each prints one line of JSON.

No agent and no sidecar: the operator runs them when it needs to know, or when there is something to deliver.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from corral.engine import OutsideFailed
from corral.kinds.controller.objects import COMPONENT
from corral.kinds.controller.snapshot import ApplyConfig, HoldJobs, Jobs, KeyFact, Running, Taken
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.meta import EMPTY

STATE = "/usr/libexec/corral/slurmctld-state"
APPLY = "/usr/libexec/corral/slurmctld-apply"
JOBS = "/usr/libexec/corral/slurmctld-jobs"
KEYS = "/usr/libexec/corral/keys-state"
STATE_S_MAX = 20.0
MOUNTED_WITHIN_S = 20  # what slurmctld-apply waits for kubelet
APPLY_S_MAX = 100.0
REFUSED_RETRY_S = 300.0
LATE_RETRY_S = 1.0
JOBS_RETRY_S = 5.0


class Answer(msgspec.Struct, frozen=True):
    """What a command in a pod wrote, and how it ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes = b""


class PodShell(Protocol):
    """Runs a command in a container of a pod. Raises KubeError when it cannot."""

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = COMPONENT
    ) -> Answer: ...


class ClientShell:
    """The real one: exec through the API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = COMPONENT
    ) -> Answer:
        result = await self._client.exec(pod, namespace, command, container=container, run_s_max=run_s_max)
        return Answer(result.exit_code, result.stdout, result.stderr)


class _State(msgspec.Struct, frozen=True):
    digest: str
    version: str
    up: bool
    keys: Mapping[str, str] = EMPTY
    since: int = 0
    slurmd: Taken = Taken()


class _Keys(msgspec.Struct, frozen=True):
    files: Mapping[str, str]
    loaded: bool
    since: int


class _Held(msgspec.Struct, frozen=True):
    count: int
    some: tuple[str, ...] = ()
    held: bool = False


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
    since = datetime.fromtimestamp(said.since, UTC) if said.since else None
    return Running(
        digest=said.digest,
        version=said.version,
        up=said.up,
        as_of=now,
        keys=said.keys,
        keys_since=since,
        slurmd=said.slurmd,
    )


async def ask_keys(shell: PodShell, namespace: str, pod: str, daemon: str) -> KeyFact | None:
    """None: it did not say."""
    try:
        answer = await shell.run(namespace, pod, (KEYS, daemon), run_s_max=STATE_S_MAX, container=daemon)
        said = msgspec.json.decode(answer.stdout, type=_Keys)
    except (KubeError, msgspec.DecodeError):
        return None
    return KeyFact(files=said.files, loaded=said.loaded, since=datetime.fromtimestamp(said.since, UTC))


async def ask_jobs(shell: PodShell, namespace: str, pod: str, partitions: tuple[str, ...]) -> Jobs | None:
    """None: it did not say."""
    try:
        answer = await shell.run(namespace, pod, (JOBS, "count", *partitions), run_s_max=STATE_S_MAX)
        said = msgspec.json.decode(answer.stdout, type=_Held)
    except (KubeError, msgspec.DecodeError):
        return None
    return Jobs(count=said.count, some=said.some)


async def hold_jobs(shell: PodShell, namespace: str, call: HoldJobs) -> None:
    """Return when no job runs and none can start; raise OutsideFailed when one does."""
    answer = await shell.run(namespace, call.pod, (JOBS, "hold", *call.partitions), run_s_max=STATE_S_MAX)
    try:
        said = msgspec.json.decode(answer.stdout, type=_Held)
    except msgspec.DecodeError:
        raise OutsideFailed("JobsUnknown", _unheard(namespace, call.pod, JOBS, answer)) from None
    if not said.held:
        message = f"{said.count} jobs have started meanwhile ({', '.join(said.some)}); they are waited for"
        raise OutsideFailed("WaitingForJobs", message, retry_after_s=JOBS_RETRY_S)


async def apply_config(shell: PodShell, namespace: str, call: ApplyConfig) -> None:
    """Return when slurmctld runs it; raise OutsideFailed with its own words when it does not."""
    awaited = (f"{file}={digest}" for file, digest in sorted(call.keys.items()))
    command = (APPLY, call.digest, str(MOUNTED_WITHIN_S), *awaited)
    answer = await shell.run(namespace, call.pod, command, run_s_max=APPLY_S_MAX)
    try:
        said = msgspec.json.decode(answer.stdout, type=_Applied)
    except msgspec.DecodeError:
        raise OutsideFailed("ConfigUnconfirmed", _unheard(namespace, call.pod, APPLY, answer)) from None
    if said.result == "refused":
        message = f"slurmctld refuses the configuration, the last good one stays: {said.message}"
        raise OutsideFailed("ConfigRefused", message, stalled=True, retry_after_s=REFUSED_RETRY_S)
    if said.result == "late":
        message = f"the files are not in the pod yet: {said.message}"
        raise OutsideFailed("ConfigLate", message, retry_after_s=LATE_RETRY_S)


def _unheard(namespace: str, pod: str, program: str, answer: Answer) -> str:
    words = answer.stderr.decode(errors="replace").strip()[-500:]
    return f"pod {namespace}/{pod}: {program} ended with {answer.exit_code}: {words or 'without a word'}"
