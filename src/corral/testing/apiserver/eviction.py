"""The eviction subresource of pods: a delete that a PodDisruptionBudget may refuse (429).

The real server reads the budget's status, which the disruption controller keeps; here it is whatever the test wrote.
Pods that are not running are evicted without asking, as the real server does.
"""

from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import Preconditions
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Served
from corral.testing.apiserver.objects import Objects, Options
from corral.testing.apiserver.selectors import matches_label_selector


def evict(objects: Objects, served: Served, namespace: str, name: str, body: Json, options: Options) -> Json:
    pod = objects.get(served, namespace, name)
    asked = body.get("deleteOptions") or {}
    dry_run = options.dry_run or bool(asked.get("dryRun"))
    if is_running(pod):
        spend_disruption(objects, pod, dry_run=dry_run)
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


def spend_disruption(objects: Objects, pod: Json, *, dry_run: bool) -> None:
    budgets = objects.kinds.find("policy", "v1", "poddisruptionbudgets")
    assert budgets is not None
    labels = pod["metadata"].get("labels") or {}
    for _, budget in objects.storage.scan(budgets.resource.plural_and_group, pod["metadata"]["namespace"]):
        wanted = (budget.get("spec") or {}).get("selector")
        if not wanted or not matches_label_selector(wanted, labels):
            continue
        status = budget.get("status") or {}
        allowed = status.get("disruptionsAllowed", 0)
        if not is_ready(pod) and 0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0):
            continue  # it counts for nothing, so its going costs nothing
        if allowed <= 0:
            raise answers.disruption_refused(budget["metadata"]["name"], shortage(status))
        if not dry_run:
            disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: objects.timestamp()}
            spent = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
            objects.store(budgets, budget, {**budget, "status": spent})


def shortage(status: Json) -> str:
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if healthy > desired:
        return "does not allow evicting pods currently"
    return f"needs {desired} healthy pods and has {healthy} currently"
