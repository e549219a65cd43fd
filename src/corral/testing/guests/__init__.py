"""Real guests for the stand-in: what a VirtualMachine names is booted by QEMU, in a pod of a local cluster.

    contents = Contents(folder, debian_disk())
    guests = Guests(client, contents, tools=qemu_root(), image=IMAGE, accelerator=accelerator())
    KubeVirtStandIn(client, guests=guests)

The pod plays virt-launcher: it has the claims, Secrets and labels that the machine names, and QEMU in it the disks,
boot order, serial numbers, interfaces and addresses. The disk that DataVolumes are filled with is a Debian with
cloud-init, made by mmdebstrap. Where KVM boots no guest the processor is emulated, and a boot takes 90 s of one.

Not played: plugging into a running guest, its agent, migration, UEFI, devices, and what goes through virt-api (pause,
console; what a guest says is its pod's log). Pods find QEMU and disks by paths of this machine, so the cluster is one
of `corral up`.
"""

from corral.testing.guests.contents import Contents
from corral.testing.guests.disk import debian_disk, qemu_root
from corral.testing.guests.pods import Guests
from corral.testing.guests.processor import accelerator

__all__ = ["Contents", "Guests", "accelerator", "debian_disk", "qemu_root"]
