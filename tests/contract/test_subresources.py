"""Scale and eviction; and what the server says about itself."""

import asyncio
from typing import Any

import pytest

from corral.kube.errors import Conflict, NotFound, TooManyRequests
from corral.kube.selection import Precondition
from corral.kube.unstructured import Unstructured
from corral.testing.contract import ANYTHING, BUDGET, PLAYTHING, POD, WITHIN_S, World

MERGE = "application/merge-patch+json"


@pytest.mark.usefixtures("playthings")
async def test_scale_shows_and_sets_the_replicas(world: World) -> None:
    made = await world.create(world.plaything("a", {"replicas": 1}))
    await world.merge(made, {"status": {"replicas": 1, "selector": "x=y"}}, subresource="status")
    path = f"/apis/contract.corral.dev/v1/namespaces/{world.namespace}/playthings/a/scale"

    scale = await world.raw("GET", path)
    assert (scale.body["spec"], scale.body["status"]) == ({"replicas": 1}, {"replicas": 1, "selector": "x=y"})
    changed = await world.raw("PATCH", path, body={"spec": {"replicas": 3}}, content_type=MERGE)
    assert (changed.status, changed.body["spec"]) == (200, {"replicas": 3})
    found = await world.get(PLAYTHING, "a")
    assert (found.get("spec", "replicas"), found.metadata.generation) == (3, 2)


async def test_scale_of_an_old_version_is_a_conflict(world: World, playthings: None) -> None:
    first = await world.create(world.plaything("a", {"replicas": 1}))
    await world.merge(first, {"spec": {"replicas": 2}})
    path = f"/apis/contract.corral.dev/v1/namespaces/{world.namespace}/playthings/a/scale"
    body = {"metadata": {"resourceVersion": first.metadata.resource_version}, "spec": {"replicas": 3}}

    assert (await world.raw("PATCH", path, body=body, content_type=MERGE)).status == 409


async def test_a_kind_that_does_not_scale_has_no_scale(world: World) -> None:
    await world.create(world.config_map("a"))

    assert (await world.raw("GET", f"/api/v1/namespaces/{world.namespace}/configmaps/a/scale")).status == 404


async def running_pod(world: World, name: str = "a", *, ready: bool = True) -> Unstructured:
    made = await world.create(world.pod(name, labels={"app": "a"}))
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return await world.merge(made, {"status": {"phase": "Running", "conditions": [condition]}}, subresource="status")


async def budget(world: World, allowed: int) -> Unstructured:
    return await budget_of(world, {"minAvailable": 1 - allowed}, healthy=1, pods=1)


async def budget_of(world: World, spec: dict[str, Any], *, healthy: int, pods: int, name: str = "a") -> Unstructured:
    """Its status is what the disruption controller, where there is one, will find too."""
    made = await world.create(
        world.thing(BUDGET, name, spec={"selector": {"matchLabels": {"app": "a"}}, **spec}),
    )
    desired = spec["minAvailable"]
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": max(0, healthy - desired),
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "expectedPods": pods,
    }
    return await world.merge(made, {"status": status}, subresource="status")


async def evicted(world: World) -> bool:
    try:
        await world.client.evict("a", world.namespace, precondition=ANYTHING)
    except TooManyRequests:  # the disruption controller may have looked before it saw the pod run
        return False
    return True


async def test_an_evicted_pod_is_deleted(world: World) -> None:
    await running_pod(world)
    await world.client.evict("a", world.namespace, precondition=ANYTHING)

    with pytest.raises(NotFound):
        await world.get(POD, "a")


async def test_an_eviction_that_is_only_tried_evicts_nothing(world: World) -> None:
    pod = await running_pod(world)
    await world.client.evict("a", world.namespace, precondition=ANYTHING, dry_run=True)

    assert await world.get(POD, "a") == pod


async def test_a_budget_that_is_spent_refuses_an_eviction(world: World) -> None:
    pod = await running_pod(world)
    await budget(world, allowed=0)
    path = f"/api/v1/namespaces/{world.namespace}/pods/a/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": world.namespace}}

    answer = await world.raw("POST", path, body=body)
    assert (answer.status, answer.body["reason"]) == (429, "TooManyRequests")
    assert [cause["reason"] for cause in answer.body["details"]["causes"]] == ["DisruptionBudget"]
    assert await world.get(POD, "a") == pod


async def test_a_budget_that_allows_it_is_spent_by_an_eviction(world: World) -> None:
    await running_pod(world)
    await budget(world, allowed=1)
    async with asyncio.timeout(WITHIN_S):
        while not await evicted(world):
            pass

    left = await world.get(BUDGET, "a")
    assert left.get("status", "disruptionsAllowed", default=0) == 0
    with pytest.raises(NotFound):
        await world.get(POD, "a")


async def test_a_pod_that_does_not_run_is_evicted_in_spite_of_a_budget(world: World) -> None:
    await world.create(world.pod("a", labels={"app": "a"}))
    await budget(world, allowed=0)
    await world.client.evict("a", world.namespace, precondition=ANYTHING)

    with pytest.raises(NotFound):
        await world.get(POD, "a")


@pytest.mark.parametrize(
    ("spec", "goes"),
    [
        ({"minAvailable": 1}, True),  # as many are healthy as are wanted: it counts for nothing
        ({"minAvailable": 2}, False),
        ({"minAvailable": 2, "unhealthyPodEvictionPolicy": "IfHealthyBudget"}, False),
        ({"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"}, True),
    ],
)
async def test_a_pod_that_is_not_ready_goes_if_enough_others_are_or_its_budget_says_so(
    world: World, spec: dict[str, Any], goes: bool
) -> None:
    await running_pod(world, "b")
    await running_pod(world, ready=False)
    made = await budget_of(world, spec, healthy=1, pods=2)
    assert await evicted(world) is goes
    assert (await world.get(BUDGET, "a")).get("spec") == made.get("spec")


async def test_an_integer_that_no_number_of_pods_reaches_lets_none_go(world: World) -> None:
    await running_pod(world)
    await budget_of(world, {"minAvailable": 2147483647}, healthy=1, pods=1)
    assert not await evicted(world)


async def test_two_budgets_over_a_pod_let_nobody_evict_it(world: World) -> None:
    pod = await running_pod(world)
    for name in ("a", "b"):
        await budget_of(world, {"minAvailable": 0}, healthy=1, pods=1, name=name)
    path = f"/api/v1/namespaces/{world.namespace}/pods/a/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": world.namespace}}

    answer = await world.raw("POST", path, body=body)
    assert (answer.status, answer.body.get("reason")) == (500, None)
    assert "more than one PodDisruptionBudget" in answer.body["message"]
    assert await world.get(POD, "a") == pod


async def test_an_eviction_of_another_pod_of_that_name_is_a_conflict(world: World) -> None:
    pod = await running_pod(world)
    stranger = Precondition(uid="11111111-1111-4111-8111-111111111111")

    with pytest.raises(Conflict):
        await world.client.evict("a", world.namespace, precondition=stranger)
    assert await world.get(POD, "a") == pod


async def test_the_server_says_its_version_and_what_it_serves(world: World) -> None:
    version = await world.raw("GET", "/version")
    core = await world.raw("GET", "/api/v1")
    groups = await world.raw("GET", "/apis")

    assert version.body["major"] == "1"
    pods = next(each for each in core.body["resources"] if each["name"] == "pods")
    assert (pods["kind"], pods["namespaced"], "watch" in pods["verbs"]) == ("Pod", True, True)
    assert {"apps", "policy", "coordination.k8s.io"} <= {each["name"] for each in groups.body["groups"]}
