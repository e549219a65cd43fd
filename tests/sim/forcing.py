"""The law of `forceDrainAfterSeconds`: whom an operator may kill, and when.

A job only where people asked for it, on a worker that has had its drain for so long, and only one that a warning of its
pod has named before. Everybody else's jobs are under the law of jobs.
"""

from collections.abc import Callable

from corral.engine import EmitEvent
from corral.kinds.nodeset.calls import REASON_PREFIX
from corral.kinds.nodeset.snapshot import Snapshot
from tests.sim.kubelet import Json
from tests.sim.records import Slurmd
from tests.sim.slurmctld import Slurmctld

WARNING = "JobsToBeKilled"
SECONDS = 1.0  # in which Slurm tells times


class Forcing:
    def __init__(self, slurm: Slurmctld, now_s: Callable[[], float]) -> None:
        self._slurm, self._now_s = slurm, now_s
        self._warned: set[tuple[str, int]] = set()  # uid of the pod, job
        self.condemned: set[tuple[int, str]] = set()  # job, node

    def is_told(self, event: EmitEvent) -> None:
        """What an operator has said, whether or not the server has kept it."""
        if event.reason == WARNING:
            jobs = event.message.rpartition(": ")[2].split(", ")
            self._warned |= {(event.regarding.uid, int(job)) for job in jobs}

    def objects_to(self, pod: Json, slurmd: Slurmd, seen: Snapshot) -> str:
        """Why an operator may not delete it with its jobs; empty: it may."""
        within_s, now_s = seen.object.spec.force_drain_after_seconds, self._now_s()
        if within_s is None:
            return "nobody asked for force"
        record = self._slurm.nodes.get(slurmd.node)
        if record is None or not record.drain or not record.reason.startswith(REASON_PREFIX):
            return "it has no drain of ours"
        if (for_s := now_s - record.reason_s) < within_s - SECONDS:
            return f"it has had its drain for {for_s:.0f} s of {within_s}"
        jobs = {number for number, ends_s in slurmd.jobs.items() if ends_s > now_s}
        if unnamed := sorted(job for job in jobs if (pod["metadata"]["uid"], job) not in self._warned):
            return f"no warning has named jobs {unnamed}"
        self.condemned |= {(job, slurmd.node) for job in jobs}
        return ""
