"""What to do for a NodeBridge: a policy of NMState for each node that cannot be cut off by it. Pure.

    guard       the port must be there, and the node must not need it for itself (see `guard`); each node for itself
    leaving     of nodes that are no longer chosen, and of all on deletion: NMState leaves behind what a deleted policy
                made, so first a policy that says `absent`, then its deletion
    sharing     a bridge of one name on one node belongs to the oldest NodeBridge that wants it there: no other makes
                it, and none says `absent` for as long as another wants it
    pace        `maxUnavailable` nodes at a time, and no further one once NMState has refused one

NMState itself takes a change back when a node cannot be reached afterwards; the guard is for never getting there.
"""

import enum
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from corral.engine import (
    NOTHING,
    Action,
    Apply,
    Delete,
    Outcome,
    Plan,
    RemoveFinalizer,
    Wait,
    children,
    conditions,
    is_controlled_by,
    target,
    verdict,
)
from corral.engine.status import WAITS_SHOWN_MAX
from corral.kinds.nodebridge.guard import danger
from corral.kinds.nodebridge.policies import found_on, is_as_asked, node_of, policy, policy_name
from corral.kinds.nodebridge.spec import NodeBridge, NodeBridgeStatus
from corral.kinds.telling import trouble
from corral.kinds.wukong.api.kubevirt import condition_of
from corral.kinds.wukong.api.nmstate import NodeNetworkConfigurationPolicy, NodeNetworkState
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Node
from corral.kube.values import resolve_percentage

FINALIZER = "vm.corral.dev/node-bridge"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: NodeBridge
    now: datetime
    others: tuple[NodeBridge, ...] = ()  # with a bridge of the same name
    is_served: bool = True  # whether this cluster has NMState
    nodes: tuple[Node, ...] = ()  # all of them
    states: tuple[NodeNetworkState, ...] = ()
    policies: tuple[NodeNetworkConfigurationPolicy, ...] = ()  # ours, and those that stand under the names of ours

    @property
    def is_leaving(self) -> bool:
        return self.object.metadata.deletion_timestamp is not None

    def state(self, node: str) -> NodeNetworkState | None:
        return next((state for state in self.states if state.metadata.name == node), None)

    def policy(self, node: str) -> NodeNetworkConfigurationPolicy | None:
        name = policy_name(self.object, node)
        return next((found for found in self.policies if found.metadata.name == name), None)


