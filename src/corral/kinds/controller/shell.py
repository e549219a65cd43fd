"""Speaking with daemons from inside their pods, by small programs of the image: each prints one line of JSON.

No agent and no sidecar: the operator runs them when it needs to know, or when there is something to deliver.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

import msgspec

from corral.engine import OutsideFailed
from corral.kinds.controller.files import KEYS_DIR
from corral.kinds.controller.objects import COMPONENT
from corral.kinds.controller.snapshot import (
    ApplyConfig,
    Beginning,
    CloseRecords,
    HoldJobs,
    Jobs,
    KeptKeys,
    KeyFact,
    RegisterAnew,
    Revival,
    Running,
    Taken,
)
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.meta import EMPTY

STATE = "/usr/libexec/corral/slurmctld-state"
APPLY = "/usr/libexec/corral/slurmctld-apply"
JOBS = "/usr/libexec/corral/slurmctld-jobs"
KEYS = "/usr/libexec/corral/keys-state"
RECORDS = "/usr/libexec/corral/slurmctld-records"
REGISTER = "/usr/libexec/corral/slurmd-register"
STATE_S_MAX = 20.0
KEPT_S_MAX = 5.0
MOUNTED_WITHIN_S = 20  # what slurmctld-apply waits for kubelet
APPLY_S_MAX = 100.0
REFUSED_RETRY_S = 300.0
LATE_RETRY_S = 1.0
JOBS_RETRY_S = 5.0
RECORDS_S_MAX = 60.0
RECOVERY_RETRY_S = 10.0
REGISTERING_AT_ONCE_MAX = 16
SLURMD = "slurmd"


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


async def ask_kept_keys(
    shell: PodShell, namespace: str, places: Iterable[tuple[str, str]], files: Iterable[str]
) -> KeptKeys:
    """Key files that are still mounted in one of these pods and containers; what cannot be read is left out."""
    kept: dict[str, bytes] = {}
    missing = set(files)
    for pod, container in places:
        for file in sorted(missing):
            command = ("cat", f"{KEYS_DIR}/{file}")
            try:
                answer = await shell.run(namespace, pod, command, run_s_max=KEPT_S_MAX, container=container)
            except KubeError:
                continue
            if answer.exit_code == 0:
                kept[file] = answer.stdout
        missing -= kept.keys()
        if not missing:
            break
    return KeptKeys(kept)


class _Revival(msgspec.Struct, frozen=True):
    """Ages in seconds, by the pod's own clock."""

    at: float
    loaded: float
    holding: Mapping[str, float] = EMPTY
    lost: tuple[str, ...] | None = None


class _Beginning(msgspec.Struct, frozen=True):
    at: float
    known: frozenset[str] = frozenset()
    lost: tuple[str, ...] | None = None


class _State(msgspec.Struct, frozen=True):
    digest: str
    version: str
    up: bool
    keys: Mapping[str, str] = EMPTY
    since: int = 0
    slurmd: Taken = Taken()
    revival: _Revival | None = None
    beginning: _Beginning | None = None


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
        revival=_revival(said.revival, now) if said.revival else None,
        beginning=_beginning(said.beginning, now) if said.beginning else None,
    )


def _revival(said: _Revival, now: datetime) -> Revival:
    return Revival(
        at=now - timedelta(seconds=said.at),
        loaded=now - timedelta(seconds=said.loaded),
        holding={node: now - timedelta(seconds=age) for node, age in said.holding.items()},
        lost=said.lost,
    )


def _beginning(said: _Beginning, now: datetime) -> Beginning:
    return Beginning(at=now - timedelta(seconds=said.at), known=said.known, lost=said.lost)


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
        jobs = f"{said.count} job{'s' if said.count > 1 else ''} started meanwhile ({', '.join(said.some)})"
        message = f"{jobs}; waiting for {'them' if said.count > 1 else 'it'} to end"
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
        message = f"the new files are not in the pod yet: {said.message}"
        raise OutsideFailed("ConfigLate", message, retry_after_s=LATE_RETRY_S)


async def register_anew(shell: PodShell, namespace: str, call: RegisterAnew) -> None:
    """Return when slurmctld has heard all of them; raise OutsideFailed for the first that it has not."""
    at_once = asyncio.Semaphore(REGISTERING_AT_ONCE_MAX)

    async def told(pod: str) -> str:
        async with at_once:
            try:
                answer = await shell.run(namespace, pod, (REGISTER,), run_s_max=STATE_S_MAX, container=SLURMD)
            except KubeError as error:
                return f"pod {namespace}/{pod}: {error}"
        return "" if answer.exit_code == 0 else _unheard(namespace, pod, REGISTER, answer)

    unheard = [why for why in await asyncio.gather(*map(told, call.pods)) if why]
    if unheard:
        message = f"{len(unheard)} of {len(call.pods)} workers did not register again: {unheard[0]}"
        raise OutsideFailed("WorkersUnheard", message, retry_after_s=RECOVERY_RETRY_S)


async def close_records(shell: PodShell, namespace: str, call: CloseRecords) -> None:
    answer = await shell.run(namespace, call.pod, (RECORDS, "close"), run_s_max=RECORDS_S_MAX)
    if answer.exit_code != 0:
        message = _unheard(namespace, call.pod, RECORDS, answer)
        raise OutsideFailed("RecordsUnclosed", message, retry_after_s=RECOVERY_RETRY_S)


def _unheard(namespace: str, pod: str, program: str, answer: Answer) -> str:
    words = answer.stderr.decode(errors="replace").strip()[-500:]
    return f"pod {namespace}/{pod}: {program} ended with exit code {answer.exit_code}: {words or 'no output'}"
