"""The Debian that guests boot: a disk with one partition, made from packages alone and kept in the user's cache.

GRUB is written by hand where the BIOS looks for it: the boot sector, then the rest of it in the gap before the
partition. Both need no device of the host, and no guest that would install it.
"""

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from corral.local.paths import cache_dir
from corral.local.progress import Progress
from corral.local.roots import Root, ensure

DataKind = Literal["cloud-config", "network-config"]
SECTOR: Final = 512
MEBIBYTE: Final = 1 << 20
FILE_SYSTEM_MB: Final = 640
BOOT_CODE_BYTES: Final = 440  # of the first sector; what follows is the table of partitions
FORMAT: Final = 4

TOOLS: Final = Root(
    name="guest-tools",
    suite="trixie",
    packages=("qemu-system-x86", "seabios", "grub-pc-bin", "grub-common", "genisoimage", "openssh-client"),
)
DEBIAN: Final = Root(
    name="guest-debian",
    suite="trixie",
    packages=(
        "linux-image-cloud-amd64",
        "initramfs-tools",
        "systemd-sysv",
        "udev",
        "dbus",
        "cloud-init",
        "cloud-guest-utils",  # growpart
        "netplan.io",
        "openssh-server",
        "iproute2",
        "e2fsprogs",
        "fdisk",
        "sudo",
    ),
)
GRUB: Final = """
set root=(hd0,msdos1)
linux /boot/vmlinuz root=LABEL=root ro console=ttyS0 quiet mitigations=off audit=0 init_on_alloc=0 \
modprobe.blacklist=ahci,i2c_i801,lpc_ich systemd.getty_auto=no
initrd /boot/initrd.img
boot
"""
GRUB_READS: Final = "^metadata_csum_seed,^orphan_file"  # its ext2 module knows no newer features
GRUB_MODULES: Final = ("biosdisk", "part_msdos", "ext2", "linux", "boot")
# Only the modules for what a Wukong can say: each one more costs an emulated guest seconds.
CLOUD_CONFIG: Final = """
datasource_list: [NoCloud]
disable_root: true
ssh_genkeytypes: [ed25519]
ssh: {emit_keys_to_console: false}
cloud_init_modules: [growpart, resizefs, disk_setup, mounts, set_hostname, update_etc_hosts, users_groups, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts_user]
system_info:
  distro: debian
  network: {renderers: [netplan]}
  paths: {cloud_dir: /var/lib/cloud, templates_dir: /etc/cloud/templates}
  ssh_svcname: ssh
"""
UP_UNIT: Final = "guest-is-up.service"
UP: Final = "guest is up"  # on the console, once cloud-init has ended
FILES: Final[Mapping[str, str]] = {
    f"etc/systemd/system/{UP_UNIT}": f"""
[Unit]
After=cloud-final.service ssh.service
[Service]
Type=oneshot
ExecStart=/bin/echo {UP}
StandardOutput=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=cloud-init.target
""",
    "etc/fstab": "LABEL=root / ext4 defaults 0 1\n",
    "etc/cloud/cloud.cfg": CLOUD_CONFIG,
    "etc/initramfs-tools/conf.d/small": "MODULES=list\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
    "etc/machine-id": "",
}
NEEDLESS: Final = (  # for a guest that lives for minutes
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "getty@tty1.service",
    "ldconfig.service",
    "sshd-keygen.service",  # cloud-init makes the host's keys
    "systemd-binfmt.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-logind.service",
    "systemd-pstore.service",
    "systemd-timesyncd.service",
)


# cloud-init holds its data against a schema of a megabyte if it can: a minute, emulated. `complaints` does it natively.
NEEDLESS_PYTHON: Final = "usr/lib/python3/dist-packages"


def qemu_root() -> Path:
    """Where QEMU and what belongs to it are, by the paths of Debian; made now if it is not there."""
    return _root(TOOLS)


def debian_disk() -> Path:
    """The disk, made now if there is none. Nobody writes to it: whoever boots takes a copy."""
    made_from = [FORMAT, FILE_SYSTEM_MB, TOOLS, DEBIAN, GRUB, GRUB_MODULES, FILES, NEEDLESS]
    digest = hashlib.sha256(msgspec.json.encode(made_from, order="deterministic")).hexdigest()[:12]
    target = cache_dir() / "guests" / f"debian-{digest}.img"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder:
            _make(Path(folder)).replace(target)
    os.utime(target)  # used now: see corral.local.pruning
    return target


