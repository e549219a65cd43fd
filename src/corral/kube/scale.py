"""The scale subresource, the same for every kind that has one (autoscaling/v1)."""

from typing import ClassVar

from corral.kube.meta import Model, Object, Resource


class ScaleSpec(Model, frozen=True, kw_only=True):
    replicas: int = 0


class ScaleStatus(Model, frozen=True, kw_only=True):
    replicas: int = 0
    selector: str = ""


class Scale(Object, frozen=True, kw_only=True):
    """Its metadata are those of the object that is scaled, so a Precondition of one guards the other."""

    resource: ClassVar[Resource] = Resource("autoscaling", "v1", "Scale", "scales", namespaced=True)
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
