"""Slurm and a kubelet in memory, as far as a NodeSet notices them, in virtual time.

The model keeps what the law is about: `lost` names every job whose worker's pod ended under it.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from corral.engine import OutsideFailed
from corral.engine.clock import VIRTUAL_EPOCH
from corral.kinds.controller.shell import Answer
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.calls import END_WAIT, Address, Call, Drain, Forget, Narrow, Reserve, Undrain, Unreserve
from corral.kinds.nodeset.looks import LOOK_S_MAX, STEPS
from corral.kube.errors import Subject, Unreachable
from corral.kube.models.core_v1 import Pod
from corral.slurm.facts import Extra, Observed, Unknown, View
from corral.slurm.states import Phase, node_state
from corral.slurm.values import Job, Node, Reservation, Server
from corral.testing.apiserver import FakeApiServer

CLUSTER = "lab/slurm"


class ModelSlurm:
    def __init__(self) -> None:
        self.up = True
        self.since = VIRTUAL_EPOCH
        self.seen: Observed | None = None  # what is shown to whoever does not ask for a new look
        self.reasons: dict[str, str] = {}  # by node; empty: not drained
        self.reasons_at: dict[str, datetime] = {}
        self.registered_s: dict[str, float] = {}
        self.jobs: dict[int, str] = {}  # id -> node
        self.lost: list[int] = []
        self.reservations: dict[str, Reservation] = {}
        self.mute: set[str] = set()  # workers that nobody can look into
        self.ended: set[str] = set()  # workers that were told not to wait for their jobs
        self.looks: list[str] = []
        self.held: set[str] = set()  # nodes that it refuses to forget
        self.done: list[Call] = []
        self._told: list[Callable[[str], None]] = []

    # --- what a NodeSet sees

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = ""
    ) -> Answer:
        """A look into a worker, or the end of its wait."""
        assert (namespace, container) == ("lab", "slurmd")
        assert command in ((STEPS,), END_WAIT)
        self.looks.append(pod)
        if pod in self.mute:
            await asyncio.sleep(LOOK_S_MAX)
            raise Unreachable(Subject("exec", "Pod", namespace, pod), "its kubelet does not answer")
        if command == END_WAIT:
            self.ended.add(pod)
        steps = ",".join(f'"{job}.batch"' for job, node in self.jobs.items() if node == pod)
        return Answer(0, f'{{"steps":[{steps}]}}'.encode())

    async def view(
        self, cluster: str, address: Address | None, *, fresh: bool, extras: frozenset[Extra] = frozenset()
    ) -> View:
        assert cluster == CLUSTER
        now_s = asyncio.get_running_loop().time()
        if not self.up:
            return Unknown(since_s=0.0, since=self.since, why="connection refused")
        if self.seen is not None and not fresh:
            return msgspec.structs.replace(self.seen, at_s=now_s, at=VIRTUAL_EPOCH + timedelta(seconds=now_s))
        return Observed(
            nodes={name: self._node(name) for name in self.reasons},
            jobs={job.id: job for job in self._jobs()},
            jobs_by_node={name: tuple(j for j in self._jobs() if name in j.nodes) for name in self.jobs.values()},
            at_s=now_s,
            at=VIRTUAL_EPOCH + timedelta(seconds=now_s),
            server=Server(api="v0.0.42"),
            since=self.since,
            reservations=dict(self.reservations) if Extra.RESERVATIONS in extras else None,
        )

    def wrote(self, cluster: str) -> None:
        assert cluster == CLUSTER

    async def perform(self, cluster: str, call: Call) -> None:
        await asyncio.sleep(0.01)
        if not self.up:
            raise OutsideFailed("SlurmUnreachable", f"{cluster}: connection refused", retry_after_s=5.0)
        if isinstance(call, Forget) and call.node in self.held:
            raise OutsideFailed("NodeBusy", f"{call.node} is in somebody's reservation", alone=True, retry_after_s=5.0)
        self.done.append(call)
        match call:
            case Drain() if call.node in self.reasons:
                self.reasons[call.node] = call.reason
                self.reasons_at[call.node] = self._now()
            case Undrain() if call.node in self.reasons:
                self.reasons[call.node] = ""
            case Forget():
                if call.node in self.jobs.values():
                    raise OutsideFailed("NodeBusy", f"{call.node} is busy", retry_after_s=5.0)
                self.reasons.pop(call.node, None)
            case Reserve():
                self.reservations[call.reservation] = Reservation(
                    name=call.reservation, nodes=call.nodes, start_at=call.start, end_at=call.start + call.duration
                )
            case Narrow():
                there = self.reservations[call.reservation]
                self.reservations[call.reservation] = msgspec.structs.replace(there, nodes=call.nodes)
            case Unreserve():
                self.reservations.pop(call.reservation, None)
        self.changed()

    def subscribe(self, told: Callable[[str], None]) -> Callable[[], None]:
        self._told.append(told)
        return lambda: self._told.remove(told)

    async def close(self) -> None:
        return None

    # --- what happens in it

    def changed(self) -> None:
        for told in tuple(self._told):
            told(CLUSTER)

    def set_up(self, up: bool) -> None:
        self.up = up
        self.since = VIRTUAL_EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
        self.changed()

    def register(self, node: str) -> None:
        self.reasons.setdefault(node, "")
        self.registered_s[node] = asyncio.get_running_loop().time()
        self.changed()

    def start_job(self, number: int, node: str) -> None:
        """As the scheduler does: only where no drain is."""
        if self.reasons.get(node) == "":
            self.jobs[number] = node
            self.changed()

    def end_job(self, number: int) -> None:
        self.jobs.pop(number, None)
        self.changed()

    def lose(self, node: str) -> None:
        """Its pod is gone: what ran there is dead."""
        for number in [n for n, where in self.jobs.items() if where == node]:
            self.lost.append(number)
            self.end_job(number)

    def _node(self, name: str) -> Node:
        busy = "MIXED" if name in self.jobs.values() else "IDLE"
        words = (busy, "DYNAMIC_NORM", *(("DRAIN",) if self.reasons[name] else ()))
        return Node(
            name=name,
            state=node_state(words),
            reason=self.reasons[name],
            reason_at=self.reasons_at.get(name),
            features=("gpu",),
            registered_at=VIRTUAL_EPOCH + timedelta(seconds=self.registered_s.get(name, 0.0)),
        )

    def _now(self) -> datetime:
        return VIRTUAL_EPOCH + timedelta(seconds=asyncio.get_running_loop().time())

    def _jobs(self) -> list[Job]:
        return [Job(id=n, state=("RUNNING",), phase=Phase.RUNNING, nodes=(node,)) for n, node in self.jobs.items()]


class Kubelet:
    """Starts pods, lets their slurmd register, ends what is deleted."""

    def __init__(self, server: FakeApiServer, slurm: ModelSlurm) -> None:
        self._server, self._slurm = server, slurm
        self._waiting: set[str] = set()  # by uid
        server.extend(Pod, grace=lambda _pod, asked: 30 if asked is None else asked)

    async def run(self) -> None:
        registered: set[str] = set()  # by uid: a slurmd registers when it starts, and never again by itself
        while True:
            await asyncio.sleep(0.5)
            for pod in self._server.all_of(Pod):
                self._look_after(pod, registered)

    def _look_after(self, pod: dict[str, Any], registered: set[str]) -> None:
        meta, phase = pod["metadata"], pod.get("status", {}).get("phase", "Pending")
        name, namespace = meta["name"], meta["namespace"]
        if name in self._slurm.mute:
            return  # it is away
        if "deletionTimestamp" in meta:
            if meta["deletionGracePeriodSeconds"] == GRACE_S:
                self._waiting.add(meta["uid"])  # and heeds no shorter time from then on
            if meta["uid"] in self._waiting and name in self._slurm.jobs.values() and name not in self._slurm.ended:
                return
            if phase == "Running":
                self._slurm.lose(name)
            self._server.remove(Pod, name, namespace, grace_s=0)
        elif phase == "Pending":
            self.set_phase(name, "Running")
        elif phase == "Running" and meta["uid"] not in registered and self._slurm.up:
            registered.add(meta["uid"])
            self._slurm.register(name)

    def set_phase(self, name: str, phase: str) -> None:
        runs = phase == "Running"
        ready = {"type": "Ready", "status": "True" if runs else "False"}
        pods = {pod["metadata"]["name"]: pod["metadata"] for pod in self._server.all_of(Pod)}
        slurmd = {
            "name": "slurmd",
            "ready": runs,
            "restartCount": 0,
            "image": "corral/slurm",
            "imageID": "corral/slurm",
            "state": {"running": {"startedAt": pods[name]["creationTimestamp"]}}
            if runs
            else {"terminated": {"exitCode": 1}},
        }
        status = {"status": {"phase": phase, "conditions": [ready], "containerStatuses": [slurmd]}}
        self._server.edit(Pod, name, "lab", merge=status, subresource="status")
