"""The law of what workers keep: their ordinals, the machines that they are pinned to, and their volumes.

ordinals   no worker is made at one that is reserved
pins       one that is made again is bound to the machine that the status remembers for its ordinal, or that its
           last pod was on, as long as that machine is there
volumes    a claim is deleted only as the retention policy says, after its pod, and not while its worker is asked for:
           a rollout, a cordon or a pod that people delete is no scale-in. While one is under way it is decided anew:
           a worker that is missing goes rather than one that is there
"""

from collections.abc import Callable, Set

from corral.kinds import names
from corral.kinds.nodeset.ordinals import unfolded
from corral.kinds.nodeset.snapshot import Snapshot
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Node, PersistentVolumeClaim, Pod
from corral.testing.apiserver.storage import Change
from tests.sim.kubelet import Json
from tests.sim.kubernetes import SimServer, bound_to
from tests.sim.wishes import VOLUME

Seen = Callable[[str, str], Snapshot]
"""By client and NodeSet: what that one has decided by last."""


class Keeping:
    def __init__(self, server: SimServer, seen: Seen, broken: Callable[[str], None]) -> None:
        self._server, self._seen, self._broken = server, seen, broken
        self._was_on: dict[str, str] = {}  # by worker
        server.storage.listen(self._saw)

    def _saw(self, change: Change) -> None:
        kind, by = change.key.resource, self._server.acting
        if kind == "pods" and change.after is not None and (machine := change.after["spec"].get("nodeName")):
            self._was_on[change.key.name] = machine
        if not by.startswith("operator"):
            return
        if kind == "pods" and change.before is None and change.after is not None:
            self._look_at_pod(by, change.after)
        is_going = change.after is None or "deletionTimestamp" in change.after["metadata"]
        was_staying = change.before is not None and "deletionTimestamp" not in change.before["metadata"]
        if kind == "persistentvolumeclaims" and change.before is not None and was_staying and is_going:
            self._look_at_claim(by, change.before)

    def _look_at_pod(self, by: str, pod: Json) -> None:
        name, nodeset = pod["metadata"]["name"], set_of(pod)
        spec, ordinal = self._seen(by, nodeset).object.spec, names.worker_ordinal(nodeset, name)
        if ordinal is None:
            return
        if ordinal in spec.reserve_ordinals:
            self._broken(f"{by} makes {name}, whose ordinal is reserved")
        if not spec.pin_to_node:
            return
        remembered = self._status(nodeset).get("ordinalToNode", {}).get(str(ordinal), "")
        if self._server.get(Node, remembered) is not None:
            homes = {remembered, self._was_on.get(name, "")}
            if homes.isdisjoint(bound_to(pod)):
                self._broken(f"{by} makes {name} for {bound_to(pod)}, and it is pinned to {sorted(homes)}")

    def _look_at_claim(self, by: str, claim: Json) -> None:
        name, nodeset = claim["metadata"]["name"], set_of(claim)
        seen = self._seen(by, nodeset).object
        policy, worker = seen.spec.persistent_volume_claim_retention_policy, name.partition("-")[2]
        is_going = seen.metadata.deletion_timestamp is not None
        if (policy.when_deleted if is_going else policy.when_scaled) != "Delete":
            self._broken(f"{by} deletes claim {name}, which is to be kept")
        if self._server.get(Pod, worker, claim["metadata"]["namespace"]) is not None:
            self._broken(f"{by} deletes claim {name} before its pod is gone")
        if not is_going and self._is_asked_for(seen, worker):
            self._broken(f"{by} deletes claim {name}, whose worker is asked for")

    def _is_asked_for(self, seen: NodeSet, worker: str) -> bool:
        """As far as the status is not about to change: people ask for no fewer than it has, and for no other mode."""
        nodeset, spec = seen.metadata.name, seen.spec
        asked = unfolded(self._status(nodeset).get("ordinals", ""))
        ordinal = names.worker_ordinal(nodeset, worker)
        if ordinal is None or spec.is_per_machine or len(asked) > spec.replicas:
            return False
        if self._stay_beside(nodeset, asked):
            return False
        is_its_name = worker == names.worker_name(nodeset, ordinal, padding=spec.ordinal_padding)
        return is_its_name and ordinal in asked and ordinal not in spec.reserve_ordinals

    def _stay_beside(self, nodeset: str, asked: Set[int]) -> bool:
        """Whether one that was to go is there, and may be asked for again in the place of one that is missing."""
        pods = [one["metadata"] for one in self._server.all_of(Pod) if set_of(one) == nodeset]
        staying = {names.worker_ordinal(nodeset, one["name"]) for one in pods if "deletionTimestamp" not in one}
        return bool(staying - asked - {None})

    def _status(self, nodeset: str) -> Json:
        found = next((one for one in self._server.all_of(NodeSet) if one["metadata"]["name"] == nodeset), {})
        status: Json = found.get("status") or {}
        return status


def set_of(found: Json) -> str:
    """A worker's pod, or its claim, says whose it is."""
    return str(found["metadata"]["labels"][names.NODESET_LABEL])


def breach_at_rest(server: SimServer, nodeset: Json) -> str:
    """What is not as it is to be when nothing is left to do; empty: all is."""
    name, spec, status = nodeset["metadata"]["name"], nodeset["spec"], nodeset["status"]
    pods = {one["metadata"]["name"]: one for one in server.all_of(Pod) if set_of(one) == name}
    ordinals = {names.worker_ordinal(name, pod): pod for pod in pods}
    if spec.get("scalingMode") == "DaemonSet":
        return "ordinals are remembered" if status.get("ordinals") or status.get("ordinalToNode") else ""
    if unfolded(status.get("ordinals", "")) != ordinals.keys():
        return f"status.ordinals is {status.get('ordinals')}, and {sorted(pods)} are here"
    homes = {str(ordinal): pods[pod]["spec"]["nodeName"] for ordinal, pod in ordinals.items()}
    if status.get("ordinalToNode", {}) != (homes if spec.get("pinToNode") else {}):
        return f"status.ordinalToNode is {status.get('ordinalToNode')}, and workers are on {homes}"
    return ""


def claims_at_rest(server: SimServer, nodeset: Json) -> str:
    """Every worker has its own; others are there only if they are to be kept."""
    name, spec = nodeset["metadata"]["name"], nodeset["spec"]
    found = [one for one in server.all_of(PersistentVolumeClaim) if set_of(one) == name]
    claims = {one["metadata"]["name"] for one in found}
    asks = bool(spec.get("volumeClaimTemplates"))
    wanted = {f"{VOLUME}-{one['metadata']['name']}" for one in server.all_of(Pod) if set_of(one) == name}
    kept = spec.get("persistentVolumeClaimRetentionPolicy", {}).get("whenScaled", "Retain") == "Retain"
    is_so = wanted <= claims if kept else wanted == claims
    return "" if not asks or is_so else f"claims are {sorted(claims)}, and workers have {sorted(wanted)}"
