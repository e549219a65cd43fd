"""NodeSet: a group of Slurm nodes, each a pod that Corral owns directly."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

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
    SlurmVersion,
)
from corral.kube.crd import Column, Scale, kind, rule, rules
from corral.kube.meta import EMPTY, Model, Object
from corral.kube.values import Duration, IntOrString, parse_duration


class Partition(Model, frozen=True, kw_only=True):
    """A partition of these nodes, named as the NodeSet."""

    enabled: bool = False
    config: Annotated[
        str, Meta(max_length=4096, pattern=r"^[^\r\n]*$", description="More of its line: MaxTime=1-0 Default=YES")
    ] = ""


class Window(Model, frozen=True, kw_only=True):
    """When workers are replaced. Slurm reserves their nodes for it, and its scheduler empties them by then."""

    start: datetime
    duration: Annotated[Duration, Meta(max_length=32, description="After it, none is replaced any more.")] = "1h"

    @property
    def end(self) -> datetime:
        return self.start + parse_duration(self.duration)

    def is_open(self, now: datetime) -> bool:
        return self.start <= now < self.end


class Update(Model, frozen=True, kw_only=True):
    """How workers are replaced when what they are made from changes. A worker is drained first, always."""

    strategy: Annotated[
        Literal["RollingUpdate", "OnDelete"],
        Meta(description="OnDelete: none is replaced; one that goes for another reason comes back as asked for."),
    ] = "RollingUpdate"
    max_unavailable: Annotated[
        IntOrString, Meta(description="How many may be missing at a time, whatever the reason: 2 or 10%.")
    ] = 1
    max_surge: Annotated[
        IntOrString, Meta(description="How many more there may be meanwhile, so that new ones come before old ones go.")
    ] = 0
    partition: Annotated[
        int, Meta(ge=0, le=10000, description="Only workers with this ordinal or a higher one are replaced.")
    ] = 0
    paused: Annotated[bool, Meta(description="Replace none for now.")] = False
    window: Annotated[
        Window | None,
        Meta(description="Replace only then, and then all at once: a maintenance reservation keeps jobs away."),
    ] = None
    history: Annotated[int, Meta(ge=0, le=100, description="How many old revisions are kept.")] = 10


class ClaimMeta(Model, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    labels: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    annotations: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY


class ClaimTemplate(Model, frozen=True, kw_only=True):
    """A volume that each worker has of its own; slurmd.volumeMounts says where, by this name."""

    metadata: ClaimMeta
    spec: Annotated[Overrides, Meta(description="Any fields of a PersistentVolumeClaimSpec.")]


class ClaimRetention(Model, frozen=True, kw_only=True):
    """What becomes of workers' claims when they are not asked for any more, and when the NodeSet goes."""

    when_scaled: Literal["Retain", "Delete"] = "Retain"
    when_deleted: Literal["Retain", "Delete"] = "Retain"


@rules(
    rule(
        "self.scalingMode != 'DaemonSet' || (self.update.partition == 0 && self.update.maxSurge == 0)",
        "update.partition and update.maxSurge are of scalingMode StatefulSet: a Kubernetes node has one worker",
    )
)
class NodeSetSpec(Model, frozen=True, kw_only=True):
    controller_ref: Annotated[Ref, rule("self == oldSelf", "a NodeSet stays with its Controller; make another one")]
    scaling_mode: Annotated[
        Literal["StatefulSet", "DaemonSet"],
        Meta(
            description="StatefulSet: `replicas` workers, by ordinals. DaemonSet: one on each Kubernetes node that "
            "template.spec fits (nodeSelector, affinity, tolerations); replicas and ordinals have no meaning then. "
            "Workers of the other mode are replaced as `update` says."
        ),
    ] = "StatefulSet"
    replicas: Replicas = 1
    ordinal_padding: Annotated[int, Meta(ge=0, le=9, description="Digits of the ordinal: 3 makes gpu-007.")] = 0
    reserve_ordinals: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=999_999_999)], ...],
        Meta(max_length=1000, description="Ordinals that are never made; a worker that has one is drained and goes."),
    ] = ()
    pin_to_node: Annotated[
        bool,
        Meta(
            description="A worker comes back to the Kubernetes node that it was on first, and waits for it while it is "
            "cordoned or not ready. It is free again when that node is gone or no longer fits."
        ),
    ] = False
    volume_claim_templates: Annotated[
        tuple[ClaimTemplate, ...],
        Meta(max_length=16, description="A change of their spec is for claims that are made later."),
        rule(
            "self.map(one, one.metadata.name) == oldSelf.map(one, one.metadata.name)",
            "workers have the volumes that they were made with; make another NodeSet",
        ),
    ] = ()
    persistent_volume_claim_retention_policy: ClaimRetention = ClaimRetention()
    version: Annotated[SlurmVersion | None, Meta(description="Default: the Controller's.")] = None
    slurmd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    extra_conf: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=r"^[^\r\n\"\\]*$",
            description="More of the node's own line: Weight=10 Features=a100 Gres=gpu:2. A label or annotation of the "
            "Kubernetes node below in braces is replaced by what it says: Topology=default:{example.com/rack}",
        ),
        rule(
            "!self.matches('(?i)(^|[ ])gres=([^ ]*,)?[{]')",
            "the type of a Gres must be spelled, only what follows it can be asked of the Kubernetes node: gpu:{...}",
        ),
    ] = ""
    partition: Partition = Partition()
    update: Update = Update()
    force_drain_after_seconds: (
        Annotated[
            int,
            Meta(
                ge=60,
                le=31_536_000,
                description="Delete a worker whose drain by Corral has lasted so long, WITH ITS JOBS. Default: never.",
            ),
        ]
        | None
    ) = None
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away, or it is deleted.")] = False

    @property
    def is_per_machine(self) -> bool:
        return self.scaling_mode == "DaemonSet"


class NodeSetStatus(BasicStatus, frozen=True, kw_only=True):
    desired: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    selector: Annotated[str, Meta(max_length=1024)] = ""
    idle: int = 0
    allocated: int = 0
    draining: int = 0
    down: int = 0
    updated_replicas: int = 0
    reservation: Annotated[str, Meta(max_length=253)] = ""
    revision: Annotated[str, Meta(max_length=63)] = ""
    ordinals: Annotated[
        str, Meta(max_length=65536, description="Those that are asked for: a worker that is made again has its own.")
    ] = ""
    ordinal_to_node: Annotated[Mapping[str, str], Meta(description="Where workers are pinned to.")] = EMPTY
    lost_drains: Annotated[
        Mapping[str, str],
        Meta(description="Workers that somebody had drained when slurmctld lost them: they are drained again so."),
    ] = EMPTY
    external: Annotated[
        bool, Meta(description="Its slurmctld runs elsewhere. It stays so when the Controller goes.")
    ] = False


@kind(
    group=GROUP,
    version=VERSION,
    plural="nodesets",
    short_names=("nss", "slurmd"),
    categories=CATEGORIES,
    scale=Scale(selector=".status.selector"),
    columns=(
        Column("Desired", "integer", ".status.desired"),
        Column("Up", "integer", ".status.readyReplicas"),
        Column("Idle", "integer", ".status.idle"),
        Column("Alloc", "integer", ".status.allocated"),
        Column("Drain", "integer", ".status.draining"),
        Column("Down", "integer", ".status.down"),
    ),
)
class NodeSet(Object, frozen=True, kw_only=True):
    """A group of Slurm nodes: pods that register by themselves and are drained before they go."""

    spec: NodeSetSpec
    status: NodeSetStatus = NodeSetStatus()
