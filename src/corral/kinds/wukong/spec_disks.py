"""How a disk of a Wukong is written: its size, where it is kept, and what it is filled with."""

from typing import Annotated, Literal

from msgspec import Meta

from corral.kinds.wukong.spec_networks import Dns1123Label
from corral.kube.crd import rule, rules
from corral.kube.meta import Model
from corral.kube.values import QUANTITY_PATTERN

# Bounded, so that the server can tell in advance what a rule about it costs.
Amount = Annotated[str, Meta(min_length=1, max_length=32, pattern=QUANTITY_PATTERN)]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]
SecretName = Annotated[str, Meta(min_length=1, max_length=253)]
ObjectName = Annotated[str, Meta(min_length=1, max_length=253)]

IMAGE_RULE = rule(
    "!self.contains('://') || self.matches('^(https?|docker|oci-archive)://')",
    "an image is http://, https://, docker://, oci-archive:// or the name of a container image; "
    "for others there is source",
)
ONE_SOURCE = (
    "[has(self.http), has(self.registry), has(self.s3), has(self.gcs), has(self.pvc), has(self.snapshot), "
    "has(self.dataSource), has(self.containerDisk), self.blank, self.upload].filter(x, x).size() == 1"
)


@rules(rule("self.url.startsWith('http://') || self.url.startsWith('https://')", "url begins with http:// or https://"))
class WebSource(Model, frozen=True, kw_only=True):
    """A file on a web server, or in a bucket that speaks S3."""

    url: Url
    secret_name: SecretName | None = None
    ca_config_map: ObjectName | None = None
    checksum: Annotated[
        Annotated[str, Meta(pattern=r"^(md5|sha1|sha256|sha512):[0-9a-f]+$", max_length=140)] | None,
        Meta(description="sha256:<hex>; only for http."),
    ] = None


@rules(
    rule(
        "self.url.startsWith('docker://') || self.url.startsWith('oci-archive://')",
        "url begins with docker:// or oci-archive://",
    )
)
class RegistrySource(Model, frozen=True, kw_only=True):
    """A container image that holds a disk."""

    url: Url
    secret_name: SecretName | None = None
    ca_config_map: ObjectName | None = None


@rules(rule("self.url.startsWith('gs://') || self.url.startsWith('https://')", "url begins with gs:// or https://"))
class GcsSource(Model, frozen=True, kw_only=True):
    url: Url
    secret_name: SecretName | None = None


class OtherSource(Model, frozen=True, kw_only=True):
    """A claim, a volume snapshot or a DataSource. Default namespace: the Wukong's."""

    name: ObjectName
    namespace: Annotated[str, Meta(max_length=63)] = ""


class ContainerDiskSource(Model, frozen=True, kw_only=True):
    """A disk inside a container image, read at each start; what is written to it is lost at the next one."""

    image: Url
    pull_secret: SecretName | None = None


@rules(
    rule(
        ONE_SOURCE,
        "a source is one of http, registry, s3, gcs, pvc, snapshot, dataSource, containerDisk, blank, upload",
    ),
    rule("!has(self.s3) || !has(self.s3.checksum)", "CDI checks no checksum of s3: leave it out, or fetch by http"),
)
class DiskSource(Model, frozen=True, kw_only=True):
    http: WebSource | None = None
    registry: RegistrySource | None = None
    s3: WebSource | None = None
    gcs: GcsSource | None = None
    pvc: OtherSource | None = None
    snapshot: OtherSource | None = None
    data_source: OtherSource | None = None
    container_disk: ContainerDiskSource | None = None
    blank: bool = False
    upload: Annotated[bool, Meta(description="Filled by a person with `virtctl image-upload`.")] = False


@rules(
    rule("self.name != 'cloudinit'", "`cloudinit` is the name of the disk that carries cloud-init's data"),
    rule("!has(self.image) || !has(self.source)", "image is a short form of source; set one of them"),
    rule(
        "has(self.image) == has(oldSelf.image) && (!has(self.image) || self.image == oldSelf.image) && "
        "has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",
        "what a disk is filled with is decided once; add another disk",
    ),
    rule(
        "has(self.storageClassName) == has(oldSelf.storageClassName) && "
        "(!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
        "a disk stays in its storage class; add another disk",
    ),
)
class DiskConfig(Model, frozen=True, kw_only=True):
    """One disk."""

    name: Dns1123Label
    size: Annotated[
        Amount,
        rule("quantity(self).isGreaterThan(quantity('0'))", "size is more than nothing"),
        rule(
            "quantity(self).compareTo(quantity(oldSelf)) >= 0",
            "a disk grows and never shrinks: its file system would lose its end",
        ),
    ]
    storage_class_name: Annotated[ObjectName | None, Meta(description="Default: the cluster's default class.")] = None
    boot: Annotated[bool, Meta(description="The guest starts from this disk. Default: the first one.")] = False
    image: Annotated[
        Annotated[
            str,
            Meta(min_length=1, max_length=2048),
            IMAGE_RULE,
        ]
        | None,
        Meta(description="What the disk is filled with: http(s)://, docker:// or the name of a container image."),
    ] = None
    source: DiskSource | None = None
    bus: Literal["virtio", "sata", "scsi", "usb"] = "virtio"
    cache: Literal["none", "writethrough", "writeback"] | None = None
    access_modes: Annotated[
        tuple[Literal["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"], ...],
        Meta(max_length=4, description="Default: for filled disks CDI's profile of the class, else ReadWriteOnce."),
    ] = ()
    volume_mode: Literal["Filesystem", "Block"] | None = None
    keep_on_delete: Annotated[
        bool,
        Meta(description="The disk stays when the Wukong, or this entry, is deleted; a new one of the name gets it."),
    ] = False
