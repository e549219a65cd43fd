"""What a person's word about a machine's power comes to: an edit of the Wukong, or an action of KubeVirt. Pure.

The Wukong says whether its machine runs, so starting and stopping are edits of it, and survive everything. Only what
its spec leaves open goes to KubeVirt: the moments of a machine that is started by hand (Manual, RerunOnFailure), a
restart, a pause, a move to another node.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance, condition_of, holds
from corral.kinds.wukong.machine import run_strategy
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import EMPTY, Resource, ref

SUBRESOURCES = "subresources.kubevirt.io"
MACHINES = Resource(SUBRESOURCES, "v1", "VirtualMachine", "virtualmachines", True)
INSTANCES = Resource(SUBRESOURCES, "v1", "VirtualMachineInstance", "virtualmachineinstances", True)
OVER = frozenset({"Succeeded", "Failed"})
BY_HAND = frozenset({"Manual", "RerunOnFailure"})  # what KubeVirt starts when it is asked to


class Edit(msgspec.Struct, frozen=True):
    """Of the Wukong, as a merge patch."""

    merge: Mapping[str, Any]


class Act(msgspec.Struct, frozen=True):
    """An action that KubeVirt's own API server carries out."""

    of: Resource
    action: str
    options: Mapping[str, Any] = EMPTY


class Move(msgspec.Struct, frozen=True):
    """To `node`, or to whichever the scheduler chooses."""

    node: str = ""


Step: TypeAlias = Edit | Act | Move
Word: TypeAlias = Literal["start", "stop", "restart", "pause", "unpause", "migrate"]


class Decision(msgspec.Struct, frozen=True):
    """`steps` in their order; none when there is nothing to do. `message` says which of both, for a person."""

    message: str
    steps: tuple[Step, ...] = ()


class CannotDo(Exception):
    """The message says why, and what to do instead."""


class Machine(msgspec.Struct, frozen=True):
    wukong: Wukong
    has_machine: bool  # whether its VirtualMachine is there
    instance: VirtualMachineInstance | None

    @property
    def strategy(self) -> str:
        return run_strategy(self.wukong)

    @property
    def runs(self) -> bool:
        return self.instance is not None and self.instance.status.phase not in OVER

    @property
    def name(self) -> str:
        return str(ref(self.wukong))


def start(it: Machine) -> Decision:
    if it.runs:
        return Decision(f"{it.name} is already running")
    if it.strategy == "Halted":
        return _edited(it, "is set to run", Edit(resumed(it.wukong)))
    if it.strategy not in BY_HAND:
        if it.strategy == "Once" and it.instance is not None:
            raise CannotDo(f"{it.name} has run once, as its runStrategy asks; choose another to run it again")
        return Decision(f"{it.name} is already set to run; `corral explain wukong` shows what it waits for")
    if not it.has_machine:
        raise CannotDo(f"{it.name} has no VirtualMachine yet; `corral explain wukong` shows what it waits for")
    return Decision(f"{it.name} is started", (Act(MACHINES, "start"),))


def stop(it: Machine, *, force: bool = False) -> Decision:
    at_once = (Act(MACHINES, "stop", {"gracePeriod": 0}),) if force and it.runs else ()
    if it.strategy == "Halted":
        what = "is cut off" if at_once else "is already set to stop"
        return Decision(f"{it.name} {what}", at_once)
    if it.strategy != "Manual":
        return _edited(it, "is set to stop", Edit(halted(it.wukong)), *at_once)
    if not it.runs:
        return Decision(f"{it.name} does not run")
    return Decision(f"{it.name} is being stopped", at_once or (Act(MACHINES, "stop"),))


def restart(it: Machine, *, force: bool = False, soft: bool = False) -> Decision:
    _need_running(it)
    if it.strategy == "Halted":
        raise CannotDo(f"{it.name} is being stopped; start it again when it has stopped")
    if soft:
        return Decision(f"the guest of {it.name} is asked to restart", (Act(INSTANCES, "softreboot"),))
    options = {"gracePeriodSeconds": 0} if force else {}
    return Decision(f"{it.name} is restarted", (Act(MACHINES, "restart", options),))


def pause(it: Machine) -> Decision:
    if holds(_need_running(it).status.conditions, "Paused"):
        return Decision(f"{it.name} is already paused")
    return Decision(f"{it.name} is paused", (Act(INSTANCES, "pause"),))


def unpause(it: Machine) -> Decision:
    if not holds(_need_running(it).status.conditions, "Paused"):
        return Decision(f"{it.name} is not paused")
    return Decision(f"{it.name} continues", (Act(INSTANCES, "unpause"),))


def migrate(it: Machine, *, node: str = "") -> Decision:
    instance = _need_running(it)
    here, moving = instance.status.node_name, instance.status.migration_state
    if moving is not None and not moving.completed:
        to = moving.target_node or "another node"
        return Decision(f"{it.name} is already migrating from {moving.source_node} to {to}")
    if node and node == here:
        return Decision(f"{it.name} is on {node} already")
    may = condition_of(instance.status.conditions, "LiveMigratable")
    if may is not None and may.status == "False":
        raise CannotDo(f"{it.name} cannot be migrated live: {may.message or may.reason or 'KubeVirt does not say why'}")
    return Decision(f"{it.name} migrates from {here} to {node or 'another node'}", (Move(node),))


def halted(wukong: Wukong) -> Mapping[str, Any]:
    """With the strategy it had kept beside, so that a later start brings that back."""
    if wukong.spec.high_availability.restart_policy is not None:
        return {"spec": {"startStrategy": {"autoStart": False}}}
    before = wukong.spec.start_strategy.run_strategy
    return _strategy("Halted", remembered=before)


def resumed(wukong: Wukong) -> Mapping[str, Any]:
    before = wukong.metadata.annotations.get(names.RESUMES_AS_ANNOTATION)
    return _strategy(before, remembered=None)


def _strategy(strategy: str | None, *, remembered: str | None) -> Mapping[str, Any]:
    start_strategy: dict[str, Any] = {"runStrategy": strategy}
    if strategy != "Halted":
        start_strategy["autoStart"] = True
    return {
        "metadata": {"annotations": {names.RESUMES_AS_ANNOTATION: remembered}},
        "spec": {"startStrategy": start_strategy},
    }


def _edited(it: Machine, what: str, *steps: Step) -> Decision:
    """Of a suspended Wukong the spec would change, and nothing would come of it."""
    if it.wukong.spec.suspend:
        raise CannotDo(f"{it.name} is suspended; remove spec.suspend first")
    return Decision(f"{it.name} {what}", steps)


def _need_running(it: Machine) -> VirtualMachineInstance:
    if it.instance is None or not it.runs:
        raise CannotDo(f"{it.name} does not run; `corral vm start {it.wukong.metadata.name}` starts it")
    return it.instance
