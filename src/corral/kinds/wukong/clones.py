"""Disks that are copied from another namespace: only where that namespace allows it. Pure.

CDI asks whether the maker of a DataVolume may read its source. That is Corral, which may create pods everywhere, so
CDI would always say yes, and whoever may write a Wukong could copy any disk of the cluster. Corral therefore asks
first, for the ServiceAccount `default` of the Wukong's namespace, as KubeVirt does for the disks of its machines.

A DataSource is followed here, not by CDI: what was asked about is what is copied, also if it is changed meanwhile.
"""

from collections.abc import Mapping
from types import MappingProxyType

from corral.kinds.wukong.api import cdi
from corral.kinds.wukong.api.cdi import DataSource, DataVolumeSpec
from corral.kinds.wukong.spec import Wukong

ACCOUNT = "default"

Name = tuple[str, str]  # namespace and name
NO_SOURCES: Mapping[Name, DataSource] = MappingProxyType({})


def data_sources_named(wukong: Wukong) -> frozenset[Name]:
    named = (disk.source.data_source for disk in wukong.spec.disks if disk.source is not None)
    return frozenset((other.namespace or wukong.metadata.namespace, other.name) for other in named if other is not None)


def next_one(found: DataSource) -> Name | None:
    """The DataSource that this one refers to. CDI lets that be the last."""
    other = found.spec.source.data_source
    return (other.namespace, other.name) if other is not None else None


def followed(start: Name, known: Mapping[Name, DataSource]) -> cdi.Source | None:
    """The claim or volume snapshot that a DataSource stands for; None while it stands for none."""
    found = known.get(start)
    further = next_one(found) if found is not None else None
    last = known.get(further) if further is not None else found
    source = last.spec.source if last is not None else None
    if source is None or (source.pvc is None and source.snapshot is None):
        return None
    return cdi.Source(pvc=source.pvc, snapshot=source.snapshot)


def copied_from(filling: DataVolumeSpec | None, namespace: str) -> cdi.Elsewhere | None:
    """What a disk is copied from, if that is in another namespace."""
    source = filling.source if filling is not None else None
    there = (source.pvc or source.snapshot) if source is not None else None
    return there if there is not None and there.namespace != namespace else None


def forbidden_text(source: cdi.Elsewhere, namespace: str) -> str:
    return (
        f"ServiceAccount {namespace}/{ACCOUNT} may not copy {source.name} of namespace {source.namespace}: "
        f"an admin of {source.namespace} can allow it with a RoleBinding to create datavolumes/source there"
    )