class Stage(enum.Enum):
    HELD = "held"  # nothing is done to the node; at most a policy is put away
    TO_DO = "to do"
    UNDER_WAY = "under way"  # NMState is at it
    REFUSED = "refused"  # by NMState
    DONE = "done"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How far one node is. `leaves`: it is to lose the bridge."""

    node: str
    stage: Stage
    leaves: bool = False
    actions: tuple[Action, ...] = ()
    waits: tuple[Wait, ...] = ()


def plan(snapshot: Snapshot) -> Plan:
    whole = _decided(snapshot)
    return _told(snapshot.object, whole) + whole


def _told(bridge: NodeBridge, whole: Plan) -> Plan:
    """Of as many nodes as the condition names: what it has no room for would be told again in each pass."""
    stuck = [wait for wait in whole.waits if wait.stalled]
    return trouble(bridge, bridge.status.conditions, Plan(waits=tuple(stuck[:WAITS_SHOWN_MAX])))


def _decided(snapshot: Snapshot) -> Plan:
    bridge = snapshot.object
    if snapshot.is_leaving and FINALIZER not in bridge.metadata.finalizers:
        return NOTHING
    if not snapshot.is_served and not snapshot.is_leaving:
        missing = NodeNetworkConfigurationPolicy.resource.plural_and_group
        message = f"this cluster does not serve {missing}: install NMState; Corral continues by itself after that"
        return _wait("NMStateMissing", message, stalled=True)
    every = tuple(changes(snapshot))
    if snapshot.is_leaving and not every:
        gone = "the bridge is gone from the nodes"
        leave = RemoveFinalizer(
            target=target(bridge), present=bridge.metadata.finalizers, finalizer=FINALIZER, message=gone
        )
        return Plan(actions=(leave,))
    if not snapshot.is_leaving and not chosen(snapshot):
        return _plan_of(snapshot, every) + _wait("NoSuchNodes", "no node has the labels of nodeSelector", stalled=True)
    return _plan_of(snapshot, every)


def chosen(snapshot: Snapshot) -> tuple[Node, ...]:
    return tuple(node for node in snapshot.nodes if _is_chosen(snapshot.object, node))


def _is_chosen(bridge: NodeBridge, node: Node) -> bool:
    return all(node.metadata.labels.get(key) == value for key, value in bridge.spec.node_selector.items())


def _wanted_by(snapshot: Snapshot, node: Node) -> tuple[NodeBridge, ...]:
    """Other NodeBridges that want the bridge on this node, the oldest first."""
    staying = (other for other in snapshot.others if other.metadata.deletion_timestamp is None)
    return tuple(sorted((other for other in staying if _is_chosen(other, node)), key=_age))


def _age(bridge: NodeBridge) -> tuple[datetime, str]:
    return (bridge.metadata.creation_timestamp or datetime.max.replace(tzinfo=UTC), bridge.metadata.name)


def changes(snapshot: Snapshot) -> Iterator[Change]:
    nodes = {node.metadata.name: node for node in snapshot.nodes}
    stay = () if snapshot.is_leaving else tuple(node.metadata.name for node in chosen(snapshot))
    yield from (_arrival(snapshot, nodes[name]) for name in sorted(stay))
    for found in snapshot.policies:
        name = node_of(found)
        if is_controlled_by(found, snapshot.object) and found.metadata.deletion_timestamp is None and name not in stay:
            yield _departure(snapshot, nodes.get(name), found)


def _arrival(snapshot: Snapshot, node: Node) -> Change:
    bridge, name = snapshot.object, node.metadata.name
    state, there = snapshot.state(name), snapshot.policy(name)
    others = _wanted_by(snapshot, node)
    if others and _age(others[0]) < _age(bridge):
        return _taken(snapshot, name, there, others[0])
    if wait := danger(node, state, bridge.spec.port):
        return Change(node=name, stage=Stage.HELD, waits=(wait,))  # a policy that is there is left as it is
    todo = children(bridge, [policy(bridge, node, "up")], [there] if there else [])
    if there is None or todo.actions or todo.waits:
        return Change(node=name, stage=Stage.TO_DO, actions=todo.actions, waits=todo.waits)
    if refused := _refusal(there, "do it, and took it back"):
        return Change(node=name, stage=Stage.REFUSED, waits=(refused,))
    found = found_on(bridge, state)
    done = _says(there, "Available") and found is not None and is_as_asked(bridge, found)
    return Change(node=name, stage=Stage.DONE if done else Stage.UNDER_WAY)


def _taken(snapshot: Snapshot, name: str, there: NodeNetworkConfigurationPolicy | None, holder: NodeBridge) -> Change:
    """Two policies would take each other's port away for ever, so ours goes, if there is one."""
    bridge = snapshot.object
    owner = f"bridge {bridge.spec.bridge_name} of node {name} belongs to NodeBridge {holder.metadata.name}"
    wait = Wait(reason="BridgeTaken", message=f"{owner}; choose another bridgeName, or other nodes", stalled=True)
    ours = there is not None and is_controlled_by(there, bridge) and there.metadata.deletion_timestamp is None
    away = (Delete(target=target(there), reason="BridgeTaken", message=owner),) if there is not None and ours else ()
    return Change(node=name, stage=Stage.HELD, actions=away, waits=(wait,))


