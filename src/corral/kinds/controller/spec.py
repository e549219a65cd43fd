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
    service_monitor: Annotated[bool, Meta(description="Create a ServiceMonitor, if the cluster has that kind.")] = True
    interval: Annotated[str, Meta(max_length=16)] = "30s"


class KeyRotation(Model, frozen=True, kw_only=True):
    """Increase a counter to replace the generated key with a new one. Jobs keep running."""

    slurm: Annotated[
        int,
        Meta(ge=0, le=1000000, description="Both keys are valid until every daemon has the new one."),
        rule("self >= oldSelf", "this counter can only increase"),
    ] = 0
    jwt: Annotated[
        int,
        Meta(ge=0, le=1000000, description="Older tokens become invalid; Tokens are signed again."),
        rule("self >= oldSelf", "this counter can only increase"),
    ] = 0
    overlap: Annotated[
        Duration,
        Meta(
            max_length=32,
            description="How long signatures of the old slurm key stay valid; credentials live two minutes.",
        ),
    ] = "2m30s"


@rules(
    rule(
        "!has(self.slurmKeyRef) || self.keyRotation.slurm == 0",
        "keyRotation.slurm is for a generated key: change the key of slurmKeyRef in your Secret",
    ),
    rule(
        "!has(self.jwtKeyRef) || self.keyRotation.jwt == 0",
        "keyRotation.jwt is for a generated key: change the key of jwtKeyRef in your Secret",
    ),
    rule(
        "!has(self.external) || (has(self.slurmKeyRef) && has(self.jwtKeyRef))",
        "external needs slurmKeyRef and jwtKeyRef: the keys of the slurmctld that runs elsewhere",
    ),
    rule(
        "has(self.service.port) == has(oldSelf.service.port) && "
        "(!has(self.service.port) || self.service.port == oldSelf.service.port)",
        "service.port cannot change: running workers keep the port that they started with",
    ),
)
class ControllerSpec(Model, frozen=True, kw_only=True):
    version: Annotated[
        SlurmVersion,
        rule("self >= oldSelf", "slurmctld's state was converted to the newer version; a downgrade is not possible"),
    ] = "26.05"
    cluster_name: Annotated[
        str,
        Meta(max_length=40, pattern=r"^[a-z0-9_-]*$", description="Slurm's ClusterName; default: namespace_name."),
        rule("self == oldSelf", "clusterName cannot change: slurmctld's state belongs to this name"),
    ] = ""
    slurm_key_ref: Annotated[KeyRef | None, Meta(description="The key of auth/slurm; default: generated once.")] = None
    jwt_key_ref: Annotated[KeyRef | None, Meta(description="The key that signs JWTs; default: generated once.")] = None
    jwks_key_ref: Annotated[
        KeyRef | None, Meta(description="A JWKS in a ConfigMap: RS256 tokens signed by its keys are accepted too.")
    ] = None
    key_rotation: KeyRotation = KeyRotation()
    accounting_ref: Annotated[Ref | None, Meta(description="The Accounting that records this cluster's jobs.")] = None
    external: Annotated[External | None, Meta(description="Use a slurmctld that runs elsewhere; Corral runs none.")] = (
        None
    )
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
        rule(
            "self == oldSelf",
            "confineJobs cannot change later (running workers would break): create another Controller",
        ),
    ] = False
    identity: Identity = Identity()
    home: Annotated[Home | None, Meta(description="The /home of login nodes and workers; default: none.")] = None
    suspend: Annotated[bool, Meta(description="While true, Corral changes nothing.")] = False


class KeysStatus(Model, frozen=True, kw_only=True):
    """Completed rotations, and the stage of the slurm key's current one."""

    slurm: int = 0
    jwt: int = 0
    slurm_stage: Annotated[str, Meta(max_length=32)] = ""


class DaemonsStatus(Model, frozen=True, kw_only=True):
    """How many daemons run the desired configuration (yes), another one (no), or do not answer (unknown)."""

    yes: int = 0
    no: int = 0
    unknown: int = 0


class ControllerStatus(BasicStatus, frozen=True, kw_only=True):
    config_desired: Annotated[str, Meta(max_length=64, description="Digest of the desired configuration.")] = ""
    config_running: Annotated[str, Meta(max_length=64, description="Digest of the running configuration.")] = ""
    slurm_version: Annotated[
        str, Meta(max_length=32, description="The version that the running slurmctld reports.")
    ] = ""
    daemons: Annotated[
        Mapping[str, DaemonsStatus], Meta(max_length=8, description="Which daemons run the desired configuration.")
    ] = EMPTY
    keys: KeysStatus = KeysStatus()
    references: Annotated[
        Mapping[str, str],
        Meta(max_length=64, description="Digests of referenced ConfigMaps; resourceVersions of Secrets."),
    ] = EMPTY


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
