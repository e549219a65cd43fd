"""The kubelets: what becomes of a pod on its node. No API of their own; `kubernetes` calls them.

A container starts, slurmd-run in it waits for what slurmd is to say (`slurm.corral.dev/node-conf`) and for slurmctld,
slurmd starts, registers with the model of Slurm, and is ready. The API hears of each some time after it; of a deletion
the kubelet hears some time after it, until when a slurmd may still be started and register. Then the pod's own last act
(`slurmd-leave`) waits for its jobs, for as long as its grace lasted at that moment, and the pod ends. A shorter one
that comes later is not heeded (kubernetes#83916): such a wait is ended from within. The pod also ends when its
container crashes (and is started again, at once or after a while), when its sandbox is lost, or when it fails; then its
jobs end too, and the model is told by whom.

A kubelet that is cut off tells and hears nothing; its containers run on, and speak to slurmctld.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from corral.kinds import names
from corral.kube.models.core_v1 import Pod
from corral.testing.apiserver import FakeApiServer
from tests.sim.records import Slurmd
from tests.sim.slurmctld import Slurmctld

HEARS_WITHIN_S = 1.0  # from then on slurmd has its TERM, and registers no more
TELLS_WITHIN_S = 2.0
GRACE_S_MAX = 20.0
BACKOFF_S = (10.0, 40.0)  # of a container that crashes again and again
SOMEBODY = "somebody's deletion of the pod"
BAD_IMAGE = "bad"  # an image of this tag cannot be pulled
CREATING, BACKING_OFF = "ContainerCreating", "CrashLoopBackOff"

Json = dict[str, Any]


@dataclass
class News:
    """What the API is to be told of a container, from a moment on."""

    at_s: float
    phase: str
    state: Json
    was: Json | None = None  # how it ended before


@dataclass(eq=False)
class Process:
    """What a kubelet knows of one pod: its container, its slurmd, when their next steps are due, how it is to end."""

    due_s: float = 0.0  # its container's start
    container_s: float | None = None  # when that was
    slurmd: Slurmd | None = None
    conf_s: float | None = None  # when slurmd-run sees what slurmd is to say
    ready_s: float = 0.0
    registers_s: float = 0.0
    registered: bool = False
    restarts: int = 0
    news: list[News] = field(default_factory=list)
    deleted_by: str = ""
    hears_s: float = 0.0
    heard: bool = False
    waits_until_s: float = 0.0  # for its jobs, at most
    ends_s: float = 0.0


class Kubelets:
    def __init__(self, server: FakeApiServer, slurm: Slurmctld, chance: Random) -> None:
        self._server, self._slurm, self._chance = server, slurm, chance
        self.processes: dict[str, Process] = {}  # by uid of the pod
        self.hears_within_s = HEARS_WITHIN_S
        self.conf_takes_s_max = 0.0  # until a file in a pod shows an annotation: a minute, in reality

    # --- what happens to pods

    def process(self, uid: str) -> Process:
        if uid not in self.processes:
            self.processes[uid] = Process(due_s=self._server.now_s() + self._chance.uniform(0.2, 3.0))
        return self.processes[uid]

    def has_jobs(self, pod: Json) -> bool:
        process, now_s = self.processes.get(pod["metadata"]["uid"]), self._server.now_s()
        jobs = process.slurmd.jobs if process is not None and process.slurmd is not None else {}
        return any(ends_s > now_s for ends_s in jobs.values())

    def crash(self, pod: Json, *, again_after_s: float = 0.0) -> None:
        """slurmd dies, and its container is started again; after a while, if it is not the first time."""
        process = self._staying(pod)
        if process is not None and process.slurmd is not None and process.slurmd.alive:
            waits = {"waiting": {"reason": BACKING_OFF}} if again_after_s else None
            self._lose(process, "crash of its container", again_after_s, waits)

    def lose_sandbox(self, pod: Json, by: str = "loss of its sandbox") -> None:
        """As after a reboot: everything of the pod is made anew, and meanwhile it is said to be running."""
        process = self._staying(pod)
        if process is not None and process.container_s is not None:
            self._lose(process, by, self._chance.uniform(0.5, 8.0), {"waiting": {"reason": CREATING}})

    def fail(self, pod: Json) -> None:
        """For good, as kubelet does when its disk is full."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None:
            self._end_slurmd(process, "kubelet's eviction")
            process.slurmd, process.news = None, []
        self.set_status(pod, "Failed", ready=False, state={"terminated": {"exitCode": 137}})

    def stop(self, pod: Json, by: str) -> None:
        """With its machine, at once."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None:
            self._end_slurmd(process, by)

    def register_anew(self, pod: Json) -> None:
        """As by HUP, and as slurmctld asks for when it is reconfigured: a new slurmd, and the jobs live on."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None and process.slurmd is not None and process.slurmd.alive:
            now_s = self._server.now_s()
            process.slurmd.started_s = now_s
            process.registered, process.registers_s = False, now_s + self._chance.uniform(0.3, 2.0)

    def end_wait(self, process: Process, by: str) -> None:
        """By `slurmd-leave now` in the pod; one that does not wait yet is not impressed."""
        if process.heard:
            process.waits_until_s, process.deleted_by = self._server.now_s(), by

    def _staying(self, pod: Json) -> Process | None:
        """Not one whose pod is being deleted: a start in that very time is not ruled out, says docs/nodesets.md."""
        return None if "deletionTimestamp" in pod["metadata"] else self.processes.get(pod["metadata"]["uid"])

    def _lose(self, process: Process, by: str, again_after_s: float, waits: Json | None) -> None:
        self._end_slurmd(process, by)
        now_s = self._server.now_s()
        process.slurmd, process.container_s, process.due_s = None, None, now_s + again_after_s
        process.restarts += 1
        ended = {"terminated": {"exitCode": 1, "finishedAt": self._moment(now_s)}}
        tells_s = now_s + self._chance.uniform(0, TELLS_WITHIN_S)
        process.news = [News(tells_s, "Running", waits, ended)] if waits is not None else []

    def _end_slurmd(self, process: Process, by: str) -> None:
        if process.slurmd is not None and process.slurmd.alive:
            self._slurm.slurmd_ended(process.slurmd, by)

    # --- time

    def look_after(self, pod: Json, *, connected: bool) -> None:
        now_s, process = self._server.now_s(), self.process(pod["metadata"]["uid"])
        if "deletionTimestamp" in pod["metadata"] and (process.heard or (connected and now_s >= process.hears_s)):
            if not process.heard:
                process.heard = True
                process.waits_until_s = now_s + pod["metadata"]["deletionGracePeriodSeconds"]
            if now_s >= process.waits_until_s or not self.has_jobs(pod):
                self._end(pod, process, now_s, connected=connected)
                return
        if pod["status"]["phase"] in ("Failed", "Succeeded"):
            return
        if process.container_s is None and now_s >= process.due_s:
            self._start_container(pod, process, now_s)
        elif process.container_s is not None and process.slurmd is None:
            self._start_slurmd(pod, process, now_s)
        elif process.slurmd is not None and not process.registered and now_s >= process.registers_s:
            process.registered = self._slurm.register(process.slurmd)
        if connected:
            self._tell(pod, process, now_s)

    def _start_container(self, pod: Json, process: Process, now_s: float) -> None:
        if image_of(pod).endswith(f":{BAD_IMAGE}"):
            if not process.news and not pod["status"].get("containerStatuses"):
                process.news = [News(now_s, "Pending", {"waiting": {"reason": "ImagePullBackOff"}})]
            return
        process.container_s, process.conf_s = now_s, None
        tells_s = now_s + self._chance.uniform(0, TELLS_WITHIN_S)
        process.news.append(News(tells_s, "Running", {"running": {"startedAt": self._moment(now_s)}}))
        self._start_slurmd(pod, process, now_s)

    def _start_slurmd(self, pod: Json, process: Process, now_s: float) -> None:
        """slurmd-run waits for what its Kubernetes node says, which comes as a file, and for slurmctld's port."""
        if "{" in conf_of(pod):
            return
        if process.conf_s is None:
            is_file = bool((pod["metadata"].get("annotations") or {}).get(names.NODE_CONF))
            process.conf_s = now_s + (self._chance.uniform(0, self.conf_takes_s_max) if is_file else 0)
        if now_s < process.conf_s or (not self._slurm.up and self.conf_takes_s_max):
            return
        words = dict(word.partition("=")[::2] for word in conf_of(pod).split())
        features = tuple(words.get("Feature", "").split(","))
        cpus = int(words.get("CPUs", 0))
        process.slurmd = Slurmd(pod["metadata"]["name"], pod["metadata"]["uid"], features, now_s, cpus)
        process.ready_s = now_s + self._chance.uniform(0.5, 4.0)
        process.registers_s = now_s + self._chance.uniform(1.0, 5.0)
        process.registered = False

    def _tell(self, pod: Json, process: Process, now_s: float) -> None:
        if process.news and now_s >= process.news[0].at_s:
            news = process.news.pop(0)
            self.set_status(pod, news.phase, ready=False, state=news.state, was=news.was)
        elif not process.news and process.slurmd is not None and now_s >= process.ready_s and not is_ready(pod):
            self.set_status(pod, "Running", ready=True, state=pod["status"]["containerStatuses"][0]["state"])

    def _end(self, pod: Json, process: Process, now_s: float, *, connected: bool) -> None:
        if now_s < process.ends_s:
            return
        self._end_slurmd(process, process.deleted_by or SOMEBODY)
        meta = pod["metadata"]
        if connected:
            self._server.remove(Pod, meta["name"], meta["namespace"], grace_s=0)

    # --- what the server was told

    def hears(self, uid: str, by: str) -> Process:
        """Of a deletion; in a while."""
        process, now_s = self.process(uid), self._server.now_s()
        process.deleted_by = by
        process.hears_s = now_s + self.hears_within_s
        process.ends_s = now_s + self._chance.uniform(0, GRACE_S_MAX)
        return process

    def is_gone(self, uid: str) -> None:
        process = self.processes.pop(uid, None)
        if process is not None:
            self._end_slurmd(process, process.deleted_by or "removal of its pod")

    def _moment(self, at_s: float) -> str:
        at = self._server.now() - timedelta(seconds=self._server.now_s() - at_s)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def set_status(self, pod: Json, phase: str, *, ready: bool, state: Json, was: Json | None = None) -> None:
        meta = pod["metadata"]
        process = self.processes.get(meta["uid"])
        slurmd = {
            "name": "slurmd",
            "ready": ready,
            "restartCount": process.restarts if process else 0,
            "image": image_of(pod),
            "imageID": image_of(pod),
            "state": state,
            **({"lastState": was} if was else {}),
        }
        others = [c for c in pod["status"].get("conditions", ()) if c["type"] != "Ready"]
        before: Json = next((c for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"), {})
        said = "True" if ready else "False"
        now = self._moment(self._server.now_s())
        since = before["lastTransitionTime"] if before.get("status") == said else now
        conditions = [*others, {"type": "Ready", "status": said, "lastTransitionTime": since}]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": [slurmd]}
        self._server.edit(Pod, meta["name"], meta["namespace"], merge={"status": status}, subresource="status")


def is_ready(pod: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def image_of(pod: Json) -> str:
    return str(pod["spec"]["containers"][0].get("image", ""))


def conf_of(pod: Json) -> str:
    """The line by which its slurmd registers; with braces while it waits to be told what its node says."""
    told = (pod["metadata"].get("annotations") or {}).get(names.NODE_CONF)
    env = {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0].get("env", ())}
    return str(told or env.get("SLURM_NODE_CONF", ""))
