"""From a Wukong's disks to DataVolumes and claims, and how far each of them is. Pure.

Disks carry no owner reference: a person may delete a Wukong with `--cascade=foreground`, and a disk that is to be kept
must live through that. They are found by their names and labels, and go in the finalizer's time, after the machine.
"""

import enum
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api import cdi
from corral.kinds.wukong.api.cdi import DataSource, DataVolume, DataVolumeSpec
from corral.kinds.wukong.api.kubevirt import Present, condition_of
from corral.kinds.wukong.clones import NO_SOURCES, Name, followed
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_disks import ContainerDiskSource, DiskConfig, DiskSource, OtherSource, WebSource
from corral.kube.meta import EMPTY, Object, ObjectMeta
from corral.kube.models.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements
from corral.kube.models.storage_v1 import StorageClass

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
FIRST_CONSUMER = "WaitForFirstConsumer"
AWAITS_MACHINE = frozenset({FIRST_CONSUMER, "PendingPopulation"})  # phases in which CDI waits for the machine's pod


class State(enum.Enum):
    MISSING = "missing"
    TAKEN = "somebody else's"  # an object of that name is not ours
    GOING = "being deleted"
    ORPHANED = "left behind by its DataVolume"  # Kubernetes collects the claim, sooner or later
    FILLING = "being filled"
    UNBOUND = "without a volume"
    AWAITS_MACHINE = "waiting for its machine to start"
    READY = "ready"
    FAILED = "failed"


USABLE = frozenset({State.READY, State.AWAITS_MACHINE})
TO_BE_MADE = frozenset({State.MISSING, State.GOING, State.ORPHANED})  # now, or when what is left of it is gone


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """One disk of the spec and what there is of it."""

    config: DiskConfig
    name: str  # of its objects
    filling: DataVolumeSpec | None
    container: ContainerDiskSource | None
    data_volume: DataVolume | None
    claim: PersistentVolumeClaim | None
    storage_class: StorageClass | None
    state: State
    restored_from: str = ""  # the WukongSnapshot that a disk yet to be made is filled from

    @property
    def is_data_volume(self) -> bool:
        """Whether the machine names it as one; a disk from a snapshot is one, though its spec says nothing."""
        return self.filling is not None or self.data_volume is not None

    @property
    def needs_cdi(self) -> bool:
        return self.filling is not None and self.state in TO_BE_MADE

    @property
    def is_usable(self) -> bool:
        return self.state in USABLE

    @property
    def is_bound(self) -> bool:
        return self.container is not None or (self.claim is not None and self.claim.status.phase == "Bound")

    @property
    def missing_class(self) -> str:
        """The StorageClass that it waits for, if there is none of that name; a volume made by hand needs none."""
        claimed = self.claim.spec.storage_class_name if self.claim else None
        wanted = claimed or self.config.storage_class_name or ""
        return "" if self.storage_class is not None or self.is_bound else wanted

    @property
    def progress(self) -> str:
        """Of filling it, as CDI tells it: `42.1%`; empty when there is none to tell."""
        told = self.data_volume.status.progress if self.data_volume else ""
        return "" if told == "N/A" else told

    @property
    def trouble(self) -> str:
        """Why CDI cannot fill it, in its words."""
        conditions = self.data_volume.status.conditions if self.data_volume else ()
        running = condition_of(conditions, "Running")
        return running.message if running and running.status != "True" else ""


def disks_of(
    wukong: Wukong,
    data_volumes: Mapping[str, DataVolume],
    claims: Mapping[str, PersistentVolumeClaim],
    classes: tuple[StorageClass, ...],
    restored: Mapping[str, str] = EMPTY,
    data_sources: Mapping[Name, DataSource] = NO_SOURCES,
) -> tuple[Disk, ...]:
    """`restored`: disk -> the VolumeSnapshot that it is to be filled from."""
    found = (_disk(wukong, config, data_volumes, claims, classes, data_sources) for config in wukong.spec.disks)
    return tuple(
        _from_snapshot(wukong, disk, restored[disk.config.name]) if disk.config.name in restored else disk
        for disk in found
    )


def _from_snapshot(wukong: Wukong, disk: Disk, volume_snapshot: str) -> Disk:
    source = cdi.Source(snapshot=cdi.Elsewhere(name=volume_snapshot, namespace=wukong.metadata.namespace))
    spec = DataVolumeSpec(source=source, storage=_storage(disk.config))
    return msgspec.structs.replace(disk, filling=spec, restored_from=wukong.spec.restore_from_snapshot)


