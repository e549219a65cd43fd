"""The rest of Kubernetes around the fake API server: nodes, a scheduler, and those of kube-controller-manager who touch
pods: by the health of nodes, by taints, by budgets. What becomes of a pod on its node is in `kubelet`.

Who deletes a pod is known from the connection that asked: `SimServer.acting`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from corral.kube.models.core_v1 import Node, Pod
from corral.kube.transport import Request, Response
from corral.testing.apiserver import FakeApiServer
from corral.testing.apiserver.builtin import TOLERATED_S, prepared_pod
from corral.testing.apiserver.faults import Fate
from corral.testing.apiserver.storage import Change, Key
from tests.sim.disruption import Disruption
from tests.sim.kubelet import Json, Kubelets, Process
from tests.sim.slurmctld import Slurmctld
from tests.sim.taints import (
    MANAGER,
    NO_EXECUTE,
    NO_SCHEDULE,
    UNREACHABLE,
    UNSCHEDULABLE,
    TaintManager,
    keeps_out,
)
from tests.sim.volumes import Volumes

NOT_READY_AFTER_S = 40.0  # the node controller's patience


class SimServer(FakeApiServer):
    """Knows who asks for a change while it is carried out; empty: the world itself."""

    acting = ""
    on_request: Callable[[str, Request], None] = staticmethod(lambda *_: None)

    def carry_out(self, request: Request, fate: Fate, client: str) -> Response:
        self.on_request(client, request)
        self.acting = client
        try:
            return super().carry_out(request, fate, client)
        finally:
            self.acting = ""

    def bind(self, pod: Json, node: str) -> None:
        """As the scheduler's binding: the one change of spec.nodeName that the server lets through."""
        meta = pod["metadata"]
        self.storage.put(
            Key("pods", meta["namespace"], meta["name"]), {**pod, "spec": {**pod["spec"], "nodeName": node}}
        )


@dataclass
class Machine:
    name: str
    alive: bool = True
    connected: bool = True  # its kubelet speaks with the API server
    lost_s: float = 0.0  # when it was heard of last
    ready: bool = True

    @property
    def heard(self) -> bool:
        return self.alive and self.connected


