"""What to do for a Wukong's NetworkAttachmentDefinitions: its own, those it names, and those that others name. Pure.

One that a Wukong made is its child. Others may name it (`nadName`): when its Wukong no longer wants it, it becomes the
child of the next one that does, and the last one takes it along. One that people made is nobody's child, and is never
changed or deleted.
"""

from collections.abc import Iterable, Sequence

import msgspec

from corral.engine import NOTHING, Action, Delete, Patch, Plan, Wait, children, controller_reference, is_controlled_by
from corral.engine import target as target_of
from corral.kinds.wukong import names
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.facts import Snapshot, missing_networks
from corral.kinds.wukong.networks import attachment_of, networks_of, own_attachments
from corral.kinds.wukong.spec import Wukong


def networks(snapshot: Snapshot) -> Plan:
    wukong = snapshot.object
    if NetworkAttachmentDefinition in snapshot.absent:
        return NOTHING
    desired = tuple(own_attachments(wukong))
    asked = {attachment.metadata.name for attachment in desired}
    ours = children(wukong, desired, [a for a in snapshot.attachments if a.metadata.name in asked])
    # One that the machine still has is not taken from under it.
    unwanted = [a for a in owned(snapshot) if a.metadata.name not in _named(wukong) | snapshot.networks_in_use]
    message = "no network of this Wukong needs it any more"
    left = Plan(actions=tuple(let_go(snapshot, unwanted, reason="NoLongerDesired", message=message)))
    return ours + left + Plan(waits=tuple(_waits(snapshot)))


def owned(snapshot: Snapshot) -> list[NetworkAttachmentDefinition]:
    return [a for a in snapshot.attachments if is_controlled_by(a, snapshot.object)]


def let_go(
    snapshot: Snapshot, unwanted: Iterable[NetworkAttachmentDefinition], *, reason: str, message: str
) -> Iterable[Action]:
    """Each goes to the first of the others that name it; without any, it is deleted."""
    for attachment in unwanted:
        heirs = snapshot.sharers.get(attachment.metadata.name, ())
        if heirs:
            yield _handed_over(attachment, heirs)
        elif attachment.metadata.deletion_timestamp is None:
            yield Delete(target=target_of(attachment), reason=reason, message=message)


def _handed_over(attachment: NetworkAttachmentDefinition, heirs: Sequence[Wukong]) -> Patch:
    heir = min(heirs, key=lambda wukong: wukong.metadata.name)
    metadata = {
        "ownerReferences": [msgspec.to_builtins(controller_reference(heir))],
        "labels": {names.WUKONG_LABEL: heir.metadata.name},
    }
    message = f"Wukong {heir.metadata.name} uses the network too, and becomes its owner"
    return Patch(target=target_of(attachment), merge={"metadata": metadata}, reason="NetworkShared", message=message)


def _named(wukong: Wukong) -> frozenset[str]:
    return frozenset(attachment_of(wukong, network) for network in networks_of(wukong))


def _waits(snapshot: Snapshot) -> Iterable[Wait]:
    wukong = snapshot.object
    for network in missing_networks(snapshot):
        if network.nad_name is not None:
            where = f"{wukong.metadata.namespace}/{attachment_of(wukong, network)}"
            message = f"network {network.name}: waiting for NetworkAttachmentDefinition {where}"
            yield Wait(reason="NetworkMissing", message=message)
