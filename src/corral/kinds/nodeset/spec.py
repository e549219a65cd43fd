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
    """A partition with these nodes, named like the NodeSet."""

    enabled: bool = False
    config: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=r"^[^\r\n]*$",
            description="More settings of the partition, e.g. MaxTime=1-0 Default=YES",
        ),
    ] = ""


class Window(Model, frozen=True, kw_only=True):
    """When workers may be replaced. A Slurm reservation lets no job start that would run into it."""

    start: datetime
    duration: Annotated[Duration, Meta(max_length=32, description="No worker is replaced after that.")] = "1h"

    @property
    def end(self) -> datetime:
        return self.start + parse_duration(self.duration)

    def is_open(self, now: datetime) -> bool:
        return self.start <= now < self.end


class Update(Model, frozen=True, kw_only=True):
    """How workers are replaced when their definition changes. A worker is always drained first."""

    strategy: Annotated[
        Literal["RollingUpdate", "OnDelete"],
        Meta(description="OnDelete: Corral replaces none; a worker whose pod is deleted comes back up to date."),
    ] = "RollingUpdate"
    max_unavailable: Annotated[
        IntOrString,
        Meta(description="How many workers may be unavailable at a time: 2 or 10%. Not those somebody else drained."),
    ] = 1
    max_surge: Annotated[
        IntOrString,
        Meta(description="How many extra workers may run meanwhile, so that new ones start before old ones stop."),
    ] = 0
    partition: Annotated[
        int, Meta(ge=0, le=10000, description="Only workers with this ordinal or a higher one are replaced.")
    ] = 0
    paused: Annotated[bool, Meta(description="While true, no worker is replaced.")] = False
    window: Annotated[
        Window | None,
        Meta(description="Replace workers only then, all at once when the first is up; a reservation keeps jobs away."),
    ] = None
    history: Annotated[int, Meta(ge=0, le=100, description="How many old revisions to keep.")] = 10


class ClaimMeta(Model, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    labels: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY
    annotations: Annotated[Mapping[str, str], Meta(max_length=64)] = EMPTY


class ClaimTemplate(Model, frozen=True, kw_only=True):
    """A volume for each worker; slurmd.volumeMounts refers to it by this name."""

    metadata: ClaimMeta
    spec: Annotated[Overrides, Meta(description="Any fields of a PersistentVolumeClaimSpec.")]


class ClaimRetention(Model, frozen=True, kw_only=True):
    """What happens to the claims of workers on scale-in, and when the NodeSet is deleted."""

    when_scaled: Literal["Retain", "Delete"] = "Retain"
    when_deleted: Literal["Retain", "Delete"] = "Retain"


@rules(
    rule(
        "self.scalingMode != 'DaemonSet' || (self.update.partition == 0 && self.update.maxSurge == 0)",
        "update.partition and update.maxSurge need scalingMode StatefulSet: otherwise each node has one worker",
    )
)
class NodeSetSpec(Model, frozen=True, kw_only=True):
    controller_ref: Annotated[Ref, rule("self == oldSelf", "controllerRef cannot change: create another NodeSet")]
    scaling_mode: Annotated[
        Literal["StatefulSet", "DaemonSet"],
        Meta(
            description="StatefulSet: `replicas` workers with ordinals. DaemonSet: one on each Kubernetes node that "
            "template.spec fits (nodeSelector, affinity, tolerations); replicas and ordinals are ignored. "
            "After a change, the old workers are replaced as `update` says."
        ),
    ] = "StatefulSet"
    replicas: Replicas = 1
    ordinal_padding: Annotated[int, Meta(ge=0, le=9, description="Digits of the ordinal: with 3, gpu-007.")] = 0
    reserve_ordinals: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=999_999_999)], ...],
        Meta(max_length=1000, description="Ordinals to skip; a worker that has one is drained and removed."),
    ] = ()
    pin_to_node: Annotated[
        bool,
        Meta(
            description="A worker always runs on the Kubernetes node that it first ran on, and waits while that is "
            "cordoned or not ready. It may move when that node is gone or no longer fits."
        ),
    ] = False
    volume_claim_templates: Annotated[
        tuple[ClaimTemplate, ...],
        Meta(max_length=16, description="Changes of their spec apply only to claims created later."),
        rule(
            "self.map(one, one.metadata.name) == oldSelf.map(one, one.metadata.name)",
            "the names of volumeClaimTemplates cannot change: create another NodeSet",
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
            description="More settings of the Slurm node: Weight=10 Features=a100 Gres=gpu:2. A label or annotation of "
            "the worker's Kubernetes node in braces is replaced by its value: Topology=default:{example.com/rack}",
        ),
        rule(
            "!self.matches('(?i)(^|[ ])gres=([^ ]*,)?[{]')",
            "write out the type of a Gres; only what follows can come from the Kubernetes node: gpu:{...}",
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
                description="Delete a worker WITH ITS JOBS when Corral has drained it for so long. Default: never.",
            ),
        ]
        | None
    ) = None
    suspend: Annotated[bool, Meta(description="While true, Corral changes nothing; a deletion still works.")] = False

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
        str, Meta(max_length=65536, description="Ordinals of the desired workers; a replaced worker keeps its own.")
    ] = ""
    ordinal_to_node: Annotated[
        Mapping[str, str], Meta(description="The Kubernetes nodes that workers are pinned to.")
    ] = EMPTY
    lost_drains: Annotated[
        Mapping[str, str],
        Meta(description="Drains by somebody else that slurmctld lost, with their reasons; they are restored."),
    ] = EMPTY
    external: Annotated[bool, Meta(description="slurmctld runs elsewhere; kept after the Controller is deleted.")] = (
        False
    )


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
    """A group of Slurm nodes: pods that register themselves and are drained before they are removed."""

    spec: NodeSetSpec
    status: NodeSetStatus = NodeSetStatus()
