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
from corral.kube.crd import Column, kind, rule, rules
from corral.kube.meta import EMPTY, Model, Object
from corral.kube.values import Duration

Refs = Annotated[tuple[Ref, ...], Meta(max_length=32)]


class Metrics(Model, frozen=True, kw_only=True):
    enabled: bool = False
    service_monitor: Annotated[bool, Meta(description="Make a ServiceMonitor, where the kind exists.")] = True
    interval: Annotated[str, Meta(max_length=16)] = "30s"


class KeyRotation(Model, frozen=True, kw_only=True):
    """Raise a counter, and a new key takes the place of the generated one. Jobs go on."""

    slurm: Annotated[
        int,
        Meta(ge=0, le=1000000, description="Both keys count until every daemon has the new one."),
        rule("self >= oldSelf", "rotations are counted up"),
    ] = 0
    jwt: Annotated[
        int,
        Meta(ge=0, le=1000000, description="Only one key counts: every token is signed anew."),
        rule("self >= oldSelf", "rotations are counted up"),
    ] = 0
    overlap: Annotated[
        Duration,
        Meta(max_length=32, description="How long what the old slurm key signed counts; credentials live two minutes."),
    ] = "2m30s"


@rules(
    rule("!has(self.slurmKeyRef) || self.keyRotation.slurm == 0", "slurmKeyRef is your key: rotate it in your Secret"),
    rule("!has(self.jwtKeyRef) || self.keyRotation.jwt == 0", "jwtKeyRef is your key: change it in your Secret"),
    rule(
        "!has(self.external) || (has(self.slurmKeyRef) && has(self.jwtKeyRef))",
        "a slurmctld that runs elsewhere has keys already: name them with slurmKeyRef and jwtKeyRef",
    ),
    rule(
        "has(self.service.port) == has(oldSelf.service.port) && "
        "(!has(self.service.port) || self.service.port == oldSelf.service.port)",
        "service.port cannot change: running workers know slurmctld by the port they started with",
    ),
)
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
    jwks_key_ref: Annotated[
        KeyRef | None, Meta(description="In a ConfigMap: a JWKS whose keys' RS256 tokens are accepted too.")
    ] = None
    key_rotation: KeyRotation = KeyRotation()
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
    confine_jobs: Annotated[
        bool,
        Meta(description="Jobs get no more memory and devices than they asked for. Workers need a writable cgroup v2."),
        rule("self == oldSelf", "a slurmd of a running worker would not survive it: make another Controller"),
    ] = False
    identity: Identity = Identity()
    home: Annotated[Home | None, Meta(description="The /home of login nodes and workers; default: none.")] = None
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away.")] = False


class KeysStatus(Model, frozen=True, kw_only=True):
    """How many rotations are complete, and where the slurm key's is."""

    slurm: int = 0
    jwt: int = 0
    slurm_stage: Annotated[str, Meta(max_length=32)] = ""


class DaemonsStatus(Model, frozen=True, kw_only=True):
    """How many daemons of a kind run the desired configuration, do not, or do not say."""

    yes: int = 0
    no: int = 0
    unknown: int = 0


class ControllerStatus(BasicStatus, frozen=True, kw_only=True):
    config_desired: Annotated[str, Meta(max_length=64, description="Digest of the desired configuration.")] = ""
    config_running: Annotated[str, Meta(max_length=64, description="Digest of the running configuration.")] = ""
    slurm_version: Annotated[str, Meta(max_length=32, description="What the running slurmctld says it is.")] = ""
    daemons: Annotated[Mapping[str, DaemonsStatus], Meta(max_length=8, description="Who runs it, by daemon.")] = EMPTY
    keys: KeysStatus = KeysStatus()
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