def _disk(
    wukong: Wukong,
    config: DiskConfig,
    data_volumes: Mapping[str, DataVolume],
    claims: Mapping[str, PersistentVolumeClaim],
    classes: tuple[StorageClass, ...],
    data_sources: Mapping[Name, DataSource],
) -> Disk:
    name = names.disk_name(wukong.metadata.name, config.name)
    data_volume, claim = data_volumes.get(name), claims.get(name)
    container = config.source.container_disk if config.source else None
    wanted = claim.spec.storage_class_name if claim and claim.spec.storage_class_name else config.storage_class_name
    storage_class = class_called(wanted, classes)
    state = State.READY if container else _state(wukong, data_volume, claim, storage_class)
    return Disk(
        config=config,
        name=name,
        filling=None if container else filling(wukong, config, data_sources),
        container=container,
        data_volume=data_volume,
        claim=claim,
        storage_class=storage_class,
        state=state,
    )


def is_of(wukong: Wukong, obj: Object) -> bool:
    return obj.metadata.labels.get(names.WUKONG_LABEL) == wukong.metadata.name


def is_disk_of(wukong: Wukong, obj: Object) -> bool:
    """By the name too: a person may have put our label on a backup of a disk, and we delete what is ours."""
    disk = obj.metadata.labels.get(names.DISK_LABEL, "")
    known = {names.disk_name(wukong.metadata.name, name) for name in (disk, *(d.name for d in wukong.spec.disks))}
    return is_of(wukong, obj) and obj.metadata.name in known


def _state(
    wukong: Wukong,
    data_volume: DataVolume | None,
    claim: PersistentVolumeClaim | None,
    storage_class: StorageClass | None,
) -> State:
    if data_volume is None and claim is None:
        return State.MISSING
    made_by_cdi = data_volume is not None and claim is not None and _controls(data_volume, claim)
    if data_volume is not None and not is_of(wukong, data_volume):
        return State.TAKEN
    if claim is not None and not is_of(wukong, claim) and not made_by_cdi:
        return State.TAKEN
    if any(obj is not None and obj.metadata.deletion_timestamp is not None for obj in (data_volume, claim)):
        return State.GOING
    if data_volume is not None:
        return _state_by_cdi(data_volume, claim)
    if claim is not None and _is_controlled_by_cdi(claim):
        return State.ORPHANED
    return _state_of_claim(claim, storage_class)


def _is_controlled_by_cdi(claim: PersistentVolumeClaim) -> bool:
    owner = next((r for r in claim.metadata.owner_references if r.controller), None)
    found = (owner.api_version.partition("/")[0], owner.kind) if owner else None
    return found == (DataVolume.resource.group, DataVolume.resource.kind)


def _controls(owner: Object, child: Object) -> bool:
    return any(r.uid == owner.metadata.uid and r.controller for r in child.metadata.owner_references)


def _state_by_cdi(data_volume: DataVolume, claim: PersistentVolumeClaim | None) -> State:
    phase = data_volume.status.phase
    if phase == "Failed":
        return State.FAILED
    if phase in AWAITS_MACHINE:
        return State.AWAITS_MACHINE
    if phase == "Succeeded":
        return State.READY if claim is not None and claim.status.phase == "Bound" else State.UNBOUND
    return State.FILLING


def _state_of_claim(claim: PersistentVolumeClaim | None, storage_class: StorageClass | None) -> State:
    phase = claim.status.phase if claim else ""
    if phase == "Bound":
        return State.READY
    if phase == "Lost":
        return State.FAILED
    waits = storage_class is not None and storage_class.volume_binding_mode == FIRST_CONSUMER
    return State.AWAITS_MACHINE if waits else State.UNBOUND


