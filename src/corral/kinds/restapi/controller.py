"""The RestApi's controller: slurmrestd in a Deployment, in line with its Controller and that one's Accounting."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from corral.engine import (
    NOTHING,
    Controller,
    Key,
    KindController,
    Outcome,
    Plan,
    Reader,
    Wait,
    children,
    conditions,
    verdict,
)
from corral.engine.controller import generation_changed
from corral.engine.status import SUSPENDED
from corral.kinds import keys, names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.overrides import BadOverride
from corral.kinds.parts import KeyRef
from corral.kinds.restapi.render import objects, selector, version_step
from corral.kinds.restapi.spec import RestApi, RestApiStatus
from corral.kinds.telling import trouble
from corral.kinds.versions import spec_or_version_changed
from corral.kinds.workloads import availability, replicas, selector_text
from corral.kube.meta import Object, ObjectRef, ref
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import ConfigMap, Secret, Service


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: RestApi
    now: datetime
    controller: SlurmController | None = None
    accounting: Accounting | None = None
    certificate: Secret | None = None
    children: tuple[Object, ...] = ()
    deployment: Deployment | None = None


class RestApiReconciler:
    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        restapi = read.get(RestApi, key.name, key.namespace)
        if restapi is None:
            return None
        controller = read.get(SlurmController, restapi.spec.controller_ref.name, key.namespace)
        accounting_ref = controller.spec.accounting_ref if controller is not None else None
        return Snapshot(
            object=restapi,
            now=read.now,
            controller=controller,
            accounting=read.get(Accounting, accounting_ref.name, key.namespace) if accounting_ref else None,
            certificate=read.get(Secret, restapi.spec.tls.secret_ref.name, key.namespace) if restapi.spec.tls else None,
            children=_children(restapi, read),
            deployment=read.get(Deployment, names.restapi_name(key.name), key.namespace),
        )

    def plan(self, snapshot: Snapshot, /) -> Plan:
        restapi, controller = snapshot.object, snapshot.controller
        if restapi.metadata.deletion_timestamp is not None or restapi.spec.suspend:
            return NOTHING
        if controller is None:
            return _waiting("Controller", restapi.spec.controller_ref.name, restapi)
        if controller.spec.accounting_ref is not None and snapshot.accounting is None:
            return _waiting("Accounting", controller.spec.accounting_ref.name, restapi)
        if absent := missing_certificate(restapi, snapshot.certificate):
            on = ObjectRef("Secret", restapi.metadata.namespace, absent.name)
            what = keys.missing(absent, restapi.metadata.namespace, snapshot.certificate)
            return Plan(waits=(Wait(reason="CertificateMissing", message=f"waiting for {what}", on=on),))
        try:
            desired = objects(restapi, controller, snapshot.accounting)
        except BadOverride as error:
            stuck = Plan(waits=(Wait(reason="BadOverride", message=str(error), stalled=True),))
            return trouble(restapi, restapi.status.conditions, stuck) + stuck
        made = children(restapi, desired, snapshot.children)
        turn = Plan(waits=version_step(restapi, controller).waits)
        return made + turn if made.actions else made + availability(snapshot.deployment, restapi.spec.replicas) + turn

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> RestApiStatus:
        restapi = snapshot.object
        there, ready = replicas(snapshot.deployment)
        said = SUSPENDED if restapi.spec.suspend else verdict(outcome, ready_message="slurmrestd answers")
        return RestApiStatus(
            observed_generation=restapi.metadata.generation,
            conditions=conditions(restapi, restapi.status.conditions, said, snapshot.now),
            replicas=there,
            ready_replicas=ready,
            selector=selector_text(selector(restapi)),
        )


def missing_certificate(restapi: RestApi, secret: Secret | None) -> KeyRef | None:
    if restapi.spec.tls is None:
        return None
    name, namespace = restapi.spec.tls.secret_ref.name, restapi.metadata.namespace
    refs = (KeyRef(name=name, key=key) for key in (names.TLS_CERT, names.TLS_KEY))
    return next((one for one in refs if keys.missing(one, namespace, secret)), None)


def _waiting(kind: str, name: str, restapi: RestApi) -> Plan:
    """What runs already goes on as it is."""
    on = ObjectRef(kind, restapi.metadata.namespace, name)
    message = f"waiting for {on}, which slurmrestd needs"
    return Plan(waits=(Wait(reason=f"{kind}Missing", message=message, on=on),))


def _children(restapi: RestApi, read: Reader) -> tuple[Object, ...]:
    """Ours, and whatever stands under a name that ours should have."""
    name, namespace = names.restapi_name(restapi.metadata.name), restapi.metadata.namespace
    found: dict[ObjectRef, Object] = {}
    for kind in (ConfigMap, Service, Deployment):
        here: tuple[Object, ...] = read.owned(kind, restapi)
        there = read.get(kind, name, namespace)
        found |= {ref(obj): obj for obj in (*here, *((there,) if there is not None else ()))}
    return tuple(found.values())


def restapis_of(controller: SlurmController, read: Reader) -> Iterable[Key]:
    where = (controller.metadata.namespace, controller.metadata.name)
    return [Key(r.metadata.namespace, r.metadata.name) for r in read.by_index(RestApi, "controller", where)]


def restapis_with(accounting: Accounting, read: Reader) -> Iterable[Key]:
    where = (accounting.metadata.namespace, accounting.metadata.name)
    for controller in read.by_index(SlurmController, "accounting", where):
        yield from restapis_of(controller, read)


def restapis_certified_by(secret: Secret, read: Reader) -> Iterable[Key]:
    where = (secret.metadata.namespace, secret.metadata.name)
    return [Key(r.metadata.namespace, r.metadata.name) for r in read.by_index(RestApi, "certificate", where)]


def _certificate_of(restapi: RestApi) -> Iterable[tuple[str, str]]:
    return ((restapi.metadata.namespace, restapi.spec.tls.secret_ref.name),) if restapi.spec.tls else ()


def _controller_of(restapi: RestApi) -> Iterable[tuple[str, str]]:
    return ((restapi.metadata.namespace, restapi.spec.controller_ref.name),)


def _accounting_of(controller: SlurmController) -> Iterable[tuple[str, str]]:
    accounting = controller.spec.accounting_ref
    return ((controller.metadata.namespace, accounting.name),) if accounting else ()


def restapi_controller() -> Controller[RestApi, Snapshot]:
    return (
        Controller.for_(RestApi, RestApiReconciler())
        .owns(ConfigMap)
        .owns(Service)
        .owns(Deployment)
        .watches(SlurmController, to=restapis_of, when=spec_or_version_changed)
        .watches(Accounting, to=restapis_with, when=generation_changed)
        .watches(Secret, to=restapis_certified_by)
        .indexes(RestApi, "controller", _controller_of)
        .indexes(RestApi, "certificate", _certificate_of)
        .indexes(SlurmController, "accounting", _accounting_of)
    )


KINDS = (KindController(RestApi, restapi_controller),)
