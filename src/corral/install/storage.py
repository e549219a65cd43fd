"""What kind of volumes a cluster makes, told from its StorageClasses. Pure.

The API does not say which access modes a provisioner knows; those in wide use are known by their names.
"""

import re
from collections.abc import Iterable

from corral.kube.models.storage_v1 import StorageClass

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
MANY_WRITERS = re.compile(r"nfs|cephfs|efs\.csi|file\.csi|filestore|lustre|gluster|weka|beegfs|gpfs|spectrum|shared")
ONE_WRITER = re.compile(
    r"local-path|no-provisioner|ebs|pd\.csi|gce-pd|disk\.csi|azure-disk|cinder|rbd|hcloud|do\.csi|topolvm|lvm|zfs"
)


def default_classes(classes: Iterable[StorageClass]) -> tuple[StorageClass, ...]:
    """One, in a cluster that is well."""
    return tuple(one for one in classes if one.metadata.annotations.get(DEFAULT_CLASS) == "true")


def is_for_many(storage: StorageClass) -> bool | None:
    """Whether many nodes may write to a volume of it (ReadWriteMany); None when that is not known."""
    if MANY_WRITERS.search(storage.provisioner):
        return True
    return False if ONE_WRITER.search(storage.provisioner) else None
