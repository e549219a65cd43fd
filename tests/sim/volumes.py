"""What becomes of claims, as far as pods notice: no volume behind them, but who holds one keeps it.

As the admission plugin StorageObjectInUseProtection and kube-controller-manager's pvc-protection do it: a claim that is
deleted stays until no pod has it. A pod whose claim is missing, or being deleted, is not scheduled.
"""

from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.testing.apiserver import FakeApiServer
from tests.sim.kubelet import Json

PROTECTION = "kubernetes.io/pvc-protection"


class Volumes:
    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        server.extend(PersistentVolumeClaim, prepare=protected)

    def tick(self) -> None:
        going = [one for one in self._server.all_of(PersistentVolumeClaim) if "deletionTimestamp" in one["metadata"]]
        held = {name for pod in self._server.all_of(Pod) for name in claims_of(pod)} if going else set()
        for meta in (one["metadata"] for one in going if one["metadata"]["name"] not in held):
            merge = {"metadata": {"finalizers": None}}
            self._server.edit(PersistentVolumeClaim, meta["name"], meta["namespace"], merge=merge)

    def are_there_for(self, pod: Json) -> bool:
        wanted = claims_of(pod)
        if not wanted:
            return True
        found = self._server.all_of(PersistentVolumeClaim, pod["metadata"]["namespace"])
        return wanted <= {one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]}


def protected(claim: Json) -> Json:
    """One that is made; whoever changes it later may take that away."""
    meta = claim["metadata"]
    if "deletionTimestamp" in meta:
        return claim
    return {**claim, "metadata": {**meta, "finalizers": [PROTECTION]}}


def claims_of(pod: Json) -> set[str]:
    volumes = pod["spec"].get("volumes") or ()
    return {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}
