"""cdi.kubevirt.io/v1beta1: DataVolume, a claim that is filled from somewhere; DataSource, a name for such a place."""

from typing import ClassVar

from corral.kinds.wukong.api.kubevirt import Present, ReportedCondition
from corral.kube.meta import Model, Object, Resource
from corral.kube.models.core_v1 import VolumeResourceRequirements

GROUP = "cdi.kubevirt.io"


class Http(Model, frozen=True, kw_only=True):
    url: str
    secret_ref: str | None = None
    cert_config_map: str | None = None
    checksum: str | None = None


class Registry(Model, frozen=True, kw_only=True):
    url: str | None = None
    pull_method: str | None = None
    secret_ref: str | None = None
    cert_config_map: str | None = None


class S3(Model, frozen=True, kw_only=True):
    url: str
    secret_ref: str | None = None
    cert_config_map: str | None = None


class Gcs(Model, frozen=True, kw_only=True):
    url: str
    secret_ref: str | None = None


class Elsewhere(Model, frozen=True, kw_only=True):
    """A claim, a volume snapshot or another DataSource."""

    name: str
    namespace: str


class Source(Model, frozen=True, kw_only=True):
    http: Http | None = None
    registry: Registry | None = None
    s3: S3 | None = None
    gcs: Gcs | None = None
    pvc: Elsewhere | None = None
    snapshot: Elsewhere | None = None
    blank: Present | None = None
    upload: Present | None = None


class SourceRef(Model, frozen=True, kw_only=True):
    kind: str
    name: str
    namespace: str | None = None


class Storage(Model, frozen=True, kw_only=True):
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str | None = None


class DataVolumeSpec(Model, frozen=True, kw_only=True):
    source: Source | None = None
    source_ref: SourceRef | None = None
    storage: Storage | None = None


class DataVolumeStatus(Model, frozen=True, kw_only=True):
    phase: str = ""
    progress: str = ""
    claim_name: str = ""
    conditions: tuple[ReportedCondition, ...] = ()


class DataVolume(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1beta1", "DataVolume", "datavolumes", True)

    spec: DataVolumeSpec = DataVolumeSpec()
    status: DataVolumeStatus = DataVolumeStatus()


class DataSourceSource(Model, frozen=True, kw_only=True):
    pvc: Elsewhere | None = None
    snapshot: Elsewhere | None = None
    data_source: Elsewhere | None = None


class DataSourceSpec(Model, frozen=True, kw_only=True):
    source: DataSourceSource = DataSourceSource()


class DataSource(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(GROUP, "v1beta1", "DataSource", "datasources", True)

    spec: DataSourceSpec = DataSourceSpec()
