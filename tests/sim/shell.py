"""Looks into workers, as exec through their kubelet does: which steps of jobs run there when it begins."""

import asyncio
import json

from corral.kinds.controller.shell import Answer
from corral.kinds.nodeset.looks import STEPS
from corral.kube.errors import Subject, Unreachable
from corral.kube.models.core_v1 import Pod
from tests.sim.kubernetes import Kubernetes, SimServer


class WorkerShell:
    def __init__(self, server: SimServer, kubernetes: Kubernetes) -> None:
        self._server, self._kubernetes = server, kubernetes
        self.takes_s = 0.0  # until the answer is here

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = ""
    ) -> Answer:
        assert (command, container) == ((STEPS,), "slurmd")
        found = self._server.get(Pod, pod, namespace)
        machine = self._kubernetes.machines.get(found["spec"].get("nodeName", "")) if found else None
        process = self._kubernetes.kubelets.processes.get(found["metadata"]["uid"]) if found else None
        if machine is None or not machine.heard or process is None or process.container_s is None:
            raise Unreachable(Subject("exec", "Pod", namespace, pod), "no container there answers")
        jobs, now_s = process.slurmd.jobs if process.slurmd else {}, self._server.now_s()
        steps = [f"{number}.batch" for number, ends_s in jobs.items() if ends_s > now_s]
        await asyncio.sleep(self.takes_s)
        return Answer(0, json.dumps({"steps": steps}).encode())
