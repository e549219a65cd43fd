"""A model of slurmctld and of the slurmds that it speaks to: nodes, jobs, drains, registration, restarts. No I/O.

What was learned from the real daemons, and is kept here:

    a slurmd registers when it starts, when it gets a HUP, and when slurmctld is reconfigured and knows it; it makes its
    record if there is none. One whose record was deleted never comes back by itself
    a record keeps its drain over a new registration, and comes back from DOWN by it (ReturnToService=2), also where
    somebody has set it down: slurmctld asks a slurmd that answers to register, within half a minute
    a record is deleted only while no job holds it, and no reservation that has begun (2016); one that is not there is
    2018. An order to lift a drain lifts FAIL too, and leaves the node silent for a moment
    a record keeps the CPUs that it was made with, whatever a later registration says; one with fewer is INVALID_REG
    and drained by slurmctld itself, with its own reason in place of any other; nobody lifts that drain
    a slurmd that went away is NOT_RESPONDING after 20 s and DOWN after 60 s, which is added to the reason of a drain;
    then its jobs are requeued
    power states come only where a SuspendProgram is configured; a registration ends them
    a slurmctld that was started, or reconfigured, knows when a slurmd was only after that one has registered, within
    seconds; one that it cannot reach is NOT_RESPONDING then
    a slurmctld that is killed has lost its last seconds: drains, deletions, registrations and starts of jobs

The truth about jobs is where their processes are: `Slurmd.jobs`. `killed` has every job whose process ended before its
time, and by whom.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random

from tests.sim.records import ALL, COST, UP, Job, Record, Refused, Reservation, Slurmd

__all__ = ["Slurmctld", "Slurmd"]

SILENT_S = 20.0  # until a node does not respond
DOWN_S = 60.0  # SlurmdTimeout
COMPLETING_S = 1.5
JOBS_PER_NODE = 2
UNSAVED_S = 3.0  # what a kill forgets
YOUNG_S = 20.0  # a job of a slurmd that died younger than this is missed only at the next periodic registration
REGISTERS_EVERY_S = 90.0
RETURNS_S_MAX = 30.0  # of a node that somebody has set down, and whose slurmd answers
KNOWN_AGAIN_P = 0.2  # in each tick after slurmctld was started: within seconds every slurmd has registered
SUSPEND_S, RESUME_S = 10.0, 30.0  # SuspendTimeout, ResumeTimeout
ITSELF = "slurm"
SILENT, UNRESUMED = LOST = ("Not responding", "ResumeTimeout reached")
LOW = "Low socket*core*thread count, Low CPUs"
POWERING_DOWN, POWERED_DOWN, POWERING_UP = "POWERING_DOWN", "POWERED_DOWN", "POWERING_UP"
NO_SUCH_NODE, NODE_BUSY, NO_SUCH_PARTITION, PARTITION_AWAY, WRONG_STATE = 2018, 2016, 2000, 2046, 2028


class Slurmctld:
    """`forgets_reasons`: as since 25.05; before it, a reason outlives the drain that it was said for."""

    def __init__(
        self, now_s: Callable[[], float], chance: Random, note: Callable[[str], None], *, forgets_reasons: bool = True
    ) -> None:
        self._now_s, self._chance, self._note = now_s, chance, note
        self._forgets_reasons = forgets_reasons
        self.up = True
        self.nodes: dict[str, Record] = {}
        self.jobs: dict[int, Job] = {}
        self.reservations: dict[str, Reservation] = {}
        self.partitions: Mapping[str, str] = {ALL: UP}  # and their states
        self.killed: list[tuple[int, str, str]] = []  # job, node, by whom
        self.cost: list[tuple[int, str]] = []  # job, and the partition that it ended with
        self.nodes_changed_s = self.jobs_changed_s = 0.0
        self._saved: tuple[float, dict[str, Record], dict[int, Job]] = (0.0, {}, {})
        self._numbers = 0
        self._looked_s = 0.0  # when reservations that begin or end were looked for last

    # --- slurmd

    def register(self, slurmd: Slurmd) -> bool:
        if not self.up or not slurmd.alive:
            return False
        now_s = self._now_s()
        record = self.nodes.get(slurmd.node)
        if record is None:
            record = Record(slurmd.node, slurmd.features, slurmd, now_s, now_s, registered_s=now_s, cpus=slurmd.cpus)
            self.nodes[slurmd.node] = record
        is_new = record.slurmd is not slurmd
        record.slurmd, record.features = slurmd, slurmd.features
        record.heard_s = record.registered_s = now_s
        record.started_s = slurmd.started_s
        record.down = record.silent = record.revived = record.told = False
        record.power = ""
        self._compare(record, slurmd)
        self._is_in_service(record)
        self._note(f"slurmd {slurmd.node} registers")
        self._look_for_missing_jobs(record, young_too=not is_new)
        self._nodes_changed()
        return True

    def _compare(self, record: Record, slurmd: Slurmd) -> None:
        record.invalid = slurmd.cpus < record.cpus
        if record.invalid:
            record.drain = True
            self._reason(record, LOW, ITSELF)

    def slurmd_ended(self, slurmd: Slurmd, by: str) -> None:
        """With it end the processes of its jobs."""
        slurmd.alive = False
        now_s = self._now_s()
        for number, ends_s in slurmd.jobs.items():
            if ends_s > now_s:
                self.killed.append((number, slurmd.node, by))
                self._note(f"job {number} on {slurmd.node} is killed by {by}")
        slurmd.jobs.clear()

    def may_give_a_job_to(self, slurmd: Slurmd) -> str:
        """Why a job may be on this slurmd, now or in a moment; empty: none is and none comes.

        A drain is no proof: anyone may lift it meanwhile. That slurmctld has forgotten the node is one.
        """
        now_s = self._now_s()
        running = [number for number, ends_s in slurmd.jobs.items() if ends_s > now_s]
        if running:
            return f"jobs {running} run there"
        record = self.nodes.get(slurmd.node)
        if record is None or record.slurmd is not slurmd or record.revived or not slurmd.alive:
            return ""
        holders = self._holders(slurmd.node)
        if holders:
            return f"jobs {[job.id for job in holders]} hold its record"
        return "its record is there: whoever lifts its drain, or is lifting it now, gives it a job"

    # --- people and programs

    def submit(self, wants: int, runs_s: float, partition: str = ALL) -> int:
        state = self.partitions.get(partition)
        if state is None:
            raise Refused(NO_SUCH_PARTITION, "Invalid partition name specified")
        if state != UP:
            raise Refused(PARTITION_AWAY, "Required partition not available (inactive or drain)")
        self._numbers += 1
        self.jobs[self._numbers] = Job(self._numbers, wants, runs_s, partition)
        self.jobs_changed_s = self._now_s()
        return self._numbers

    def end_all(self) -> None:
        """As `scancel` does: what runs is cleaned up, then gone."""
        for job in self.jobs.values():
            job.runs_s = 0.0

    def cancel_pending(self) -> None:
        self.jobs = {number: job for number, job in self.jobs.items() if job.state != "PENDING"}
        self.jobs_changed_s = self._now_s()

    def drain(self, node: str, reason: str, by: str) -> None:
        record = self._record(node)
        record.drain = True
        self._reason(record, reason, by)
        self._note(f"{by} drains {node}: {reason}")
        self._nodes_changed(record)

    def undrain(self, node: str, by: str) -> None:
        record = self._record(node)
        if record.invalid:
            raise Refused(WRONG_STATE, "Invalid node state specified")
        if record.drain or record.fail:
            record.drain = record.fail = False
            self._is_in_service(record)
            record.silent = True
            self._note(f"{by} undrains {node}")
            self._nodes_changed(record)

    def set_down(self, node: str, reason: str, by: str) -> None:
        """As `scontrol update state=down`, which ends its jobs."""
        record = self._record(node)
        record.down, record.power = True, ""
        self._reason(record, reason, by)
        self._note(f"{by} sets {node} down: {reason}")
        for job in self._holders(node):
            self._requeue(job, f"{node} is set down")
        self._nodes_changed(record)

    def set_fail(self, node: str, reason: str, by: str) -> None:
        record = self._record(node)
        record.fail = True
        self._reason(record, reason, by)
        self._note(f"{by} marks {node} as failing: {reason}")
        self._nodes_changed(record)

    def resume(self, node: str, by: str) -> None:
        record = self._record(node)
        record.drain = record.fail = record.down = False
        self._is_in_service(record)
        record.silent = True
        self._note(f"{by} resumes {node}")
        self._nodes_changed(record)

    def power(self, node: str, state: str, by: str) -> None:
        """POWERING_DOWN, of one without a job; or POWERING_UP, of one that is down."""
        record = self._record(node)
        record.power, record.power_s = state, self._now_s()
        self._note(f"{by}: {node} is {state}")
        self._nodes_changed(record)

    def is_idle(self, node: str) -> bool:
        record = self.nodes[node]
        return not (self._holders(node) or record.drain or record.down or record.fail or record.silent or record.power)

    def _is_in_service(self, record: Record) -> None:
        if self._forgets_reasons and not (record.drain or record.fail or record.down):
            record.reason = record.reason_by = ""

    def _reason(self, record: Record, reason: str, by: str) -> None:
        record.reason, record.reason_by, record.reason_s = reason, by, self._now_s()

    def delete(self, node: str, by: str) -> None:
        self._record(node)
        if holders := self._holders(node):
            raise Refused(NODE_BUSY, f"Requested nodes are busy: jobs {[job.id for job in holders]}")
        if self._is_in_begun_reservation(node):
            raise Refused(NODE_BUSY, "Requested nodes are busy: in a reservation")
        del self.nodes[node]
        self._note(f"{by} deletes the record of {node}")
        self._nodes_changed()

    def reserve(self, wanted: Reservation, by: str) -> None:
        if wanted.name in self.reservations or wanted.start_s < self._now_s():
            raise Refused(2001, "Requested reservation is invalid")
        for node in wanted.nodes:
            self._record(node)
        self.reservations[wanted.name] = wanted
        self._note(f"{by} reserves {','.join(wanted.nodes)} as {wanted.name}")

    def narrow(self, name: str, nodes: tuple[str, ...], by: str) -> None:
        self.reservations[name] = replace(self.reservations[name], nodes=nodes)
        self._note(f"{by} leaves reservation {name} only {','.join(nodes)}")
        self._nodes_changed()

    def unreserve(self, name: str, by: str) -> None:
        if self.reservations.pop(name, None) is None:
            raise Refused(2001, "Requested reservation is invalid")
        self._note(f"{by} ends reservation {name}")
        self._nodes_changed()

    def configure(self, partitions: Mapping[str, str]) -> None:
        """Other lines of partitions, and a reconfigure. A job ends with the line of its partition."""
        self.reconfigured()
        self.partitions = {**partitions, ALL: UP}
        self._note(f"slurmctld has partitions {self.partitions}")
        for job in self.jobs.values():
            if job.partition not in self.partitions and (job.holds or job.state == "PENDING"):
                self._note(f"job {job.id} ends with partition {job.partition}")
                self.cost.append((job.id, job.partition))
                self._leave_nodes(job)
                job.state = COST
        self._nodes_changed()
        self.jobs_changed_s = self._now_s()

    # --- restarts

    def reconfigured(self) -> None:
        """It has read its files anew, and tells every slurmd to do so; who that was, it knows when that has."""
        for record in self.nodes.values():
            record.started_s = None
            record.told = record.slurmd is not None and record.slurmd.alive
            record.silent |= not record.told
        self._nodes_changed()

    def kill(self) -> None:
        """What changed in the last seconds is forgotten: nothing of it was on the disk."""
        self.up = False
        self._note("slurmctld is killed")
        _, nodes, jobs = self._saved
        now_s = self._now_s()
        for name, record in nodes.items():
            present = self.nodes.get(name)
            if present is None:
                self.nodes[name] = replace(record, revived=True)
            elif present.changed_s > now_s - UNSAVED_S:
                present.drain, present.fail, present.down = record.drain, record.fail, record.down
                present.reason, present.reason_by = record.reason, record.reason_by
                present.invalid = record.invalid
        for name, record in nodes.items():  # who has registered since then is looked for where an earlier life was
            present = self.nodes[name]
            present.slurmd, present.features, present.cpus = record.slurmd, record.features, record.cpus
        for name in [n for n, r in self.nodes.items() if n not in nodes and not self._holders(n) and not r.revived]:
            del self.nodes[name]
        for job in self.jobs.values():
            if job.state == "RUNNING" and job.id in jobs and jobs[job.id].state == "PENDING":
                self._requeue(job, "its start was not saved")

    def start(self, *, lost: float = 0.0) -> None:
        """`lost`: the share of records without jobs that did not come back."""
        self.up = True
        gone = [name for name in sorted(self.nodes) if not self._holders(name) and self._chance.random() < lost]
        for name in gone:
            del self.nodes[name]
        self._note(f"slurmctld starts{f', has lost {gone}' if gone else ''}")
        for record in self.nodes.values():
            record.heard_s, record.started_s, record.told = self._now_s(), None, False
        self._nodes_changed()
        self.jobs_changed_s = self._now_s()

    # --- time

    def tick(self) -> None:
        if not self.up:
            return
        now_s = self._now_s()
        if any(self._looked_s < at <= now_s for one in self.reservations.values() for at in (one.start_s, one.end_s)):
            self._nodes_changed()
        self._looked_s = now_s
        self.reservations = {name: one for name, one in self.reservations.items() if one.end_s > now_s}
        for record in self.nodes.values():
            self._ping(record, now_s)
        for job in self.jobs.values():
            self._follow(job, now_s)
        self._schedule(now_s)
        if now_s - self._saved[0] >= UNSAVED_S:
            nodes = {name: replace(record) for name, record in self.nodes.items()}
            self._saved = (now_s, nodes, {number: replace(job) for number, job in self.jobs.items()})

    def _ping(self, record: Record, now_s: float) -> None:
        self._follow_power(record, now_s)
        lives = record.slurmd is not None and record.slurmd.alive
        if lives and record.down and now_s - record.reason_s >= RETURNS_S_MAX * self._chance.random():
            assert record.slurmd is not None
            self.register(record.slurmd)
        if lives and not record.down:
            if record.silent and record.power != POWERING_UP:
                record.silent = False
                self._nodes_changed()
            record.heard_s = now_s
            assert record.slurmd is not None
            if record.started_s is None and not record.told and self._chance.random() < KNOWN_AGAIN_P:
                record.started_s = record.slurmd.started_s
                self._compare(record, record.slurmd)
                self._nodes_changed()
            if now_s - record.registered_s >= REGISTERS_EVERY_S:
                record.registered_s = now_s
                self._look_for_missing_jobs(record, young_too=True)
            return
        if not record.silent and now_s - record.heard_s > SILENT_S:
            record.silent = True
            self._nodes_changed()
        if not record.down and now_s - record.heard_s > DOWN_S:
            self._goes_down(record, SILENT)

    def _goes_down(self, record: Record, why: str) -> None:
        record.down = True
        self._reason(record, f"{record.reason} : {why}" if record.reason else why, ITSELF)
        self._note(f"{record.name} is DOWN: {record.reason}")
        self._nodes_changed()
        for job in self._holders(record.name):
            self._requeue(job, f"{record.name} is down")

    def _follow_power(self, record: Record, now_s: float) -> None:
        if record.power == POWERING_DOWN and now_s - record.power_s >= SUSPEND_S:
            record.power = POWERED_DOWN
        elif record.power == POWERING_UP and now_s - record.power_s >= RESUME_S:
            record.power = ""
            self._goes_down(record, UNRESUMED)
        else:
            return
        self._nodes_changed()

    def _look_for_missing_jobs(self, record: Record, *, young_too: bool) -> None:
        now_s = self._now_s()
        for job in self._holders(record.name):
            is_there = record.slurmd is not None and job.id in record.slurmd.jobs
            if not is_there and job.state == "RUNNING" and (young_too or now_s - job.start_s > YOUNG_S):
                self._requeue(job, f"{record.name} does not know it")

    def _follow(self, job: Job, now_s: float) -> None:
        if job.state == "RUNNING" and now_s - job.start_s >= job.runs_s:
            job.state, job.end_s = "COMPLETING", now_s
        elif job.state == "COMPLETING" and now_s - job.end_s >= COMPLETING_S:
            self._leave_nodes(job)
            job.state = "COMPLETED"
        else:
            return
        self._nodes_changed()
        self.jobs_changed_s = now_s

    def _schedule(self, now_s: float) -> None:
        for job in [job for job in self.jobs.values() if job.state == "PENDING"]:
            free = [name for name in sorted(self.nodes) if self._takes(job, self.nodes[name])]
            if len(free) < job.wants:
                continue
            job.nodes = tuple(self._chance.sample(free, job.wants))
            job.state, job.start_s = "RUNNING", now_s
            for name in job.nodes:
                slurmd = self.nodes[name].slurmd
                if slurmd is not None and slurmd.alive and not self.nodes[name].revived:
                    slurmd.jobs[job.id] = now_s + job.runs_s
            self._note(f"job {job.id} starts on {','.join(job.nodes)} for {job.runs_s:.0f} s")
            self._nodes_changed()
            self.jobs_changed_s = now_s

    def _takes(self, job: Job, record: Record) -> bool:
        out = record.drain or record.down or record.fail or record.silent or bool(record.power)
        unfit = out or self._is_kept_free(record.name, self._now_s() + job.runs_s)
        is_in = job.partition == ALL or job.partition in record.features
        is_up = self.partitions.get(job.partition) == UP
        return is_in and is_up and not unfit and len(self._holders(record.name)) < JOBS_PER_NODE

    def _is_in_begun_reservation(self, node: str) -> bool:
        now_s = self._now_s()
        return any(node in one.nodes and one.start_s <= now_s < one.end_s for one in self.reservations.values())

    def _is_kept_free(self, node: str, until_s: float) -> bool:
        """By a reservation: whether a job that ends then would reach into it."""
        return any(node in one.nodes and one.start_s < until_s for one in self.reservations.values())

    def _requeue(self, job: Job, why: str) -> None:
        """Its processes, wherever they are left, are killed by Slurm itself."""
        self._note(f"job {job.id} is requeued: {why}")
        self._leave_nodes(job)
        job.state, job.nodes, job.restarts = "PENDING", (), job.restarts + 1
        self._nodes_changed()
        self.jobs_changed_s = self._now_s()

    def _leave_nodes(self, job: Job) -> None:
        for name in job.nodes:
            record = self.nodes.get(name)
            if record is not None and record.slurmd is not None:
                record.slurmd.jobs.pop(job.id, None)

    def _holders(self, node: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.holds and node in job.nodes]

    def _record(self, node: str) -> Record:
        if node not in self.nodes:
            raise Refused(NO_SUCH_NODE, "Invalid node name specified")
        return self.nodes[node]

    def _nodes_changed(self, record: Record | None = None) -> None:
        self.nodes_changed_s = self._now_s()
        if record is not None:
            record.changed_s = self.nodes_changed_s

    # --- what is told

    def words(self, record: Record) -> list[str]:
        states = {job.state for job in self._holders(record.name)}
        base = "DOWN" if record.down else "MIXED" if "RUNNING" in states else "IDLE"
        flags: Iterable[tuple[str, bool]] = (
            ("COMPLETING", "COMPLETING" in states),
            ("DRAIN", record.drain),
            ("FAIL", record.fail),
            ("NOT_RESPONDING", record.silent),
            ("DYNAMIC_NORM", True),
            ("INVALID_REG", record.invalid),
            ("RESERVED", self._is_in_begun_reservation(record.name)),
            ("MAINTENANCE", self._is_in_begun_reservation(record.name)),
            (record.power, bool(record.power)),
        )
        return [base, *(word for word, is_set in flags if is_set)]