def class_called(name: str | None, classes: tuple[StorageClass, ...]) -> StorageClass | None:
    """The class of that name; without a name, the cluster's default (of several, the newest, as the server has it)."""
    if name is not None:
        return next((found for found in classes if found.metadata.name == name), None)
    defaults = [c for c in classes if c.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    return max(defaults, key=lambda c: (str(c.metadata.creation_timestamp), c.metadata.name), default=None)


def boot_disk(wukong: Wukong) -> DiskConfig:
    disks = wukong.spec.disks
    return next((disk for disk in disks if disk.boot), disks[0])


def filling(
    wukong: Wukong, config: DiskConfig, data_sources: Mapping[Name, DataSource] = NO_SOURCES
) -> DataVolumeSpec | None:
    """What CDI is to do; None for an empty claim, which needs no CDI. A DataSource that is unknown stays a name."""
    storage, source = _storage(config), config.source
    if source is not None and source.data_source is not None:
        other = source.data_source
        known = followed((other.namespace or wukong.metadata.namespace, other.name), data_sources)
        if known is not None:
            return DataVolumeSpec(source=known, storage=storage)
        ref = cdi.SourceRef(kind="DataSource", name=other.name, namespace=other.namespace or None)
        return DataVolumeSpec(source_ref=ref, storage=storage)
    if source is not None:
        return DataVolumeSpec(source=_source(source, wukong.metadata.namespace), storage=storage)
    image = config.image or (wukong.spec.os_image if config == boot_disk(wukong) else "")
    return DataVolumeSpec(source=image_source(image), storage=storage) if image else None


def _storage(config: DiskConfig) -> cdi.Storage:
    return cdi.Storage(
        resources=VolumeResourceRequirements(requests={"storage": config.size}),
        storage_class_name=config.storage_class_name,
        access_modes=config.access_modes,
        volume_mode=config.volume_mode,
    )


def image_source(image: str) -> cdi.Source:
    """CDI takes registry addresses only with their scheme."""
    if image.startswith(("http://", "https://")):
        return cdi.Source(http=cdi.Http(url=image))
    url = image if "://" in image else f"docker://{image}"
    return cdi.Source(registry=cdi.Registry(url=url))


def _source(source: DiskSource, namespace: str) -> cdi.Source:
    web, registry, gcs = source.http, source.registry, source.gcs
    return cdi.Source(
        http=cdi.Http(**_web(web), checksum=web.checksum) if web else None,
        s3=cdi.S3(**_web(source.s3)) if source.s3 else None,
        registry=cdi.Registry(url=registry.url, secret_ref=registry.secret_name, cert_config_map=registry.ca_config_map)
        if registry
        else None,
        gcs=cdi.Gcs(url=gcs.url, secret_ref=gcs.secret_name) if gcs else None,
        pvc=_elsewhere(source.pvc, namespace),
        snapshot=_elsewhere(source.snapshot, namespace),
        blank=Present() if source.blank else None,
        upload=Present() if source.upload else None,
    )


_Web: TypeAlias = dict[str, str]


def _web(source: WebSource) -> _Web:
    optional = {"secret_ref": source.secret_name, "cert_config_map": source.ca_config_map}
    return {"url": source.url, **{name: value for name, value in optional.items() if value is not None}}


def _elsewhere(other: OtherSource | None, namespace: str) -> cdi.Elsewhere | None:
    return cdi.Elsewhere(name=other.name, namespace=other.namespace or namespace) if other else None


def new_object(wukong: Wukong, disk: Disk) -> DataVolume | PersistentVolumeClaim:
    """What has to be made so that the disk comes to be."""
    metadata = ObjectMeta(
        name=disk.name,
        namespace=wukong.metadata.namespace,
        labels={
            **names.MANAGED_BY,
            names.WUKONG_LABEL: wukong.metadata.name,
            names.DISK_LABEL: disk.config.name,
        },
        annotations={
            names.KEEP_ANNOTATION: keep_text(keep=disk.config.keep_on_delete),
            **({names.RESTORED_ANNOTATION: disk.restored_from} if disk.restored_from else {}),
        },
    )
    if disk.filling is not None:
        return DataVolume(metadata=metadata, spec=disk.filling)
    return PersistentVolumeClaim(
        metadata=metadata,
        spec=PersistentVolumeClaimSpec(
            access_modes=disk.config.access_modes or ("ReadWriteOnce",),
            resources=VolumeResourceRequirements(requests={"storage": disk.config.size}),
            storage_class_name=disk.config.storage_class_name,
            volume_mode=disk.config.volume_mode,
        ),
    )


def keep_text(*, keep: bool) -> str:
    return "true" if keep else "false"


def is_kept(wukong: Wukong, obj: Object) -> bool:
    """If either says so: the object, since its entry of the spec may be gone, or the entry, not yet written there."""
    entries = {names.disk_name(wukong.metadata.name, disk.name): disk for disk in wukong.spec.disks}
    entry = entries.get(obj.metadata.name)
    is_marked = obj.metadata.annotations.get(names.KEEP_ANNOTATION) == "true"
    return is_marked or (entry is not None and entry.keep_on_delete)