def _departure(snapshot: Snapshot, node: Node | None, there: NodeNetworkConfigurationPolicy) -> Change:
    bridge, name = snapshot.object, node_of(there)
    if node is not None and (others := _wanted_by(snapshot, node)):
        why = f"NodeBridge {others[0].metadata.name} wants the bridge, so it stays"
        away = Delete(target=target(there), reason="BridgeStays", message=why)
        return Change(node=name, stage=Stage.DONE, leaves=True, actions=(away,))
    todo = children(bridge, [policy(bridge, node, "absent")], [there]).actions if node else ()
    if says_so := tuple(action for action in todo if isinstance(action, Apply)):
        return Change(node=name, stage=Stage.TO_DO, leaves=True, actions=says_so)
    if node is None or found_on(bridge, snapshot.state(name)) is None:
        why = "the node has no such bridge any more" if node else "the node is gone"
        away = Delete(target=target(there), reason="BridgeGone", message=why)
        return Change(node=name, stage=Stage.DONE, leaves=True, actions=(away,))
    if refused := _refusal(there, "take the bridge away"):
        return Change(node=name, stage=Stage.REFUSED, leaves=True, waits=(refused,))
    return Change(node=name, stage=Stage.UNDER_WAY, leaves=True)


def _says(found: NodeNetworkConfigurationPolicy, what: str) -> bool:
    condition = condition_of(found.status.conditions, what)
    return condition is not None and condition.status == "True"


def _refusal(found: NodeNetworkConfigurationPolicy, what: str) -> Wait | None:
    if not _says(found, "Degraded"):
        return None
    condition = condition_of(found.status.conditions, "Degraded")
    said = condition.message if condition else ""
    message = f"NMState could not {what} on node {node_of(found)}: {said}"
    return Wait(reason="NodesRefused", message=message, stalled=True)


def _plan_of(snapshot: Snapshot, every: tuple[Change, ...]) -> Plan:
    waits = [wait for change in every for wait in change.waits]
    coming = [c.node for c in every if not c.leaves and c.stage in (Stage.TO_DO, Stage.UNDER_WAY) and not c.waits]
    going = [c.node for c in every if c.leaves and c.stage in (Stage.TO_DO, Stage.UNDER_WAY)]
    if coming:
        message = f"NMState changes the nodes; without the bridge yet: {', '.join(coming)}"
        waits.append(Wait(reason="NodesChanging", message=message))
    if going:
        message = f"waiting until NMState has taken the bridge away from {', '.join(going)}"
        waits.append(Wait(reason="Deleting" if snapshot.is_leaving else "NodesLeaving", message=message))
    actions = tuple(action for change in _allowed(snapshot, every) for action in change.actions)
    return Plan(actions=actions, waits=tuple(waits))


def _allowed(snapshot: Snapshot, every: tuple[Change, ...]) -> Iterator[Change]:
    """As many nodes at a time as may be changed; what is done needs only to be put away."""
    count = snapshot.object.spec.max_unavailable
    total = len(chosen(snapshot))
    most = max(resolve_percentage(count if count.endswith("%") else int(count), total, round_up=True), 1)
    room = most - sum(change.stage is Stage.UNDER_WAY for change in every)
    is_refused = any(change.stage is Stage.REFUSED and not change.leaves for change in every)
    for change in every:
        if change.stage in (Stage.DONE, Stage.HELD):
            yield change
        elif change.stage is Stage.TO_DO and change.actions and room > 0 and (change.leaves or not is_refused):
            room -= 1
            yield change


def _wait(reason: str, message: str, *, stalled: bool = False) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, stalled=stalled),))


def later(snapshot: Snapshot) -> Plan:
    """Of every node that is chosen; where none is known, of one that stands for them all."""
    nodes: Iterable[Node] = chosen(snapshot) or (Node(metadata=ObjectMeta(name="NODE")),)
    return children(snapshot.object, [policy(snapshot.object, node, "up") for node in nodes], [])


def report(snapshot: Snapshot, outcome: Outcome) -> NodeBridgeStatus:
    bridge = snapshot.object
    said = verdict(outcome, ready_message="every node has the bridge")
    return NodeBridgeStatus(
        observed_generation=bridge.metadata.generation,
        nodes=tuple(sorted(c.node for c in changes(snapshot) if c.stage is Stage.DONE and not c.leaves)),
        conditions=conditions(bridge, bridge.status.conditions, said, snapshot.now),
    )
