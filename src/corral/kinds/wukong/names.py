"""What the objects of a Wukong are called, and the labels by which they are found again."""

import hashlib

from corral.kinds.names import fitted

WUKONG_LABEL = "vm.corral.dev/wukong"
DISK_LABEL = "vm.corral.dev/disk"
GROUP_LABEL = "vm.corral.dev/group"
SCHEDULED_LABEL = "vm.corral.dev/scheduled-for"  # the Wukong whose snapshotPolicy made a snapshot
POOL_LABEL = "vm.corral.dev/address-pool"
NETWORK_LABEL = "vm.corral.dev/network"
DUE_ANNOTATION = "vm.corral.dev/due"
INDICATIONS_ANNOTATION = "vm.corral.dev/indications"  # how the guest was when a disk was snapshot
RESTORED_ANNOTATION = "vm.corral.dev/restored-from"
KEEP_ANNOTATION = "vm.corral.dev/keep-on-delete"
RESUMES_AS_ANNOTATION = "vm.corral.dev/resumes-as"  # the run strategy of a machine before it was stopped
MANAGED_BY = {"app.kubernetes.io/managed-by": "corral"}

SERIAL_MAX = 20  # what a virtio disk can say of itself
CLOUD_INIT_VOLUME = "cloudinit"
USER_DATA = "userdata"  # the keys that KubeVirt reads
NETWORK_DATA = "networkdata"


def machine_name(wukong: str) -> str:
    """VirtualMachine, VirtualMachineInstance and host name at once."""
    return wukong


def service_name(wukong: str) -> str:
    return wukong


def address_lease_name(address: str) -> str:
    """One for each address of a namespace, whichever pools have it: whoever makes it has the address."""
    return f"address-{address.replace('.', '-').replace(':', '-')}"


def network_policy_name(wukong: str) -> str:
    return wukong


def disk_name(wukong: str, disk: str) -> str:
    """DataVolume and claim at once, as CDI has it."""
    return fitted(f"{wukong}-{disk}")


def volume_snapshot_name(snapshot: str, disk: str) -> str:
    return fitted(f"{snapshot}-{disk}")


def restore_name(wukong: str, snapshot: str) -> str:
    """One for each pair: whatever is lost on the way, a machine is never set back twice."""
    return fitted(f"{wukong}-from-{snapshot}")


def attachment_name(wukong: str, network: str) -> str:
    return fitted(f"{wukong}-{network}-nad")


def cloud_init_name(wukong: str) -> str:
    return fitted(f"{wukong}-cloud-init")


def disk_serial(disk: str) -> str:
    """By which the guest finds the disk, whatever order its buses have."""
    return fitted(disk, length_max=SERIAL_MAX)


def mac_address(uid: str, network: str) -> str:
    """Locally administered, the same for as long as the Wukong lives: the guest's first boot can match by it."""
    digest = hashlib.sha256(f"{uid}/{network}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))
