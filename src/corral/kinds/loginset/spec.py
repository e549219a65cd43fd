"""LoginSet: nodes that people log in to by ssh, and submit jobs from."""

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


class LoginSetSpec(Model, frozen=True, kw_only=True):
    controller_ref: Annotated[Ref, rule("self == oldSelf", "controllerRef cannot change: create another LoginSet")]
    replicas: Replicas = 1
    version: Annotated[SlurmVersion | None, Meta(description="Default: the Controller's.")] = None
    login: Annotated[Overrides, Meta(description="The container of sshd and of the users' shells.")] = EMPTY
    sackd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    strategy: Annotated[Overrides, Meta(description="How the Deployment replaces pods.")] = EMPTY
    service: ServiceTemplate = ServiceTemplate()
    host_keys_ref: Annotated[
        Ref | None, Meta(description="A Secret with ssh_host_*_key; default: generated once and kept.")
    ] = None
    root_ssh_authorized_keys: Annotated[
        str, Meta(max_length=65536, description="Lines of authorized_keys for root; default: root cannot log in.")
    ] = ""
    extra_sshd_config: Annotated[
        str, Meta(max_length=65536, description="Lines for sshd_config; they override Corral's.")
    ] = ""
    profile: Annotated[
        str, Meta(max_length=65536, description="Commands that every login shell runs: aliases, modules, a greeting.")
    ] = ""
    suspend: Annotated[bool, Meta(description="While true, Corral changes nothing.")] = False


class LoginSetStatus(BasicStatus, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    selector: Annotated[str, Meta(max_length=1024)] = ""
    host_keys: Annotated[
        tuple[str, ...], Meta(max_length=16, description="Fingerprints, as ssh shows them at the first login.")
    ] = ()


@kind(
    group=GROUP,
    version=VERSION,
    plural="loginsets",
    short_names=("lss", "sackd"),
    categories=CATEGORIES,
    scale=Scale(selector=".status.selector"),
    columns=(
        Column("Desired", "integer", ".spec.replicas"),
        Column("Up", "integer", ".status.readyReplicas"),
    ),
)
class LoginSet(Object, frozen=True, kw_only=True):
    """Login nodes of one Controller: sshd, sackd, and the users that the Controller lists."""

    spec: LoginSetSpec
    status: LoginSetStatus = LoginSetStatus()
