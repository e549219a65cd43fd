"""Controller: slurmctld with its keys, its configuration and its state."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from corral.kinds.home import Home
from corral.kinds.identity import Identity
from corral.kinds.parts import (
    CATEGORIES,
    GROUP,
    VERSION,
    BasicStatus,
    External,
    KeyRef,
    Overrides,
    PodTemplate,
    Ref,
    ServiceTemplate,
    SlurmVersion,
    Volume,
)
from corral.kube.crd import Column, kind, rule
from corral.kube.meta import EMPTY, Model, Object

Refs = Annotated[tuple[Ref, ...], Meta(max_length=32)]


class Metrics(Model, frozen=True, kw_only=True):
    enabled: bool = False
    service_monitor: Annotated[bool, Meta(description="Make a ServiceMonitor, where the kind exists.")] = True
    interval: Annotated[str, Meta(max_length=16)] = "30s"


class ControllerSpec(Model, frozen=True, kw_only=True):
    version: Annotated[
        SlurmVersion, rule("self >= oldSelf", "slurmctld's state was converted to the newer version; no way back")
    ] = "26.05"
    cluster_name: Annotated[
        str,
        Meta(max_length=40, pattern=r"^[a-z0-9_-]*$", description="Slurm's ClusterName; default: namespace_name."),
        rule("self == oldSelf", "the state directory is bound to the cluster's name, which cannot change"),
    ] = ""
    slurm_key_ref: Annotated[KeyRef | None, Meta(description="The key of auth/slurm; default: generated once.")] = None
    jwt_key_ref: Annotated[KeyRef | None, Meta(description="The key that signs JWTs; default: generated once.")] = None
    accounting_ref: Annotated[Ref | None, Meta(description="The Accounting that records this cluster's jobs.")] = None
    external: Annotated[External | None, Meta(description="slurmctld runs elsewhere; nothing is run here.")] = None
    slurmctld: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    service: ServiceTemplate = ServiceTemplate()
    persistence: Volume = Volume()
    extra_conf: Annotated[str, Meta(max_length=262144, description="More lines for slurm.conf.")] = ""
    config_file_refs: Annotated[Refs, Meta(description="ConfigMaps whose keys are files beside slurm.conf.")] = ()
    prolog_script_refs: Refs = ()
    epilog_script_refs: Refs = ()
    prolog_slurmctld_script_refs: Refs = ()
    epilog_slurmctld_script_refs: Refs = ()
    metrics: Metrics = Metrics()
    identity: Identity = Identity()
    home: Annotated[Home | None, Meta(description="The /home of login nodes and workers; default: none.")] = None
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away.")] = False


class ControllerStatus(BasicStatus, frozen=True, kw_only=True):
    config_desired: Annotated[str, Meta(max_length=64, description="Digest of the desired configuration.")] = ""
    config_running: Annotated[str, Meta(max_length=64, description="Digest of the running configuration.")] = ""
    slurm_version: Annotated[str, Meta(max_length=32, description="What the running slurmctld says it is.")] = ""
    references: Annotated[Mapping[str, str], Meta(max_length=64, description="Digests of what is referred to.")] = EMPTY


@kind(
    group=GROUP,
    version=VERSION,
    plural="controllers",
    short_names=("slurmctld",),
    categories=CATEGORIES,
    columns=(
        Column("Slurm", "string", ".status.slurmVersion"),
        Column("Config", "string", '.status.conditions[?(@.type=="ConfigApplied")].status'),
    ),
)
class Controller(Object, frozen=True, kw_only=True):
    """A Slurm cluster's controller: slurmctld, its keys, its configuration, its state."""

    spec: ControllerSpec = ControllerSpec()
    status: ControllerStatus = ControllerStatus()