class Kubernetes:
    """`tolerated_s`: for how long a pod that says nothing of it stays on a node that is lost."""

    def __init__(
        self,
        server: SimServer,
        slurm: Slurmctld,
        chance: Random,
        *,
        machines: int,
        tolerated_s: int = TOLERATED_S,
    ) -> None:
        self._server, self._slurm, self._chance = server, slurm, chance
        self.machines: dict[str, Machine] = {}
        self.kubelets = Kubelets(server, slurm, chance)
        self._taints = TaintManager(server.all_of, self._delete_for_taints)
        self._disruption = Disruption(server)
        self.on_removal: Callable[[Json, str, Process | None], None] = lambda *_: None  # or on one that is hurried
        server.extend(
            Pod,
            grace=lambda pod, asked: pod["spec"]["terminationGracePeriodSeconds"] if asked is None else asked,
            prepare=lambda pod: tolerating_for(prepared_pod(pod), tolerated_s),
        )
        self._volumes = Volumes(server)
        server.storage.listen(self._saw)
        for number in range(machines):
            self.add_machine(f"machine-{number}")

    # --- what happens to nodes

    def add_machine(self, name: str) -> None:
        self.machines[name] = Machine(name)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        self._server.add(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": "r1"}},
                "spec": {},
                "status": {"conditions": conditions},
            }
        )

    def kill_machine(self, name: str) -> None:
        machine = self.machines[name]
        machine.alive, machine.lost_s = False, self._server.now_s()
        self._server.note("", f"{name} dies")
        for pod in self.pods_on(name):
            self.kubelets.stop(pod, f"death of {name}")

    def return_machine(self, name: str) -> None:
        """It boots again: its pods' containers are made anew."""
        machine = self.machines[name]
        if machine.alive:
            return
        machine.alive = True
        self._server.note("", f"{name} is back")
        self.set_ready(name, True)
        for pod in self.pods_on(name):
            self.kubelets.lose_sandbox(pod, f"death of {name}")

    def cut_off(self, name: str) -> None:
        """Its kubelet from the API server; what runs there runs on, and slurmctld hears it."""
        machine = self.machines[name]
        if machine.heard:
            machine.connected, machine.lost_s = False, self._server.now_s()
            self._server.note("", f"the kubelet of {name} is cut off")

    def connect(self, name: str) -> None:
        machine = self.machines.get(name)
        if machine is not None and not machine.connected:
            machine.connected = True
            self._server.note("", f"the kubelet of {name} is heard again")
            if machine.alive:
                self.set_ready(name, True)

    def delete_machine(self, name: str) -> None:
        """The Node object goes, and with it its pods, at once."""
        if self.machines[name].alive:
            self.kill_machine(name)
        del self.machines[name]
        self._server.remove(Node, name)
        for pod in self.pods_on(name):
            self._server.remove(Pod, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_s=0)

    def cordon(self, name: str, *, on: bool) -> None:
        if self._server.get(Node, name) is not None:
            self._server.note("", f"{'cordon' if on else 'uncordon'} {name}")
            self._server.edit(Node, name, merge={"spec": {"unschedulable": True if on else None}})
            self.taint(name, UNSCHEDULABLE, NO_SCHEDULE, on=on)

    def taint(self, name: str, key: str, *effects: str, on: bool) -> None:
        node = self._server.get(Node, name)
        if node is None:
            return
        others = [one for one in node["spec"].get("taints") or () if one["key"] != key]
        taints = [*others, *({"key": key, "effect": effect} for effect in effects if on)]
        if taints != (node["spec"].get("taints") or []):
            self._server.edit(Node, name, merge={"spec": {"taints": taints or None}})

    def set_ready(self, name: str, ready: bool) -> None:
        """As the node controller does, with the taints that go with it."""
        if name in self.machines:
            self.machines[name].ready = ready
        status = "True" if ready else "Unknown"
        merge = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        self._server.edit(Node, name, merge=merge, subresource="status")
        self.taint(name, UNREACHABLE, NO_SCHEDULE, NO_EXECUTE, on=not ready)

    # --- what happens to pods

    def pods_on(self, name: str) -> list[Json]:
        return [pod for pod in self._server.all_of(Pod) if pod["spec"].get("nodeName") == name]

    def reconfigured(self) -> None:
        """slurmctld tells the slurmds that it knows to start anew, and no others."""
        self._slurm.reconfigured()
        for pod in self._server.all_of(Pod):
            process, record = self.kubelets.processes.get(pod["metadata"]["uid"]), self._slurm.nodes.get(name_of(pod))
            if process is not None and record is not None and record.slurmd is process.slurmd:
                self.kubelets.register_anew(pod)

    def _delete_for_taints(self, pod: Json) -> None:
        self._server.note(MANAGER, f"deletes {name_of(pod)}")
        self._server.acting = MANAGER
        try:
            self._server.remove(Pod, name_of(pod), pod["metadata"]["namespace"])
        finally:
            self._server.acting = ""

    # --- time

    def tick(self) -> None:
        now_s = self._server.now_s()
        for machine in tuple(self.machines.values()):
            self._watch_machine(machine, now_s)
        self._taints.tick(now_s)
        for pod in self._server.all_of(Pod):
            self._look_after(pod)
        self._disruption.tick()
        self._volumes.tick()

    def _watch_machine(self, machine: Machine, now_s: float) -> None:
        if machine.heard or not machine.ready or now_s - machine.lost_s < NOT_READY_AFTER_S:
            return
        self.set_ready(machine.name, False)
        for pod in self.pods_on(machine.name):
            if pod["status"]["phase"] == "Running":
                state = pod["status"]["containerStatuses"][0]["state"]
                self.kubelets.set_status(pod, "Running", ready=False, state=state)

    def _look_after(self, pod: Json) -> None:
        meta, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node:
            self._schedule(pod)
            return
        machine = self.machines.get(node)
        if machine is None:
            self._server.remove(Pod, meta["name"], meta["namespace"], grace_s=0)
        elif machine.alive:
            self.kubelets.look_after(pod, connected=machine.connected)

    def _schedule(self, pod: Json) -> None:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            self._server.remove(Pod, meta["name"], meta["namespace"], grace_s=0)
            return
        open_to = [
            node["metadata"]["name"]
            for node in self._server.all_of(Node)
            if not node["spec"].get("unschedulable") and not keeps_out(node, pod)
        ]
        if bound := bound_to(pod):
            open_to = [name for name in open_to if name in bound]
        open_to = [name for name in open_to if name in self.machines and self.machines[name].ready]
        if open_to and self._volumes.are_there_for(pod):
            self._server.bind(pod, self._chance.choice(open_to))

    # --- what the server was told

    def _saw(self, change: Change) -> None:
        if change.key.resource != "pods" or change.before is None:
            return
        before, after = change.before, change.after
        uid = before["metadata"]["uid"]
        was_going = "deletionTimestamp" in before["metadata"]
        if not was_going and (after is None or "deletionTimestamp" in after["metadata"]):
            by = self._server.acting
            process = self.kubelets.hears(uid, by) if before["spec"].get("nodeName") else None
            self.on_removal(before, by, process)
        elif was_going and after is not None and grace_s(after) < grace_s(before):
            self.on_removal(before, self._server.acting, self.kubelets.processes.get(uid))
        if after is None:
            self.kubelets.is_gone(uid)


def grace_s(pod: Json) -> int:
    """That it was deleted with."""
    return int(pod["metadata"]["deletionGracePeriodSeconds"])


def name_of(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def bound_to(pod: Json) -> list[str]:
    """The nodes that it asks for by name; none: it takes any."""
    named = (pod["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname")
    of_nodes = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [one for term in required.get("nodeSelectorTerms", ()) for one in term.get("matchFields", ())]
    return [*([named] if named else []), *(name for one in fields for name in one["values"])]


def tolerating_for(pod: Json, seconds: int) -> Json:
    """The defaults are the server's to choose (`--default-unreachable-toleration-seconds`)."""
    given = [
        {**one, "tolerationSeconds": seconds} if one.get("tolerationSeconds") == TOLERATED_S else one
        for one in pod["spec"]["tolerations"]
    ]
    return {**pod, "spec": {**pod["spec"], "tolerations": given}}