def kernel() -> Path:
    """The one that guests boot."""
    return next((_root(DEBIAN) / "boot").glob("vmlinuz-*"))


def complaints(kind: DataKind, data: bytes) -> str:
    """What Debian's own cloud-init has against user data or network data by its schema; empty if nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "data")
        file.write_bytes(data)
        program = ("/usr/bin/python3", "-B", "-m", "cloudinit.cmd.main", "schema", "-t", kind, "-c", "/mnt/data")
        script = f"mount --bind {folder} {_root(DEBIAN)}/mnt && exec chroot {_root(DEBIAN)} {' '.join(program)}"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=120
        )
    said = done.stdout + done.stderr
    return said if done.returncode or "Valid schema" not in said or "deprecat" in said.lower() else ""


def _root(root: Root) -> Path:
    if root.folder.is_dir():
        root.folder.with_name(f"{root.folder.name}.lock").touch()  # used now: see corral.local.pruning
        return root.folder
    with Progress((root.name,)) as progress, progress.step(root.name) as step:
        return ensure(root, step)


def _make(folder: Path) -> Path:
    content = folder / "content"
    _run("cp", "-a", str(_root(DEBIAN)), str(content))
    _prepare(content)
    partition, core, disk = folder / "partition", folder / "core.img", folder / "disk.img"
    with partition.open("wb") as file:
        file.truncate(FILE_SYSTEM_MB * MEBIBYTE)
    _run("mke2fs", "-q", "-t", "ext4", "-O", GRUB_READS, "-L", "root", "-d", str(content), str(partition))
    config = folder / "grub.cfg"
    config.write_text(GRUB)
    grub = f"{qemu_root()}/usr/lib/grub/i386-pc"
    _run(
        *inside(qemu_root(), "/usr/bin/grub-mkimage"),
        *("-d", grub, "-O", "i386-pc", "-o", str(core), "-p", "/boot/grub", "-c", str(config)),
        *GRUB_MODULES,
    )
    with disk.open("wb") as file:
        file.write(Path(grub, "boot.img").read_bytes()[:BOOT_CODE_BYTES])
        file.seek(BOOT_CODE_BYTES + 6)
        file.write(partition_table(FILE_SYSTEM_MB * MEBIBYTE // SECTOR))
        file.write(core.read_bytes())
    _run("dd", f"if={partition}", f"of={disk}", "bs=1M", "seek=1", "conv=notrunc,sparse", "status=none")
    return disk


def partition_table(sectors: int) -> bytes:
    """One bootable partition of Linux' kind behind the first mebibyte, and the mark at the end of the sector."""
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", MEBIBYTE // SECTOR, sectors)
    return entry + bytes(48) + b"\x55\xaa"


def _prepare(content: Path) -> None:
    for name, text in FILES.items():
        path = content / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    units = content / "etc/systemd/system"
    for unit in NEEDLESS:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to(os.devnull)
    for needless in (*(content / "etc/ssh").glob("ssh_host_*"), *(content / NEEDLESS_PYTHON).glob("jsonschema*")):
        shutil.rmtree(needless) if needless.is_dir() else needless.unlink()
    _run("chroot", str(content), "systemctl", "enable", "systemd-networkd", UP_UNIT)
    _run("chroot", str(content), "update-initramfs", "-u")
    boot = content / "boot"
    for plain, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd.img", "initrd.img-*")):
        (boot / plain).unlink(missing_ok=True)
        (boot / plain).symlink_to(next(boot.glob(pattern)).name)


def inside(root: Path, program: str) -> tuple[str, ...]:
    """The words that run a program of another Debian with that one's own libraries, without entering it."""
    return (
        f"{root}/usr/lib64/ld-linux-x86-64.so.2",
        "--library-path",
        f"{root}/usr/lib/x86_64-linux-gnu",
        f"{root}{program}",
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"making the guests' disk: {' '.join(command[:3])} failed: {done.stderr.strip()[-500:]}")
