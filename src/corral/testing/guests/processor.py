"""Whether guests have this machine's own processor, or an emulated one."""

import subprocess
from pathlib import Path
from typing import Final, Literal

from corral.testing.guests.disk import inside, kernel, qemu_root

Accelerator = Literal["kvm", "tcg"]

KVM: Final = Path("/dev/kvm")
BOOTED: Final = b"Unable to mount root fs"  # where a kernel ends that has no disk: after everything else
BOOTS_WITHIN_S: Final = 20.0  # a second, unless it hangs

# Under an emulated processor a fifth level of page tables costs each access, and gives a small guest nothing.
WORDS: Final[dict[Accelerator, tuple[str, ...]]] = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max,la57=off"),
}


def accelerator() -> Accelerator:
    """KVM if a kernel really boots under it. A machine may have the device, and yet run no kernel but its own."""
    if not KVM.exists():
        return "tcg"
    tools = qemu_root()
    words = (
        *inside(tools, "/usr/bin/qemu-system-x86_64"),
        *("-L", f"{tools}/usr/share/qemu", "-L", f"{tools}/usr/share/seabios"),
        *(*WORDS["kvm"], "-m", "256M", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"),
        *("-kernel", str(kernel()), "-append", "console=ttyS0 panic=-1"),
    )
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=BOOTS_WITHIN_S)
    except subprocess.TimeoutExpired:
        return "tcg"
    return "kvm" if BOOTED in done.stdout else "tcg"
