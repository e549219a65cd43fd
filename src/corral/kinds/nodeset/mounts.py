"""What a worker's pod mounts and others make: the cluster's key, its people, its /home. Pure.

A pod that is made before them waits for kubelet, which looks again after up to 16 s; so they are waited for here.
"""

from collections.abc import Iterable

from corral.engine import Reader, Wait
from corral.kinds import identity, names
from corral.kinds.controller.spec import Controller
from corral.kinds.keys import missing, slurm_key_of
from corral.kube.meta import ObjectRef
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Secret


def absent(controller: Controller, read: Reader) -> tuple[ObjectRef, ...]:
    return tuple(_absent(controller, read))


def waits(absent: Iterable[ObjectRef]) -> tuple[Wait, ...]:
    """With the reason that follows when the pods are there: a moment in between is not worth a status of its own."""
    return tuple(
        Wait(reason="WorkersNotReady", message=f"waiting for {one}, which its pods mount", on=one) for one in absent
    )


def is_mounted(kind: str, name: str, controller: Controller) -> bool:
    """Whether the workers of that Controller mount the object of that name."""
    return any(one.kind == kind and one.name == name for one in _mounted(controller))


def _absent(controller: Controller, read: Reader) -> Iterable[ObjectRef]:
    namespace, key = controller.metadata.namespace, slurm_key_of(controller)
    for one in _mounted(controller):
        match one.kind:
            case "Secret":
                is_there = not missing(key, namespace, read.get(Secret, one.name, namespace))
            case "ConfigMap":
                is_there = read.get(ConfigMap, one.name, namespace) is not None
            case _:
                is_there = read.get(PersistentVolumeClaim, one.name, namespace) is not None
        if not is_there:
            yield one


def _mounted(controller: Controller) -> Iterable[ObjectRef]:
    """Not a claim that the user made: only ours are watched."""
    namespace, cluster = controller.metadata.namespace, controller.metadata.name
    yield ObjectRef("Secret", namespace, slurm_key_of(controller).name)
    if controller.spec.identity != identity.NOBODY:
        yield ObjectRef("ConfigMap", namespace, names.identity_name(cluster))
    home = controller.spec.home
    if home is not None and not home.existing_claim:
        yield ObjectRef("PersistentVolumeClaim", namespace, names.home_name(cluster))
