"""What a worker's pod mounts and others create: the cluster's key, its users, its /home. Pure.

If a pod is created before them, kubelet retries only after up to 16 s; so we wait for them first.
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
    """With the same reason as the wait that follows, so that the status does not change for a moment."""
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
    """Without a claim of the user: only ours are watched."""
    namespace, cluster = controller.metadata.namespace, controller.metadata.name
    yield ObjectRef("Secret", namespace, slurm_key_of(controller).name)
    if controller.spec.identity != identity.NOBODY:
        yield ObjectRef("ConfigMap", namespace, names.identity_name(cluster))
    home = controller.spec.home
    if home is not None and not home.existing_claim:
        yield ObjectRef("PersistentVolumeClaim", namespace, names.home_name(cluster))
