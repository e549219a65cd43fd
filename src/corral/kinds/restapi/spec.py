"""RestApi: slurmrestd, the door by which programs speak to a Slurm cluster."""

from typing import Annotated

from msgspec import Meta

from corral.kinds.parts import (
    CATEGORIES,
    GROUP,
    VERSION,
    BasicStatus,
    Overrides,
    PodTemplate,
    Ref,
    Replicas,
    ServiceTemplate,
    SlurmVersion,
)
from corral.kube.crd import Column, Scale, kind, rule
from corral.kube.meta import EMPTY, Model, Object


class Tls(Model, frozen=True, kw_only=True):
    """A proxy beside slurmrestd that speaks TLS; without it the API is plain HTTP."""

    secret_ref: Annotated[
        Ref,
        Meta(description="A Secret with tls.crt and tls.key, read again on change; ca.crt: the CA that clients trust."),
    ]


class RestApiSpec(Model, frozen=True, kw_only=True):
    controller_ref: Annotated[Ref, rule("self == oldSelf", "controllerRef cannot change: create another RestApi")]
    replicas: Replicas = 1
    version: Annotated[SlurmVersion | None, Meta(description="Default: the Controller's.")] = None
    tls: Tls | None = None
    slurmrestd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    service: ServiceTemplate = ServiceTemplate()
    suspend: Annotated[bool, Meta(description="While true, Corral changes nothing.")] = False


class RestApiStatus(BasicStatus, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    selector: Annotated[str, Meta(max_length=1024)] = ""


@kind(
    group=GROUP,
    version=VERSION,
    plural="restapis",
    short_names=("slurmrestd",),
    categories=CATEGORIES,
    scale=Scale(selector=".status.selector"),
    columns=(
        Column("Desired", "integer", ".spec.replicas"),
        Column("Up", "integer", ".status.readyReplicas"),
    ),
)
class RestApi(Object, frozen=True, kw_only=True):
    """slurmrestd of one Controller: JWT only, no key, unprivileged."""

    spec: RestApiSpec
    status: RestApiStatus = RestApiStatus()
