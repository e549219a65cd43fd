"""NodeSet: a group of Slurm nodes, each a pod that Corral owns directly."""

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
    version: Annotated[SlurmVersion | None, Meta(description="Default: the Controller's.")] = None
    slurmd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    extra_conf: Annotated[
        str,
        Meta(
            max_length=4096,
            pattern=r"^[^\r\n\"\\]*$",
            description="More of the node's own line: Weight=10 Features=a100 Gres=gpu:2",
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
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away.")] = False

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
