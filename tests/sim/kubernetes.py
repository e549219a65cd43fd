"""The rest of Kubernetes around the fake API server: nodes, a scheduler, kubelets, who collects pods of lost nodes.

A pod is bound, its container starts, its slurmd registers with the model of Slurm and is ready. Kubelet tells of a
start some time after it, and hears of a deletion some time after it, until when a slurmd may still be started and
register. A pod ends when it is deleted (within its grace), when its container crashes, when it fails, or when its node
dies; then its jobs end too, and the model is told by whom.

Who deletes a pod is known from the connection that asked: `SimServer.acting`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from corral.kinds import names
from corral.kube.models.core_v1 import Node, Pod
from corral.kube.transport import Request, Response
from corral.testing.apiserver import FakeApiServer
from corral.testing.apiserver.faults import Fate
from corral.testing.apiserver.storage import Change, Key
from tests.sim.records import Slurmd
from tests.sim.slurmctld import Slurmctld

NOT_READY_AFTER_S = 40.0  # the node controller's patience
PODS_GONE_AFTER_S = 300.0  # the default toleration of unreachable nodes
HEARS_WITHIN_S = 1.0  # from then on slurmd has its TERM, and registers no more
GRACE_S_MAX = 20.0
UNREACHABLE = "node.kubernetes.io/unreachable"
BAD_IMAGE = "bad"  # an image of this tag cannot be pulled

Json = dict[str, Any]


class SimServer(FakeApiServer):
    """Knows who asks for a change while it is carried out; empty: the world itself."""

    acting = ""

    def carry_out(self, request: Request, fate: Fate, client: str) -> Response:
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


@dataclass(eq=False)
class Process:
    """What a kubelet knows of one pod: when its next step is due, its slurmd, and how it is to end."""

    slurmd: Slurmd | None = None
    due_s: float = 0.0
    tells_s: float = 0.0
    told: bool = False
    ready_s: float = 0.0
    registers_s: float = 0.0
    registered: bool = False
    restarts: int = 0
    deleted_by: str = ""
    hears_s: float = 0.0
    ends_s: float = 0.0


@dataclass
class Machine:
    name: str
    alive: bool = True
    died_s: float = 0.0
    ready: bool = True


class Kubernetes:
    def __init__(self, server: SimServer, slurm: Slurmctld, chance: Random, *, machines: int) -> None:
        self._server, self._slurm, self._chance = server, slurm, chance
        self.machines: dict[str, Machine] = {}
        self.processes: dict[str, Process] = {}  # by uid of the pod
        self.hears_within_s = HEARS_WITHIN_S
        self.on_removal: Callable[[Json, str, Process | None], None] = lambda *_: None
        server.extend(Pod, grace=lambda _pod, asked: 30 if asked is None else asked)
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
        machine.alive, machine.died_s = False, self._server.now_s()
        self._server.note("", f"{name} dies")
        for pod in self.pods_on(name):
            process = self.processes.get(pod["metadata"]["uid"])
            if process is not None and process.slurmd is not None:
                self._slurm.slurmd_ended(process.slurmd, f"death of {name}")

    def return_machine(self, name: str) -> None:
        """It boots again: its pods' containers are started anew."""
        machine = self.machines[name]
        if machine.alive:
            return
        machine.alive, machine.ready = True, True
        self._server.note("", f"{name} is back")
        self.set_ready(name, True)
        for pod in self.pods_on(name):
            process = self.processes.get(pod["metadata"]["uid"])
            if process is not None and process.slurmd is not None:
                self._start_slurmd(pod, process, again=True)

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

    # --- what happens to pods

    def pods_on(self, name: str) -> list[Json]:
        return [pod for pod in self._server.all_of(Pod) if pod["spec"].get("nodeName") == name]

    def crash_container(self, pod: Json) -> None:
        """slurmd dies and kubelet starts it again."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None and process.slurmd is not None and process.slurmd.alive:
            self._slurm.slurmd_ended(process.slurmd, "crash of its container")
            self._start_slurmd(pod, process, again=True)

    def fail_pod(self, pod: Json) -> None:
        """For good, as kubelet does when its disk is full."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None and process.slurmd is not None:
            self._slurm.slurmd_ended(process.slurmd, "kubelet's eviction")
            process.slurmd = None
        self._set_status(pod, "Failed", ready=False, state={"terminated": {"exitCode": 137}})

    # --- time

    def tick(self) -> None:
        now_s = self._server.now_s()
        for machine in tuple(self.machines.values()):
            self._watch_machine(machine, now_s)
        for pod in self._server.all_of(Pod):
            self._look_after(pod, now_s)

    def _watch_machine(self, machine: Machine, now_s: float) -> None:
        if machine.alive or not machine.ready or now_s - machine.died_s < NOT_READY_AFTER_S:
            return
        machine.ready = False
        self.set_ready(machine.name, False)
        for pod in self.pods_on(machine.name):
            phase = pod["status"]["phase"]
            if phase == "Running":
                state = pod["status"]["containerStatuses"][0]["state"]
                self._set_status(pod, "Running", ready=False, state=state)

    def _look_after(self, pod: Json, now_s: float) -> None:
        meta, node = pod["metadata"], pod["spec"].get("nodeName")
        if not node:
            self._schedule(pod, now_s)
            return
        machine = self.machines.get(node)
        if machine is None:
            self._server.remove(Pod, meta["name"], meta["namespace"], grace_s=0)
            return
        if not machine.alive:
            waits = any(one.get("key") in (None, UNREACHABLE) for one in pod["spec"].get("tolerations", ()))
            if now_s - machine.died_s > PODS_GONE_AFTER_S and "deletionTimestamp" not in meta and not waits:
                self._server.remove(Pod, meta["name"], meta["namespace"])
            return
        process = self._process(meta["uid"])
        if "deletionTimestamp" in meta and now_s >= process.hears_s:
            self._end(pod, process, now_s)
        elif pod["status"]["phase"] in ("Failed", "Succeeded"):
            return
        elif process.slurmd is None:
            self._start(pod, process, now_s)
        else:
            self._follow(pod, process, now_s)

    def _process(self, uid: str) -> Process:
        if uid not in self.processes:
            self.processes[uid] = Process(due_s=self._server.now_s() + self._chance.uniform(0.2, 3.0))
        return self.processes[uid]

    def _schedule(self, pod: Json, now_s: float) -> None:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            self._server.remove(Pod, meta["name"], meta["namespace"], grace_s=0)
            return
        open_to = [
            name
            for name, machine in sorted(self.machines.items())
            if machine.ready and not (self._server.get(Node, name) or {"spec": {}})["spec"].get("unschedulable")
        ]
        if bound := bound_to(pod):
            open_to = [name for name in open_to if name in bound]
        if open_to:
            self._server.bind(pod, self._chance.choice(open_to))

    def _start(self, pod: Json, process: Process, now_s: float) -> None:
        if now_s < process.due_s or "{" in conf_of(pod):
            return
        if not image_of(pod).endswith(f":{BAD_IMAGE}"):
            self._start_slurmd(pod, process, again=False)
        elif not pod["status"].get("containerStatuses"):
            self._set_status(pod, "Pending", ready=False, state={"waiting": {"reason": "ImagePullBackOff"}})

    def _start_slurmd(self, pod: Json, process: Process, *, again: bool) -> None:
        now_s = self._server.now_s()
        process.restarts += again
        words = dict(word.partition("=")[::2] for word in conf_of(pod).split())
        features = tuple(words.get("Feature", "").split(","))
        cpus = int(words.get("CPUs", 0))
        process.slurmd = Slurmd(pod["metadata"]["name"], pod["metadata"]["uid"], features, now_s, cpus)
        process.ready_s = now_s + self._chance.uniform(0.5, 4.0)
        process.registers_s = now_s + self._chance.uniform(1.0, 5.0)
        process.registered = process.told = False
        process.tells_s = now_s + self._chance.uniform(0.0, 2.0)

    def _follow(self, pod: Json, process: Process, now_s: float) -> None:
        assert process.slurmd is not None
        self._register(process, now_s)
        if not process.told and now_s >= process.tells_s:
            process.told = True
            self._set_status(pod, "Running", ready=False, state=self._running(process.slurmd.started_s))
        elif process.told and now_s >= process.ready_s and not is_ready(pod):
            self._set_status(pod, "Running", ready=True, state=pod["status"]["containerStatuses"][0]["state"])

    def _register(self, process: Process, now_s: float) -> None:
        if process.slurmd is not None and not process.registered and now_s >= process.registers_s:
            process.registered = self._slurm.register(process.slurmd)

    def _end(self, pod: Json, process: Process, now_s: float) -> None:
        if now_s < process.ends_s:
            return
        if process.slurmd is not None:
            self._slurm.slurmd_ended(process.slurmd, process.deleted_by or "somebody's deletion of the pod")
        meta = pod["metadata"]
        self._server.remove(Pod, meta["name"], meta["namespace"], grace_s=0)

    # --- what the server was told

    def _saw(self, change: Change) -> None:
        if change.key.resource != "pods" or change.before is None:
            return
        before, after = change.before, change.after
        uid = before["metadata"]["uid"]
        was_going = "deletionTimestamp" in before["metadata"]
        if not was_going and (after is None or "deletionTimestamp" in after["metadata"]):
            process = self._process(uid) if before["spec"].get("nodeName") else None
            by = self._server.acting
            if process is not None:
                process.deleted_by = by
                process.hears_s = self._server.now_s() + self.hears_within_s
                process.ends_s = self._server.now_s() + self._chance.uniform(0, GRACE_S_MAX)
            self.on_removal(before, by, process)
        if after is None:
            process = self.processes.pop(uid, None)
            if process is not None and process.slurmd is not None and process.slurmd.alive:
                self._slurm.slurmd_ended(process.slurmd, process.deleted_by or "removal of its pod")

    def set_ready(self, name: str, ready: bool) -> None:
        status = "True" if ready else "Unknown"
        merge = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        self._server.edit(Node, name, merge=merge, subresource="status")

    def _running(self, since_s: float) -> Json:
        at = self._server.now() - timedelta(seconds=self._server.now_s() - since_s)
        return {"running": {"startedAt": at.strftime("%Y-%m-%dT%H:%M:%SZ")}}

    def _set_status(self, pod: Json, phase: str, *, ready: bool, state: Json) -> None:
        meta = pod["metadata"]
        process = self.processes.get(meta["uid"])
        slurmd = {
            "name": "slurmd",
            "ready": ready,
            "restartCount": process.restarts if process else 0,
            "image": image_of(pod),
            "imageID": image_of(pod),
            "state": state,
        }
        others = [c for c in pod["status"].get("conditions", ()) if c["type"] != "Ready"]
        conditions = [*others, {"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": [slurmd]}
        self._server.edit(Pod, meta["name"], meta["namespace"], merge={"status": status}, subresource="status")


def bound_to(pod: Json) -> list[str]:
    """The nodes that it asks for by name; none: it takes any."""
    named = (pod["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname")
    of_nodes = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [one for term in required.get("nodeSelectorTerms", ()) for one in term.get("matchFields", ())]
    return [*([named] if named else []), *(name for one in fields for name in one["values"])]


def is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def image_of(pod: Json) -> str:
    return str(pod["spec"]["containers"][0].get("image", ""))


def conf_of(pod: Json) -> str:
    """The line by which its slurmd registers; with braces while it waits to be told what its node says."""
    told = (pod["metadata"].get("annotations") or {}).get(names.NODE_CONF)
    env = {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0].get("env", ())}
    return str(told or env.get("SLURM_NODE_CONF", ""))
