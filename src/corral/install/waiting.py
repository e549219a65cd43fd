"""Wait for facts of a cluster, and tell what is still missing. The facts are pure functions of objects."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import ContainerStatus, Pod
from corral.kube.unstructured import Unstructured
from corral.local.errors import LocalError
from corral.local.progress import Step

LOOK_EVERY_S = 0.3
RESTARTS_MAX = 2
HOPELESS = ("ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError")


async def until(what: str, missing: Callable[[], Awaitable[str]], within_s: float, step: Step) -> None:
    """Look until nothing is missing any more. What is missing last is in the error."""
    deadline_s = time.monotonic() + within_s
    while said := await missing():
        step.say(said)
        if time.monotonic() > deadline_s:
            raise LocalError(f"waited {within_s:g} s until {what}, and still: {said}")
        await asyncio.sleep(LOOK_EVERY_S)


def not_rolled_out(deployment: Deployment) -> str:
    """Empty when all pods are of the present template and available, and no other is left."""
    status, wanted = deployment.status, deployment.spec.replicas
    if (status.observed_generation or 0) < (deployment.metadata.generation or 0):
        return f"Deployment {deployment.metadata.name} has not been processed yet"
    counts = {(status.updated_replicas or 0), (status.available_replicas or 0), (status.replicas or 0)}
    if counts == {wanted}:
        return ""
    return f"{status.available_replicas or 0} of {wanted} pods of {deployment.metadata.name} are ready"


def not_ready(obj: Unstructured) -> str:
    """Empty when a kind of ours is Ready as it is now; otherwise its own words."""
    name = f"{obj.resource.kind} {obj.metadata.name}"
    observed = obj.get("status", "observedGeneration", default=-1)
    if not isinstance(observed, int) or observed < (obj.metadata.generation or 0):
        return f"{name} has not been processed yet"
    conditions = obj.get("status", "conditions", default=())
    for condition in conditions if isinstance(conditions, tuple) else ():
        if condition["type"] == "Ready":
            return "" if condition["status"] == "True" else f"{name}: {condition['message'] or condition['reason']}"
    return f"{name} is not ready"


def cannot_start(pods: Iterable[Pod]) -> str:
    """Why a pod will not start by waiting; empty when waiting may help."""
    for pod in pods:
        for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
            if reason := _hopeless(status):
                return f"pod {pod.metadata.namespace}/{pod.metadata.name} cannot start: {reason}"
    return ""


def without_node(pods: Iterable[Pod]) -> str:
    """Why a pod has no node, in the scheduler's words; empty when each has one. Waiting may help: nodes come."""
    for pod in pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
                return f"pod {pod.metadata.namespace}/{pod.metadata.name} has no node: {condition.message}"
    return ""


def keeps_failing(pods: Iterable[Pod]) -> str:
    """Why a program that is started again and again ends, in its own last words; empty when none does."""
    for pod in pods:
        for status in pod.status.container_statuses or ():
            ended = status.last_state.terminated
            if ended is not None and status.restart_count >= RESTARTS_MAX and not status.ready:
                said = (ended.message or "").strip().rpartition("\n")[2] or "no message"
                where = f"pod {pod.metadata.namespace}/{pod.metadata.name}, container {status.name}"
                end = f"ended with exit code {ended.exit_code}: {said}"
                return f"{where} was started {status.restart_count + 1} times and {end}"
    return ""


def newest(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """The one that was made last; empty when there is none."""
    made = sorted(
        (pod for pod in pods if pod.metadata.creation_timestamp), key=lambda p: str(p.metadata.creation_timestamp)
    )
    return tuple(made[-1:])


def _hopeless(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    if waiting is None or waiting.reason not in HOPELESS:
        return ""
    return f"{waiting.reason}, image {status.image}: {waiting.message or 'no reason given'}"
