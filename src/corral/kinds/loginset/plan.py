"""Decide what to do about one LoginSet: its objects, and who is told that the mounted files changed.

A frozen Snapshot goes in, a Plan comes out. What the pods need and the Controller makes is waited for: kubelet would
find it late. While the Controller is gone, what runs goes on as it is.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from corral.engine import NOTHING, Once, Outcome, Plan, Wait, children, conditions, verdict
from corral.engine.status import SUSPENDED
from corral.kinds import identity, keys, names
from corral.kinds.controller.spec import Controller
from corral.kinds.loginset import hostkeys, render
from corral.kinds.loginset.spec import LoginSet, LoginSetStatus
from corral.kinds.overrides import BadOverride
from corral.kinds.telling import trouble
from corral.kinds.workloads import availability, replicas, selector_text
from corral.kube.meta import EMPTY, Object, ObjectRef
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret


class FreshKeys(msgspec.Struct, frozen=True):
    """Host keys for a LoginSet that has none yet; drawn when observing, since a plan draws nothing."""

    data: Mapping[str, bytes] = EMPTY

    def __repr__(self) -> str:
        return "FreshKeys(...)"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: LoginSet
    now: datetime
    controller: Controller | None = None
    slurm_key: Secret | None = None
    people: ConfigMap | None = None
    host_keys: Secret | None = None
    fresh_keys: FreshKeys = FreshKeys()
    children: tuple[Object, ...] = ()  # ours, and whatever stands under a name that ours should have
    deployment: Deployment | None = None
    pods: tuple[Pod, ...] = ()


def plan(snapshot: Snapshot) -> Plan:
    loginset, controller = snapshot.object, snapshot.controller
    if loginset.metadata.deletion_timestamp is not None or loginset.spec.suspend:
        return NOTHING
    if controller is None:
        on = ObjectRef("Controller", loginset.metadata.namespace, loginset.spec.controller_ref.name)
        return _waiting("ControllerMissing", f"waiting for {on}, which the login nodes need", on)
    waits = tuple(_needed(snapshot, controller))
    if waits:
        return Plan(waits=waits)
    try:
        made = children(loginset, _desired(snapshot, controller), snapshot.children)
    except BadOverride as error:
        stuck = Plan(waits=(Wait(reason="BadOverride", message=str(error), stalled=True),))
        return trouble(loginset, loginset.status.conditions, stuck) + stuck
    turn = Plan(waits=render.version_step(loginset, controller).waits)
    return made + turn if made.actions else made + _told(snapshot) + _available(snapshot) + turn


def report(snapshot: Snapshot, outcome: Outcome) -> LoginSetStatus:
    loginset = snapshot.object
    there, ready = replicas(snapshot.deployment)
    said = SUSPENDED if loginset.spec.suspend else verdict(outcome, ready_message="sshd and sackd are ready")
    return LoginSetStatus(
        observed_generation=loginset.metadata.generation,
        conditions=conditions(loginset, loginset.status.conditions, said, snapshot.now),
        replicas=there,
        ready_replicas=ready,
        selector=selector_text(render.selector(loginset)),
        host_keys=hostkeys.fingerprints(snapshot.host_keys.data) if snapshot.host_keys else (),
    )


def _needed(snapshot: Snapshot, controller: Controller) -> Iterable[Wait]:
    namespace, loginset = snapshot.object.metadata.namespace, snapshot.object
    key = keys.slurm_key_of(controller)
    if missing := keys.missing(key, namespace, snapshot.slurm_key):
        on = ObjectRef("Secret", namespace, key.name)
        yield Wait(reason="KeyMissing", message=f"waiting for {missing}, the cluster's key", on=on)
    if snapshot.people is None and controller.spec.identity != identity.NOBODY:
        on = ObjectRef("ConfigMap", namespace, names.identity_name(controller.metadata.name))
        yield Wait(reason="PeopleMissing", message=f"waiting for {on}, which the Controller creates", on=on)
    given = loginset.spec.host_keys_ref
    if given is not None and (snapshot.host_keys is None or not hostkeys.has_private_key(snapshot.host_keys.data)):
        on = ObjectRef("Secret", namespace, given.name)
        message = f"waiting for {on} with at least one key ssh_host_*_key"
        yield Wait(reason="HostKeysMissing", message=message, on=on)


def _desired(snapshot: Snapshot, controller: Controller) -> Iterable[Object | Once]:
    """In the order in which they are made: a pod finds all that it mounts."""
    loginset = snapshot.object
    if loginset.spec.host_keys_ref is None:
        yield Once(render.host_keys(loginset, snapshot.fresh_keys.data))
    yield render.config_map(loginset, controller)
    yield render.service(loginset)
    yield render.deployment(loginset, controller)


def _told(snapshot: Snapshot) -> Plan:
    """New people can come in at once, not when kubelet looks by itself, a minute later."""
    people = snapshot.people
    if people is None:
        return NOTHING
    return Plan(actions=tuple(action for pod in snapshot.pods for action in identity.refresh(pod, people)))


def _available(snapshot: Snapshot) -> Plan:
    return availability(snapshot.deployment, snapshot.object.spec.replicas, snapshot.pods)


def _waiting(reason: str, message: str, on: ObjectRef) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message, on=on),))
