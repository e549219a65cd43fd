"""Which workers there are: pods of the NodeSet and nodes of Slurm, matched by name. Pure.

Who was told the same as in the last pass is the same worker, with all that was found out about it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from corral.kinds import names
from corral.kinds.nodeset.arrival import is_about_to_register
from corral.kinds.nodeset.body import NO_BODY, Body, body_of
from corral.kinds.nodeset.record import record_of
from corral.kinds.nodeset.workers import Worker
from corral.kube.meta import EMPTY
from corral.kube.models.core_v1 import Node as Machine
from corral.kube.models.core_v1 import Pod
from corral.slurm.facts import Observed
from corral.slurm.states import Flag
from corral.slurm.values import Job, Node


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """`arrives_since`: a slurmd that began to run after it may still register; None while Slurm does not tell."""

    pods: tuple[Pod, ...]
    machines: Mapping[str, Machine]
    slurm: Observed | None
    arrives_since: datetime | None


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What the last pass made of what it was told. It saves work and decides nothing."""

    told: Told
    workers: Mapping[str, Worker]  # in their order

    def was_told(self, told: Told) -> bool:
        """Whether it was all the same. The moment does not matter: nobody is waited for to register."""
        before, after = self.told.slurm, told.slurm
        if self.told.pods is not told.pods or self.told.machines != told.machines:
            return False
        if before is None or after is None:
            return before is after
        same = before.nodes is after.nodes and before.jobs_by_node is after.jobs_by_node
        return same and all(worker.node is not None and not worker.arrives for worker in self.workers.values())


def gathered(nodeset: str, told: Told, before: Before | None) -> tuple[Worker, ...]:
    """Every pod of the NodeSet, and every Slurm node that is or was one of its workers; by ordinal."""
    if before is not None and before.was_told(told):
        return tuple(before.workers.values())
    known = before.workers if before is not None else EMPTY
    pods = {pod.metadata.name: pod for pod in told.pods}
    # A pod's node is its node whatever its features are: slurmctld knows it by that name. Of the others, those by name
    # and feature: a node that only looks like one of ours is somebody else's.
    here = told.slurm.nodes_with(nodeset) if told.slurm else ()
    orphans = [node.name for node in here if node.name not in pods and _is_ours(node, nodeset)]
    nodes, jobs = (told.slurm.nodes, told.slurm.jobs_by_node) if told.slurm else (EMPTY, EMPTY)
    return tuple(
        [
            _worker(known.get(name), name, ordinal, pods.get(name), nodes.get(name), jobs.get(name, ()), told)
            for name, ordinal in _ordinals(nodeset, (*pods, *orphans), known)
        ]
    )


def _is_ours(node: Node, nodeset: str) -> bool:
    """By its ordinal; or else by its first feature, for NodeSets `a` and `a-b` may both have an `a-b-c`.

    It came by registering. One that stands in slurm.conf is another machine, as of a Slurm that runs elsewhere.
    """
    if Flag.DYNAMIC_NORM not in node.state.flags:
        return False
    first = node.features[:1] == (nodeset,)
    return names.worker_ordinal(nodeset, node.name) is not None or (first and names.is_worker_of(nodeset, node.name))


def _ordinals(nodeset: str, found: Sequence[str], before: Mapping[str, Worker]) -> list[tuple[str, int | None]]:
    """Of all workers, in their order. Most passes find those of the last one."""
    if len(found) == len(before) and all(name in before for name in found):
        return [(name, worker.ordinal) for name, worker in before.items()]
    ours = [(name, names.worker_ordinal(nodeset, name)) for name in found]
    return sorted(ours, key=lambda one: (one[1] or 0, one[0]))


def _worker(
    before: Worker | None,
    name: str,
    ordinal: int | None,
    pod: Pod | None,
    node: Node | None,
    jobs: tuple[Job, ...],
    told: Told,
) -> Worker:
    """`before` itself, if it was told the same."""
    machine = told.machines.get(pod.spec.node_name) if pod is not None else None
    since, heard = told.arrives_since, told.arrives_since is not None
    body = _body(before, pod)
    arrives = since is not None and is_about_to_register(body, node, since)
    if (
        before is not None
        and before.pod is pod
        and before.node is node
        and before.jobs is jobs
        and before.machine is machine
        and before.heard is heard
        and before.arrives is arrives
    ):
        return before
    return Worker(
        name=name,
        ordinal=ordinal,
        pod=pod,
        node=node,
        jobs=jobs,
        machine=machine,
        heard=heard,
        arrives=arrives,
        body=body,
        record=record_of(node, jobs),
    )


def _body(before: Worker | None, pod: Pod | None) -> Body:
    """That of the last pass, if its pod is the same."""
    if before is not None and before.pod is pod:
        return before.body
    return body_of(pod) if pod is not None else NO_BODY
