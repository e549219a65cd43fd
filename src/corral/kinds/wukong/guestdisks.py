"""What has become of a machine's disks in its guest: what was asked for, what each volume has, what the guest uses.

Pure. The guest's part is its agent's list of file systems, in which disks are known by their serial numbers.
"""

from collections.abc import Sequence

from corral.kinds.wukong import names
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import Model
from corral.kube.values import format_quantity, parse_quantity

USED_PART_MIN = 0.8  # file systems have records of their own, and a disk may have a small partition for its boot
MIB = 1 << 20


class GuestDisk(Model, frozen=True, kw_only=True):
    serial: str = ""


class FileSystem(Model, frozen=True, kw_only=True):
    mount_point: str = ""
    file_system_type: str = ""
    total_bytes: int = 0
    used_bytes: int = 0
    disk: tuple[GuestDisk, ...] = ()


class FileSystems(Model, frozen=True, kw_only=True):
    items: tuple[FileSystem, ...] = ()


class DiskRow(Model, frozen=True, kw_only=True):
    name: str
    asked: str
    size: str = ""  # what the volume has
    guest: tuple[FileSystem, ...] = ()
    remark: str = ""


def disk_rows(wukong: Wukong, found: Sequence[FileSystem]) -> tuple[DiskRow, ...]:
    sizes = {volume.name: volume.size for volume in wukong.status.volumes}
    return tuple(_row(disk.name, disk.size, sizes.get(disk.name, ""), found) for disk in wukong.spec.disks)


def _row(name: str, asked: str, size: str, found: Sequence[FileSystem]) -> DiskRow:
    serial = names.disk_serial(name)
    mine = tuple(one for one in found if any(disk.serial == serial for disk in one.disk))
    return DiskRow(name=name, asked=asked, size=size, guest=mine, remark=_remark(asked, size, mine))


def _remark(asked: str, size: str, mine: Sequence[FileSystem]) -> str:
    if not size or parse_quantity(size) < parse_quantity(asked):
        return "the volume has not grown yet: see DisksResized in `corral explain`"
    used = sum(one.total_bytes for one in mine)
    if mine and used < float(parse_quantity(size)) * USED_PART_MIN:
        return f"the guest's file systems use {in_mib(used)} of it: grow partition and file system there"
    return "" if mine else "the guest tells of no file system on it"


def in_mib(size: int) -> str:
    return format_quantity(size // MIB * MIB, binary=True)
