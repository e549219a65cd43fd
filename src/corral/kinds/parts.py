"""Parts that several kinds share: references, and how a user changes the pods and services that we make.

Overrides are open maps (any PodSpec, Container or ServiceSpec), merged over ours by `corral.kinds.overrides`; a value
that is given counts, also when it is false, 0 or empty.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from corral.kube.meta import EMPTY, Condition, Model
from corral.kube.values import Json

GROUP = "slurm.corral.dev"
VERSION = "v1alpha1"
CATEGORIES = ("corral", "slurm")

Name = Annotated[str, Meta(min_length=1, max_length=253)]
ShortText = Annotated[str, Meta(max_length=1024)]
Replicas = Annotated[int, Meta(ge=0, le=10000)]
Port = Annotated[int, Meta(ge=1, le=65535)]

SlurmVersion = Annotated[
    Literal["24.11", "26.05"], Meta(description="Version of Slurm; selects the image, unless a container sets its own.")
]

Overrides = Annotated[Mapping[str, Json], Meta(description="Any fields of the object; they override what Corral sets.")]


class Ref(Model, frozen=True, kw_only=True):
    """An object of the same namespace, by name."""

    name: Name


class KeyRef(Model, frozen=True, kw_only=True):
    """A key of a Secret or ConfigMap of the same namespace."""

    name: Name
    key: Annotated[str, Meta(min_length=1, max_length=253)]


class PodTemplate(Model, frozen=True, kw_only=True):
    """Changes to the pods that Corral creates."""

    labels: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    annotations: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    spec: Overrides = EMPTY


class ServiceTemplate(Model, frozen=True, kw_only=True):
    """Changes to the Service that Corral creates."""

    labels: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    annotations: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    spec: Overrides = EMPTY
    port: Port | None = None
    node_port: Port | None = None


class External(Model, frozen=True, kw_only=True):
    """A daemon that runs elsewhere, not managed by Corral."""

    host: Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:_-]+$")]
    port: Port


class Volume(Model, frozen=True, kw_only=True):
    """A volume that keeps a daemon's state."""

    existing_claim: Annotated[str, Meta(max_length=253, description="Use this claim; default: Corral creates one.")] = (
        ""
    )
    storage_class_name: Annotated[str, Meta(max_length=253, description="Empty: the default class.")] = ""
    size: Annotated[str, Meta(max_length=32, description="Size of the new claim, as a quantity.")] = "4Gi"
    access_modes: Annotated[tuple[str, ...], Meta(max_length=4)] = ("ReadWriteOnce",)


class BasicStatus(Model, frozen=True, kw_only=True):
    """What the status of every kind has."""

    observed_generation: int = -1
    conditions: Annotated[tuple[Condition, ...], Meta(max_length=32)] = ()
