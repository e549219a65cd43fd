"""A pod that lives for a moment, to see what only a pod sees: do images come, who may it be, what may it write.

`manifest` and `seen` are pure; `probe` makes the pod, waits for it by watch, and always takes it away.
"""

import asyncio
import secrets
from collections.abc import Iterable, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from random import SystemRandom

from corral.cli.checks import Probe
from corral.kube import watch
from corral.kube.client import Client, Precondition, Put, Selector
from corral.kube.errors import Forbidden, KubeError, NotFound
from corral.kube.logs import LogOptions
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements, SecurityContext

LOOKS = "looks"  # the container that looks around; the others only show that their image comes
SCRIPT = """
echo uid=$(id -u)
echo time=$(date +%s)
echo cgroup=$(stat -f -c %T /sys/fs/cgroup)
if mkdir /sys/fs/cgroup/corral-check 2>/dev/null; then
  rmdir /sys/fs/cgroup/corral-check
  echo cgroup_writable=yes
else
  echo cgroup_writable=no
fi
dns=$(getent hosts kubernetes.default) && echo dns=${dns%% *} || echo dns=no
"""
HOPELESS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError")


def manifest(namespace: str, images: Iterable[str]) -> Pod:
    """The first image is Slurm's; its container is as slurmd's: root, not privileged."""
    small = ResourceRequirements(requests={"cpu": "10m", "memory": "16Mi"})
    containers = [
        Container(
            name=LOOKS if number == 0 else f"image-{number}",
            image=image,
            command=("sh", "-c", SCRIPT if number == 0 else "exit 0"),
            security_context=SecurityContext(run_as_user=0, run_as_group=0),
            resources=small,
        )
        for number, image in enumerate(images)
    ]
    name = f"corral-check-{secrets.token_hex(4)}"
    labels = {"app.kubernetes.io/name": "corral-check"}
    spec = PodSpec(
        containers=tuple(containers),
        restart_policy="Never",
        automount_service_account_token=False,
        termination_grace_period_seconds=0,
    )
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), spec=spec)


def has_ended(pod: Pod) -> bool:
    statuses = pod.status.container_statuses
    return len(statuses) == len(pod.spec.containers) and all(one.state.terminated or _trouble(one) for one in statuses)


def seen(pod: Pod, log: Iterable[str], now: datetime) -> Probe:
    pairs = (line.partition("=") for line in log if "=" in line)
    late = "" if has_ended(pod) else f"pod {pod.metadata.name}: {'; '.join(_waits(pod)) or pod.status.phase}"
    by_name = {container.name: container.image for container in pod.spec.containers}
    return Probe(
        node=pod.spec.node_name,
        late=late,
        images={by_name[status.name]: _trouble(status) for status in pod.status.container_statuses},
        said={key: value for key, _, value in pairs},
        began=pod.metadata.creation_timestamp,
        ended=now + timedelta(seconds=1),  # the server's times are whole seconds
    )


def _trouble(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    return f"{waiting.reason}: {waiting.message}" if waiting is not None and waiting.reason in HOPELESS else ""


def _waits(pod: Pod) -> Iterator[str]:
    for condition in pod.status.conditions:
        if condition.status == "False" and condition.message:
            yield condition.message
    for status in pod.status.container_statuses:
        if status.state.waiting is not None:
            yield f"{status.name} {status.state.waiting.reason}"


async def probe(client: Client, namespace: str, images: Iterable[str], within_s: float) -> tuple[Probe, float | None]:
    """What the pod saw, and how far our clock is ahead of the API server's."""
    wanted = manifest(namespace, images)
    asked = datetime.now(UTC)
    try:
        pod = await client.create(wanted, field_manager="corral-check")
    except (Forbidden, NotFound) as error:
        return Probe(refused=error.message), None
    made = pod.metadata.creation_timestamp or asked
    skew_s = _outside_s(asked, made, datetime.now(UTC))
    try:
        last = await _when_ended(client, pod, within_s)
        log = await _log(client, last) if _looked(last) else []
        return seen(last, log, datetime.now(UTC) - timedelta(seconds=skew_s)), skew_s
    finally:
        with suppress(NotFound):
            await client.delete(Pod, wanted.metadata.name, namespace, precondition=Precondition(), grace_period_s=0)


def _outside_s(before: datetime, told: datetime, after: datetime) -> float:
    """How far our clock is ahead of the one that told, whose times are cut to whole seconds; 0 if that is all."""
    if told + timedelta(seconds=1) < before:
        return (before - told).total_seconds()
    return min(0.0, (after - told).total_seconds())


async def _when_ended(client: Client, pod: Pod, within_s: float) -> Pod:
    only = Selector(namespace=pod.metadata.namespace, fields=f"metadata.name={pod.metadata.name}")
    last = pod
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(within_s),
            aclosing(watch.follow(client, Pod, only, server=watch.Server(), random=SystemRandom())) as events,
        ):
            async for event in events:
                last = _newest(event, last)
                if has_ended(last):
                    break
    return last


def _newest(event: watch.Event[Pod], last: Pod) -> Pod:
    match event:
        case watch.InitPut((pod, *_)) | Put(pod):
            return pod
    return last


def _looked(pod: Pod) -> bool:
    return any(one.name == LOOKS and one.state.terminated for one in pod.status.container_statuses)


async def _log(client: Client, pod: Pod) -> list[str]:
    with suppress(KubeError):
        lines = client.logs(pod.metadata.name, pod.metadata.namespace, LogOptions(container=LOOKS))
        async with aclosing(lines):
            return [line async for line in lines]
    return []
