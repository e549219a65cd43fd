"""kube-controller-manager's eviction by taints: who does not tolerate NoExecute goes, whatever a budget says.

As `pkg/controller/tainteviction` does it: at once, or after the least of the times for which each taint is tolerated,
counted from when there was the first of them. A deletion, not an eviction.
"""

from collections.abc import Callable, Iterable

from corral.kube.models.core_v1 import Node, Pod
from tests.sim.kubelet import Json

MANAGER = "taint manager"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NO_EXECUTE, NO_SCHEDULE = "NoExecute", "NoSchedule"


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect", "") not in ("", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", "") in ("", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def patience_s(pod: Json, taints: Iterable[Json]) -> float:
    """For how long it tolerates all of them; 0: not all, infinite: for ever."""
    least_s = float("inf")
    for taint in taints:
        used = next((one for one in pod["spec"].get("tolerations", ()) if tolerates(one, taint)), None)
        if used is None:
            return 0.0
        least_s = min(least_s, max(0.0, float(used.get("tolerationSeconds", least_s))))
    return least_s


def keeps_out(node: Json, pod: Json) -> bool:
    """Whether the scheduler puts it elsewhere."""
    taints = node["spec"].get("taints") or ()
    return any(not any(tolerates(one, taint) for one in pod["spec"].get("tolerations", ())) for taint in taints)


class TaintManager:
    def __init__(self, all_of: Callable[[type[Pod] | type[Node]], list[Json]], delete: Callable[[Json], None]) -> None:
        self._all_of, self._delete = all_of, delete
        self._since_s: dict[str, float] = {}  # by uid of the pod

    def tick(self, now_s: float) -> None:
        driving = {
            node["metadata"]["name"]: taints
            for node in self._all_of(Node)
            if (taints := [one for one in node["spec"].get("taints") or () if one["effect"] == NO_EXECUTE])
        }
        if not driving:
            self._since_s.clear()
            return
        for pod in self._all_of(Pod):
            self._look_at(pod, driving.get(pod["spec"].get("nodeName", ""), ()), now_s)

    def _look_at(self, pod: Json, taints: Iterable[Json], now_s: float) -> None:
        uid = pod["metadata"]["uid"]
        if not taints or "deletionTimestamp" in pod["metadata"]:
            self._since_s.pop(uid, None)
            return
        if now_s - self._since_s.setdefault(uid, now_s) >= patience_s(pod, taints):
            self._delete(pod)
