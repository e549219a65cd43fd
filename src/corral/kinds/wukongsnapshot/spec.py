"""WukongSnapshot: the disks of a Wukong as they were at one moment."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from corral.kinds.parts import BasicStatus
from corral.kinds.wukong.spec import CATEGORIES, GROUP, VERSION
from corral.kube.crd import UNIQUE, Column, kind, rule, rules
from corral.kube.meta import Model, Object
from corral.kube.values import Duration

Phase = Literal["Pending", "Creating", "Succeeded", "Failed"]


@rules(
    rule(
        "has(self.disks) == has(oldSelf.disks) && (!has(self.disks) || self.disks == oldSelf.disks)",
        "what a snapshot is of is decided once; make another one",
    ),
)
class WukongSnapshotSpec(Model, frozen=True, kw_only=True):
    wukong_name: Annotated[
        str,
        Meta(min_length=1, max_length=50, description="The Wukong, of this namespace."),
        rule("self == oldSelf", "a snapshot is of one Wukong; make another one"),
    ]
    disks: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=63)], ...],
        UNIQUE,
        Meta(max_length=32, description="Only these. Default: the whole machine, quiesced by its guest agent."),
    ] = ()
    volume_snapshot_class_name: Annotated[
        str, Meta(max_length=253, description="Of snapshots of single disks. Default: the cluster's default class.")
    ] = ""
    failure_deadline: Annotated[
        Annotated[Duration, Meta(max_length=16)],
        Meta(description="How long it may be tried, from when it could begin. 0: for ever."),
    ] = "5m"


class DiskSnapshot(Model, frozen=True, kw_only=True):
    """A disk that is in it, and the VolumeSnapshot that holds it: a source for disks of other Wukongs."""

    name: str
    volume_snapshot_name: str


class WukongSnapshotStatus(BasicStatus, frozen=True, kw_only=True):
    """`begunAt` is when everything that it needs was there: `failureDeadline` counts from then.

    `lost`: it was taken, and what holds it is not there any more; it is good again if that is found after all.
    """

    phase: Phase | None = None
    snapshot_name: str = ""
    begun_at: datetime | None = None
    creation_time: datetime | None = None
    error: str = ""
    lost: bool = False
    indications: tuple[str, ...] = ()
    included_volumes: tuple[str, ...] = ()
    excluded_volumes: tuple[str, ...] = ()
    disks: tuple[DiskSnapshot, ...] = ()


@kind(
    group=GROUP,
    version=VERSION,
    plural="wukongsnapshots",
    short_names=("wks",),
    categories=CATEGORIES,
    columns=(
        Column("Wukong", "string", ".spec.wukongName"),
        Column("Phase", "string", ".status.phase"),
        Column("Taken", "date", ".status.creationTime"),
        Column("LeftOut", "string", ".status.excludedVolumes", priority=1),
    ),
)
class WukongSnapshot(Object, frozen=True, kw_only=True):
    """The disks of a Wukong as they were at one moment."""

    spec: WukongSnapshotSpec
    status: WukongSnapshotStatus = WukongSnapshotStatus()
