"""Logs, exec, eviction and scale on real pods."""

import asyncio
from contextlib import aclosing
from datetime import datetime

import pytest

from corral.kube import (
    ApiError,
    Client,
    LogOptions,
    NotFound,
    ObjectMeta,
    Precondition,
    Put,
    Selector,
    TooManyRequests,
)
from corral.kube.meta import Condition
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import Container, Pod, PodSpec
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

MANAGER = "corral-test"
TALKS = "echo one; echo two >&2; trap 'exit 0' TERM; while :; do sleep 1; done"


@pytest.fixture
async def pod(client: Client, corral_cluster: Cluster, corral_namespace: str) -> Pod:
    image = corral_cluster.provide_toolbox()
    container = Container(name="main", image=image, image_pull_policy="IfNotPresent", command=("bash", "-c", TALKS))
    spec = PodSpec(containers=(container,), termination_grace_period_seconds=1)
    wanted = Pod(metadata=ObjectMeta(name="talks", namespace=corral_namespace, labels={"app": "talks"}), spec=spec)
    return await running(client, await client.create(wanted, field_manager=MANAGER))


async def running(client: Client, pod: Pod) -> Pod:
    where = Selector(pod.metadata.namespace, fields=f"metadata.name={pod.metadata.name}")
    async with asyncio.timeout(120), aclosing(client.watch(Pod, where, initial_list=True)) as events:
        async for event in events:
            if isinstance(event, Put) and event.object.status.phase == "Running":
                return event.object
    raise AssertionError("the watch ended before the pod ran")


async def exec_in(client: Client, pod: Pod, *command: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
    result = await client.exec(pod.metadata.name, pod.metadata.namespace, command, stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


async def test_exec_gives_output_and_exit_code(client: Client, pod: Pod) -> None:
    assert await exec_in(client, pod, "bash", "-c", "echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")


async def test_exec_feeds_input_to_its_end(client: Client, pod: Pod) -> None:
    assert await exec_in(client, pod, "wc", "-c", stdin=b"x" * 300_000) == (0, b"300000\n", b"")


async def test_exec_gives_every_byte_of_a_large_output(client: Client, pod: Pod) -> None:
    code, out, _ = await exec_in(client, pod, "head", "-c", "3000000", "/dev/zero")

    assert (code, len(out)) == (0, 3_000_000)


async def test_exec_can_be_talked_with(client: Client, pod: Pod) -> None:
    command = ("bash", "-c", "while read line; do echo got $line; done; exit 7")
    async with client.exec_stream("talks", pod.metadata.namespace, command, stdin=True) as shell:
        await shell.write(b"a\n")
        output = shell.output()
        assert (await anext(output)).data == b"got a\n"
        await shell.close_stdin()
        assert [one async for one in output] == []
    assert shell.exit_code == 7


async def test_exec_of_what_is_not_there_says_so(client: Client, pod: Pod) -> None:
    with pytest.raises(ApiError, match="no-such-program"):
        await exec_in(client, pod, "no-such-program")
    with pytest.raises(ApiError, match="no-such-container"):
        await client.exec("talks", pod.metadata.namespace, ("true",), container="no-such-container")
    with pytest.raises(NotFound, match="exec Pod"):
        await client.exec("no-such-pod", pod.metadata.namespace, ("true",))


async def test_logs_are_read_and_followed(client: Client, pod: Pod) -> None:
    where = ("talks", pod.metadata.namespace)
    said: set[str] = set()
    async with asyncio.timeout(60), aclosing(client.logs(*where, LogOptions(follow=True, timestamps=True))) as lines:
        while said != {"one", "two"}:  # one goes to each of its outputs, in no certain order
            stamp, _, text = (await anext(lines)).partition("Z ")
            datetime.fromisoformat(stamp[:26])
            said.add(text)
    assert {line async for line in client.logs(*where)} == {"one", "two"}
    assert [line async for line in client.logs(*where, LogOptions(tail_lines=0))] == []


async def test_an_eviction_waits_for_the_budget(client: Client, pod: Pod) -> None:
    budget = {
        "metadata": {"name": "keep", "namespace": pod.metadata.namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "talks"}}},
    }
    await client.create(PodDisruptionBudget.resource.untyped()(content=budget), field_manager=MANAGER)
    await observed(client, "keep", pod.metadata.namespace)
    with pytest.raises(TooManyRequests, match="budget"):
        await client.evict("talks", pod.metadata.namespace, precondition=Precondition.of(pod))

    await client.delete(PodDisruptionBudget, "keep", pod.metadata.namespace, precondition=Precondition())
    await client.evict("talks", pod.metadata.namespace, precondition=Precondition(pod.metadata.uid))
    assert (await client.get(Pod, "talks", pod.metadata.namespace)).metadata.deletion_timestamp is not None


async def observed(client: Client, name: str, namespace: str) -> None:
    """The budget's controller has counted the pods."""
    where = Selector(namespace, fields=f"metadata.name={name}")
    async with asyncio.timeout(60), aclosing(client.watch(PodDisruptionBudget, where, initial_list=True)) as events:
        async for event in events:
            if isinstance(event, Put) and conditions_of(event.object):
                return


def conditions_of(budget: PodDisruptionBudget) -> tuple[Condition, ...]:
    return budget.status.conditions


async def test_a_scale_is_set_on_the_version_that_was_seen(client: Client, corral_namespace: str) -> None:
    content = {
        "metadata": {"name": "idle", "namespace": corral_namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "idle"}},
            "template": {
                "metadata": {"labels": {"app": "idle"}},
                "spec": {"containers": [{"name": "main", "image": "never-pulled:1"}]},
            },
        },
    }
    await client.create(Deployment.resource.untyped()(content=content), field_manager=MANAGER)
    scale = await client.get_scale(Deployment, "idle", corral_namespace)
    after = await client.set_scale(
        Deployment,
        "idle",
        corral_namespace,
        replicas=0,
        precondition=Precondition(scale.metadata.uid),
        field_manager=MANAGER,
    )

    assert (scale.spec.replicas, after.spec.replicas) == (0, 0)
