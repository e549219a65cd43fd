"""Revisions of a NodeSet: what its workers are made from, under a short name that each pod carries. Pure.

A revision is a digest of what people say about the pods (and of the version of Slurm), not of the pods themselves: a
new Corral that makes pods a little differently replaces none. Each is kept as a ControllerRevision, so that a worker
can be made again as it was, and people can see and take back what they changed.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from corral.engine.differences import digest
from corral.kinds import names, versions
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.parts import Overrides, PodTemplate, SlurmVersion
from corral.kube.meta import EMPTY, Model, ObjectMeta
from corral.kube.models.apps_v1 import ControllerRevision
from corral.kube.models.core_v1 import Pod
from corral.kube.values import Json

DIGITS = 10


class Made(Model, frozen=True, kw_only=True):
    """What a worker is made from: fields of the spec, under their names there."""

    version: str = ""
    slurmd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    extra_conf: str = ""


class Make(NamedTuple):
    """What distinguishes pods of one NodeSet as far as a rollout goes; thousands of pods are of a few makes."""

    revision: str | None  # None: from before there were revisions
    version: str | None
    stands_for_machine: bool


_make = lru_cache(maxsize=1024)(Make)  # one value for all that are alike


def make_of(pod: Pod) -> Make:
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    return _make(labels.get(names.REVISION_LABEL), labels.get(versions.LABEL), bool(annotations.get(names.MACHINE)))


def version_step(nodeset: NodeSet, controller: Controller) -> versions.Step:
    return versions.beside(controller, nodeset.spec.version, "workers")


def made_from(nodeset: NodeSet, controller: Controller) -> Made:
    fields = {field.name: getattr(nodeset.spec, field.name) for field in msgspec.structs.fields(Made)}
    return Made(**{**fields, "version": version_step(nodeset, controller).version})


def revision_of(nodeset: NodeSet, controller: Controller) -> str:
    return digest(said(made_from(nodeset, controller)))[:DIGITS]


def said(value: Model) -> Json:
    """Without what says nothing: `slurmd: {}` is no other wish than none, and replaces no worker."""
    told = [(field, getattr(value, field.name)) for field in msgspec.structs.fields(value)]
    return {
        field.encode_name: said(found) if isinstance(found, Model) else msgspec.to_builtins(found)
        for field, found in told
        if found != field.default
    }


def is_outdated(make: Make, revision: str, version: str) -> bool:
    """A pod from before there were revisions is told by its version alone."""
    if make.revision is None:
        return make.version not in (None, version)
    return make.revision != revision


def kept(
    nodeset: NodeSet, controller: Controller, known: Iterable[ControllerRevision], pods: Iterable[Pod]
) -> tuple[ControllerRevision, ...]:
    """The present one, those that pods were made from, and the newest of the others; oldest first."""
    there = sorted(known, key=lambda one: (one.revision, one.metadata.name))
    present = names.revision_name(nodeset.metadata.name, revision_of(nodeset, controller))
    made_from_these = {pod.metadata.labels.get(names.REVISION_LABEL, "") for pod in pods}
    in_use = {names.revision_name(nodeset.metadata.name, revision) for revision in made_from_these}
    others = [one for one in there if one.metadata.name not in in_use | {present}]
    old = {one.metadata.name for one in others[: max(0, len(others) - nodeset.spec.update.history)]}
    stay = [one for one in there if one.metadata.name not in old]
    if any(one.metadata.name == present for one in there):
        return tuple(stay)
    number = max((one.revision for one in there), default=0) + 1
    data = said(made_from(nodeset, controller))
    labels = {**names.labels("slurmd", nodeset.metadata.name), names.REVISION_LABEL: revision_of(nodeset, controller)}
    new = ControllerRevision(metadata=ObjectMeta(name=present, labels=labels), data=data, revision=number)
    return (*stay, new)


def before(nodeset: NodeSet, controller: Controller, known: Iterable[ControllerRevision]) -> NodeSet:
    """The NodeSet as it was in the newest revision that is not the present one; itself, if there is none."""
    present = names.revision_name(nodeset.metadata.name, revision_of(nodeset, controller))
    older = [one for one in known if one.metadata.name != present]
    newest = max(older, key=lambda one: (one.revision, one.metadata.name), default=None)
    return nodeset if newest is None else as_of(nodeset, newest) or nodeset


def as_of(nodeset: NodeSet, revision: ControllerRevision) -> NodeSet | None:
    """The NodeSet with workers as they were made in that revision; None if we cannot read what it keeps."""
    try:
        was = msgspec.convert(revision.data, Made)
        version = msgspec.convert(was.version, SlurmVersion)
    except msgspec.ValidationError:
        return None
    spec = msgspec.structs.replace(nodeset.spec, **{**msgspec.structs.asdict(was), "version": version})
    return msgspec.structs.replace(nodeset, spec=spec)
