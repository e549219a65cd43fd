"""Commands in workers, as exec through their kubelet does them: which steps of jobs run there when it begins, and the
end of the wait for them of one that was deleted.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

from corral.kinds.controller.shell import SLURMD, Answer
from corral.kinds.nodeset.calls import END_WAIT
from corral.kinds.nodeset.looks import HAS_ENDED, STEPS
from corral.kube.errors import Subject, Unreachable
from corral.kube.models.core_v1 import Pod
from tests.sim.kubelet import Json, Process
from tests.sim.kubernetes import Kubernetes, SimServer


class WorkerShell:
    def __init__(self, server: SimServer, kubernetes: Kubernetes) -> None:
        self._server, self._kubernetes = server, kubernetes
        self.takes_s = 0.0  # until the answer is here
        self.on_end: Callable[[str, Json, Process], None] = lambda *_: None  # of a wait: who asked, and whose it was

    def connect(self, client: str) -> "ShellOf":
        return ShellOf(self, client)

    async def run(self, client: str, namespace: str, pod: str, command: tuple[str, ...]) -> Answer:
        found = self._server.get(Pod, pod, namespace)
        machine = self._kubernetes.machines.get(found["spec"].get("nodeName", "")) if found else None
        process = self._kubernetes.kubelets.processes.get(found["metadata"]["uid"]) if found else None
        if found is None or machine is None or not machine.heard or process is None:
            raise Unreachable(Subject("exec", "Pod", namespace, pod), "no kubelet answers")
        if process.container_s is None:
            raise Unreachable(Subject("exec", "Pod", namespace, pod), HAS_ENDED)
        said = self._told_to(client, command, found, process)
        await asyncio.sleep(self.takes_s)
        return Answer(0, said)

    def _told_to(self, client: str, command: tuple[str, ...], pod: Json, process: Process) -> bytes:
        if command == END_WAIT:
            self.on_end(client, pod, process)
            self._kubernetes.kubelets.end_wait(process, client)
            return b""
        assert command == (STEPS,)
        jobs, now_s = process.slurmd.jobs if process.slurmd else {}, self._server.now_s()
        steps = [f"{number}.batch" for number, ends_s in jobs.items() if ends_s > now_s]
        return json.dumps({"steps": steps}).encode()


@dataclass(frozen=True)
class ShellOf:
    """That of one client."""

    shell: WorkerShell
    client: str

    async def run(
        self, namespace: str, pod: str, command: tuple[str, ...], *, run_s_max: float, container: str = ""
    ) -> Answer:
        assert container == SLURMD
        assert self.shell.takes_s <= run_s_max
        return await self.shell.run(self.client, namespace, pod, command)
