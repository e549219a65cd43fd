"""kube-controller-manager's disruption controller: how many pods a PodDisruptionBudget lets go just now.

As `pkg/controller/disruption` computes it: of those that are expected, so many must be healthy, which is ready and not
going. How many are expected: for `maxUnavailable` and for percentages what the owners of the pods are scaled to, for an
integer `minAvailable` the pods themselves.
"""

import math

from corral.kube.models.core_v1 import Pod
from corral.kube.models.policy_v1 import PodDisruptionBudget
from corral.testing.apiserver import FakeApiServer
from corral.testing.apiserver.answers import Rejection
from corral.testing.apiserver.scale import scale_of
from corral.testing.apiserver.selectors import matches_label_selector
from tests.sim.kubelet import Json, is_ready


class Unknown(Exception):
    """Whose pods they are, or what that one is scaled to."""


class Disruption:
    def __init__(self, server: FakeApiServer) -> None:
        self._server = server

    def tick(self) -> None:
        for budget in self._server.all_of(PodDisruptionBudget):
            meta, status = budget["metadata"], self._status(budget)
            if status != budget.get("status"):
                self._server.edit(
                    PodDisruptionBudget, meta["name"], meta["namespace"], merge={"status": status}, subresource="status"
                )

    def _status(self, budget: Json) -> Json:
        meta, spec, said = budget["metadata"], budget["spec"], budget.get("status") or {}
        pods = [
            pod
            for pod in self._server.all_of(Pod, meta["namespace"])
            if matches_label_selector(spec["selector"], pod["metadata"].get("labels") or {})
        ]
        try:
            expected, desired = self._expected(spec, pods)
        except Unknown:
            return {**said, "disruptionsAllowed": 0}
        staying = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        disrupted = {name: at for name, at in (said.get("disruptedPods") or {}).items() if name in staying}
        gone = {name: None for name in said.get("disruptedPods") or {} if name not in disrupted}
        healthy = sum(pod["metadata"]["name"] in staying - disrupted.keys() and is_ready(pod) for pod in pods)
        return {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected > 0 else 0,
            "observedGeneration": meta["generation"],
            **({"disruptedPods": {**disrupted, **gone}} if said.get("disruptedPods") else {}),
        }

    def _expected(self, spec: Json, pods: list[Json]) -> tuple[int, int]:
        """How many there are to be, and how many of them healthy."""
        if (lacking := spec.get("maxUnavailable")) is not None:
            scale = self._scale(pods)
            return scale, max(0, scale - _part_of(lacking, scale))
        least = spec.get("minAvailable")
        if isinstance(least, int):
            return len(pods), least
        scale = self._scale(pods)
        return scale, _part_of(least or 0, scale)

    def _scale(self, pods: list[Json]) -> int:
        """Of all owners together. Nobody's pods count for nothing."""
        owners = {
            owner["uid"]: owner
            for pod in pods
            for owner in pod["metadata"].get("ownerReferences") or ()
            if owner.get("controller")
        }
        namespaces = {pod["metadata"]["namespace"] for pod in pods}
        return sum(self._scale_of(owner, namespace) for owner in owners.values() for namespace in namespaces)

    def _scale_of(self, owner: Json, namespace: str) -> int:
        served = self._server.kinds.of_kind(owner["apiVersion"], owner["kind"])
        if served is None:
            raise Unknown
        try:
            scale = scale_of(self._server.objects, served, namespace, owner["name"])
        except Rejection:
            raise Unknown from None
        if scale["metadata"]["uid"] != owner["uid"]:
            raise Unknown
        return int(scale["spec"]["replicas"])


def _part_of(said: int | str, whole: int) -> int:
    return said if isinstance(said, int) else math.ceil(int(said.removesuffix("%")) * whole / 100)
