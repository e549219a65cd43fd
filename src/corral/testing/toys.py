"""A toy kind for tests of the engine and of what stands on it: small, but with every feature that a kind can have.

A Toy has `copies` ConfigMaps with its greeting, one Secret that is made once and never changed, and waits for the
ConfigMap `source` if it names one, whose text it then appends. Deleting it says goodbye first (a finalizer).
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from corral.engine import (
    NOTHING,
    Controller,
    Delete,
    EmitEvent,
    Key,
    KindController,
    Once,
    Outcome,
    Plan,
    Reader,
    RemoveFinalizer,
    Status,
    Wait,
    children,
    target,
)
from corral.kube.crd import kind
from corral.kube.meta import Model, Object, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Secret

GOODBYE = "toys.test.corral.dev/goodbye"


class ToySpec(Model, frozen=True, kw_only=True):
    greeting: str = "hello"
    copies: int = 1
    source: str = ""


class ToyStatus(Status, frozen=True, kw_only=True):
    copies: int = 0


@kind(group="test.corral.dev", version="v1", plural="toys", short_names=("ty",))
class Toy(Object, frozen=True, kw_only=True):
    """Something small to try the engine on."""

    spec: ToySpec = ToySpec()
    status: ToyStatus = ToyStatus()


class ToySnapshot(msgspec.Struct, frozen=True):
    object: Toy
    now: datetime
    copies: tuple[ConfigMap, ...] = ()
    secrets: tuple[Secret, ...] = ()
    source: ConfigMap | None = None


class ToyReconciler:
    async def observe(self, key: Key, read: Reader) -> ToySnapshot | None:
        toy = read.get(Toy, key.name, key.namespace)
        if toy is None:
            return None
        return ToySnapshot(
            object=toy,
            now=read.now,
            copies=read.owned(ConfigMap, toy),
            secrets=read.owned(Secret, toy),
            source=read.get(ConfigMap, toy.spec.source, key.namespace) if toy.spec.source else None,
        )

    def plan(self, snapshot: ToySnapshot, /) -> Plan:
        toy = snapshot.object
        if toy.metadata.deletion_timestamp is not None:
            return farewell(snapshot)
        if toy.spec.source and snapshot.source is None:
            message = f"waiting for ConfigMap {toy.metadata.namespace}/{toy.spec.source}"
            return Plan(waits=(Wait(reason="SourceMissing", message=message),))
        return children(toy, desired(toy, snapshot.source), (*snapshot.copies, *snapshot.secrets))

    def report(self, snapshot: ToySnapshot, outcome: Outcome, /) -> ToyStatus:
        return ToyStatus.of(snapshot, outcome, copies=len(snapshot.copies))


def desired(toy: Toy, source: ConfigMap | None = None) -> Iterable[ConfigMap | Once]:
    name, text = toy.metadata.name, toy.spec.greeting + (source.data.get("text", "") if source else "")
    for number in range(toy.spec.copies):
        yield ConfigMap(metadata=ObjectMeta(name=f"{name}-{number}"), data={"greeting": text})
    yield Once(Secret(metadata=ObjectMeta(name=f"{name}-token"), data={"token": toy.metadata.uid.encode()}))


def farewell(snapshot: ToySnapshot) -> Plan:
    """First the copies go, then the finalizer."""
    toy = snapshot.object
    if GOODBYE not in toy.metadata.finalizers:
        return NOTHING
    if snapshot.copies:
        here = [c for c in snapshot.copies if c.metadata.deletion_timestamp is None]
        return Plan(
            actions=tuple(Delete(target=target(c), reason="ToyDeleted", message="its toy goes") for c in here),
            waits=(Wait(reason="CopiesGoing", message=f"{len(snapshot.copies)} copies are still there"),),
        )
    goodbye = EmitEvent(regarding=target(toy), reason="Goodbye", message="all copies are gone")
    leave = RemoveFinalizer(target=target(toy), present=toy.metadata.finalizers, finalizer=GOODBYE)
    return Plan(actions=(goodbye, leave))


def source_of(toy: Toy) -> tuple[tuple[str, str], ...]:
    return ((toy.metadata.namespace, toy.spec.source),) if toy.spec.source else ()


def toys_with_source(source: ConfigMap, read: Reader) -> Iterable[Key]:
    where = (source.metadata.namespace, source.metadata.name)
    return [Key(toy.metadata.namespace, toy.metadata.name) for toy in read.by_index(Toy, "source", where)]


def toy_controller() -> Controller[Toy, ToySnapshot]:
    return (
        Controller.for_(Toy, ToyReconciler())
        .owns(ConfigMap)
        .owns(Secret)
        .watches(ConfigMap, to=toys_with_source)
        .indexes(Toy, "source", source_of)
        .finalizer(GOODBYE)
    )


KINDS = (KindController(Toy, toy_controller, ("ty",)),)
