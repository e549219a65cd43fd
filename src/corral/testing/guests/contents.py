"""What is in the volumes: a folder each with a `disk.img`, as KubeVirt and CDI lay out claims of file systems."""

import shutil
import subprocess
from pathlib import Path


class Contents:
    """`folder` is seen by the nodes under the same path; `image` is what DataVolumes are filled with."""

    def __init__(self, folder: Path, image: Path) -> None:
        self._folder = folder
        self.image = image

    def path(self, volume: str) -> Path:
        return self._folder / "volumes" / volume

    def kept(self, snapshot: str) -> Path:
        return self._folder / "snapshots" / snapshot

    def make(self, volume: str, size_bytes: int, source: Path | None) -> None:
        """A disk of that size, with what `source` has at its beginning; without a source, empty."""
        disk = self.path(volume) / "disk.img"
        disk.parent.mkdir(parents=True, exist_ok=True)
        if source is not None:
            _copy(source, disk)
        with disk.open("ab") as file:
            file.truncate(max(size_bytes, disk.stat().st_size))

    def has_disk(self, volume: str) -> bool:
        return (self.path(volume) / "disk.img").is_file()

    def grow(self, volume: str, size_bytes: int) -> None:
        with (self.path(volume) / "disk.img").open("ab") as file:
            file.truncate(max(size_bytes, file.tell()))

    def keep(self, snapshot: str, volume: str) -> None:
        self.kept(snapshot).parent.mkdir(parents=True, exist_ok=True)
        _copy(self.path(volume) / "disk.img", self.kept(snapshot))

    def remove(self, volume: str) -> None:
        shutil.rmtree(self.path(volume), ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """With its holes: a disk of gigabytes holds megabytes."""
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True, timeout=120)
