"""The people of a Controller's cluster and their /home: one ConfigMap for all pods, one claim. Pure but for `seen`."""

from collections.abc import Iterable

import msgspec

from corral.engine import NOTHING, Create, Plan, Reader, Wait, children
from corral.kinds import home, identity, names
from corral.kinds.controller.spec import Controller
from corral.kinds.parts import Ref
from corral.kube.meta import Object, ObjectRef
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Pod


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    config_map: ConfigMap | None = None  # whatever stands under the name of ours
    given: ConfigMap | None = None  # what spec.identity.filesRef names
    claim: PersistentVolumeClaim | None = None


def seen(controller: Controller, read: Reader) -> Seen:
    name, namespace = controller.metadata.name, controller.metadata.namespace
    given = controller.spec.identity.files_ref
    return Seen(
        config_map=read.get(ConfigMap, names.identity_name(name), namespace),
        given=read.get(ConfigMap, given.name, namespace) if given else None,
        claim=read.get(PersistentVolumeClaim, names.home_name(name), namespace),
    )


def references(controller: Controller) -> Iterable[Ref]:
    given = controller.spec.identity.files_ref
    return (given,) if given else ()


def is_theirs(child: Object, controller: Controller) -> bool:
    """It is decided on here, and the configuration's plan leaves it alone."""
    return isinstance(child, ConfigMap) and child.metadata.name == names.identity_name(controller.metadata.name)


def plan(controller: Controller, found: Seen, pod: Pod | None) -> Plan:
    return _home(controller, found) + _people(controller, found, pod)


def _people(controller: Controller, found: Seen, pod: Pod | None) -> Plan:
    given, name = controller.spec.identity.files_ref, controller.metadata.name
    if given is not None and found.given is None:
        on = ObjectRef("ConfigMap", controller.metadata.namespace, given.name)
        message = f"waiting for {on}, which spec.identity.filesRef names"
        return Plan(waits=(Wait(reason="PeopleMissing", message=message, on=on),))
    try:
        content = identity.files(controller.spec.identity, found.given)
    except identity.BadIdentity as error:
        stays = "; the last valid users stay" if found.config_map else ""
        return Plan(waits=(Wait(reason="IdentityInvalid", message=f"{error}{stays}", stalled=True),))
    before = found.config_map
    wanted = identity.config_map(name, content, before, pods_exist=pod is not None)
    desired = () if controller.spec.identity == identity.NOBODY else (wanted,)
    made = children(controller, desired, (before,) if before else ())
    if made.actions or pod is None or before is None:
        return made
    return made + Plan(actions=identity.refresh(pod, before))


def _home(controller: Controller, found: Seen) -> Plan:
    wanted, meta = controller.spec.home, controller.metadata
    if wanted is None or wanted.existing_claim or found.claim is not None:
        return NOTHING
    claim = home.claim(meta.name, wanted)
    here = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, namespace=meta.namespace))
    return Plan(actions=(Create(object=here, reason="Missing", message="the claim for /home does not exist yet"),))
