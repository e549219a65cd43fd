"""What the figures were measured on."""

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

PACKAGES = ("aiohttp", "msgspec", "prometheus-client", "structlog")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    processor: str
    cores: int
    memory_bytes: int
    kernel: str
    python: str
    packages: tuple[str, ...]
    kubernetes: str
    measured_at: datetime

    def described(self) -> tuple[tuple[str, str], ...]:
        return (
            ("processor", f"{self.processor}, {self.cores} cores (the API server, etcd and Corral share them)"),
            ("memory", f"{self.memory_bytes / 2**30:.0f} GiB"),
            ("kernel", self.kernel),
            ("Python", self.python),
            ("packages", ", ".join(self.packages)),
            ("Kubernetes", self.kubernetes),
        )


def this_machine(kubernetes: str) -> Machine:
    return Machine(
        processor=processor_name(Path("/proc/cpuinfo").read_text()),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=tuple(f"{name} {version(name)}" for name in PACKAGES),
        kubernetes=kubernetes,
        measured_at=datetime.now(UTC),
    )


def processor_name(cpuinfo: str) -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()
