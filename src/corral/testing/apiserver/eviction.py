"""The eviction subresource of pods: a delete that a PodDisruptionBudget may refuse (429).

The real server reads the budget's status, which the disruption controller keeps; here it is whatever the test wrote.
Pods that are not running are evicted without asking, as the real server does.
"""

from typing import Final

from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import Preconditions
from corral.testing.apiserver.answers import Json, Rejection
from corral.testing.apiserver.kinds import Served
from corral.testing.apiserver.objects import Objects, Options
from corral.testing.apiserver.selectors import matches_label_selector

SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def evict(objects: Objects, served: Served, namespace: str, name: str, body: Json, options: Options) -> Json:
    pod = objects.get(served, namespace, name)
    asked = body.get("deleteOptions") or {}
    dry_run = options.dry_run or bool(asked.get("dryRun"))
    budgets = budgets_of(objects, pod) if is_running(pod) else []
    if len(budgets) > 1:
        raise Rejection(500, "", SEVERAL)
    for budget in budgets:
        spend_disruption(objects, pod, budget, dry_run=dry_run)
    wanted = asked.get("preconditions") or {}
    objects.delete(
        served,
        namespace,
        name,
        grace_s=asked.get("gracePeriodSeconds"),
        preconditions=Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
        dry_run=dry_run,
    )
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def is_running(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and (pod.get("status") or {}).get("phase") == "Running"


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def spend_disruption(objects: Objects, pod: Json, budget: Json, *, dry_run: bool) -> None:
    if not is_ready(pod) and may_go_unready(budget):
        return
    status = budget.get("status") or {}
    allowed = status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < budget["metadata"]["generation"]:
        raise answers.disruption_refused(budget["metadata"]["name"], "is still being processed by the server.")
    if allowed <= 0:
        raise answers.disruption_refused(budget["metadata"]["name"], shortage(status))
    if not dry_run:
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: objects.timestamp()}
        spent = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
        objects.store(served_budgets(objects), budget, {**budget, "status": spent})


def budgets_of(objects: Objects, pod: Json) -> list[Json]:
    labels, resource = pod["metadata"].get("labels") or {}, served_budgets(objects).resource
    found = (budget for _, budget in objects.storage.scan(resource.plural_and_group, pod["metadata"]["namespace"]))
    wanted = ((budget, (budget.get("spec") or {}).get("selector")) for budget in found)
    return [budget for budget, selector in wanted if selector and matches_label_selector(selector, labels)]


def served_budgets(objects: Objects) -> Served:
    served = objects.kinds.find("policy", "v1", "poddisruptionbudgets")
    assert served is not None
    return served


def may_go_unready(budget: Json) -> bool:
    """One that is not ready counts for nothing: by default it may go while enough others are."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))


def shortage(status: Json) -> str:
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy > desired:
        return "does not allow evicting pods currently"
    return f"needs {desired} healthy pods and has {healthy} currently"
