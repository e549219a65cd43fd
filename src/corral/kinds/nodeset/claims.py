"""Volumes that workers keep: a claim for each template and worker, `<template>-<worker>`. Pure.

A worker that comes back under its name finds its claims again, after a rollout, a cordon or a lost node. They outlive
it unless `persistentVolumeClaimRetentionPolicy` says Delete: `whenScaled` for workers that are no longer desired,
`whenDeleted` for a deleted NodeSet. Claims have no owner, so that nothing but this deletes them.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from corral.engine import NOTHING, Action, Create, Delete, Plan, target
from corral.kinds import names
from corral.kinds.nodeset.spec import ClaimTemplate, NodeSet
from corral.kinds.nodeset.workers import Worker
from corral.kinds.overrides import overridden
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PodSpec,
    Volume,
)


def missing(nodeset: NodeSet, workers: Iterable[str], there: Sequence[PersistentVolumeClaim]) -> Plan:
    """Claims that are needed by pods to be created. Raises BadOverride."""
    known = {claim.metadata.name for claim in there}
    made = (_claim(nodeset, template, worker) for worker in workers for template in nodeset.spec.volume_claim_templates)
    message = "the worker's volume does not exist yet"
    return Plan(
        actions=tuple(
            Create(object=claim, reason="ClaimMissing", message=message)
            for claim in made
            if claim.metadata.name not in known
        )
    )


def going(nodeset: NodeSet, worker: str, there: Sequence[PersistentVolumeClaim]) -> bool:
    """Whether a claim of this worker is being deleted: its pod is not created before it is gone."""
    ours = set(claim_names(nodeset, worker))
    return any(one.metadata.deletion_timestamp is not None for one in there if one.metadata.name in ours)


def scaled_in(
    nodeset: NodeSet,
    lasting: Callable[[], Iterable[str]],
    there: Sequence[PersistentVolumeClaim],
    known: Iterable[Worker],
) -> Plan:
    """`lasting`: workers that are desired, or will be again. A claim is not deleted before its pod is gone."""
    if nodeset.spec.persistent_volume_claim_retention_policy.when_scaled != "Delete" or not there:
        return NOTHING
    pods = (worker.name for worker in known if worker.pod is not None)
    kept = {name for worker in (*lasting(), *pods) for name in claim_names(nodeset, worker)}
    return Plan(actions=_deleted(there, kept, "its worker was scaled in, and whenScaled is Delete"))


def farewell(nodeset: NodeSet, there: Sequence[PersistentVolumeClaim]) -> tuple[Action, ...]:
    if nodeset.spec.persistent_volume_claim_retention_policy.when_deleted != "Delete":
        return ()
    return _deleted(there, frozenset(), "its NodeSet is being deleted, and whenDeleted is Delete")


def claim_names(nodeset: NodeSet, worker: str) -> tuple[str, ...]:
    return tuple(names.claim_name(template.metadata.name, worker) for template in nodeset.spec.volume_claim_templates)


def with_claims(spec: PodSpec, nodeset: NodeSet, worker: str) -> PodSpec:
    """They replace volumes of the same name, as in StatefulSets."""
    ours = {template.metadata.name: _volume(template, worker) for template in nodeset.spec.volume_claim_templates}
    others = tuple(volume for volume in spec.volumes if volume.name not in ours)
    return msgspec.structs.replace(spec, volumes=(*others, *ours.values()))


def _deleted(there: Sequence[PersistentVolumeClaim], kept: Iterable[str], message: str) -> tuple[Action, ...]:
    stay = frozenset(kept)
    gone = [one for one in there if one.metadata.name not in stay and one.metadata.deletion_timestamp is None]
    return tuple(Delete(target=target(one), reason="ClaimNotKept", message=message) for one in gone)


def _claim(nodeset: NodeSet, template: ClaimTemplate, worker: str) -> PersistentVolumeClaim:
    theirs, name = template.metadata, nodeset.metadata.name
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=names.claim_name(theirs.name, worker),
            namespace=nodeset.metadata.namespace,
            labels={**theirs.labels, **names.labels("slurmd", name), names.NODESET_LABEL: names.worker_stem(name)},
            annotations=theirs.annotations,
        ),
        spec=overridden(
            PersistentVolumeClaimSpec(), template.spec, what=f"spec.volumeClaimTemplates[{theirs.name}].spec"
        ),
    )


def _volume(template: ClaimTemplate, worker: str) -> Volume:
    name = template.metadata.name
    source = PersistentVolumeClaimVolumeSource(claim_name=names.claim_name(name, worker))
    return Volume(name=name, persistent_volume_claim=source)
