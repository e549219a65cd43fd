"""Old makings go; those used last, a short while ago, or by a cluster stay."""

import os
import time
from pathlib import Path

import pytest

from corral.local.pruning import KEPT, UNUSED_S_MIN, Making, outdated, prune

LONG_AGO_S = 10 * UNUSED_S_MIN
KEYS = ("0123456789ab", "123456789abc", "23456789abcd", "3456789abcde")


def making(thing: str, number: int, used_s: float) -> Making:
    return Making(Path(f"{thing}-{number}"), thing, used_s)


def test_of_each_thing_the_makings_used_last_stay() -> None:
    makings = [making(thing, n, n) for thing in ("slurm", "mariadb") for n in range(4)]
    gone = outdated(makings, now_s=LONG_AGO_S)
    assert gone == tuple(sorted(Path(f"{thing}-{n}") for thing in ("slurm", "mariadb") for n in range(4 - KEPT)))


def test_what_was_used_a_short_while_ago_stays() -> None:
    makings = [making("slurm", n, LONG_AGO_S - n) for n in range(6)]
    assert outdated(makings, now_s=LONG_AGO_S) == ()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORRAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "cache"


def aged(path: Path, number: int) -> None:
    used_s = time.time() - LONG_AGO_S + number
    os.utime(path, (used_s, used_s))


def test_an_old_archive_goes_with_its_bill_and_the_plain_name_still_leads_to_the_newest(cache: Path) -> None:
    (cache / "images").mkdir(parents=True)
    for number, key in enumerate(KEYS):
        for suffix in ("tar", "cdx.json"):
            file = cache / "images" / f"slurm-26.05-{key}.{suffix}"
            file.touch()
            aged(file, number)
    (cache / "images/slurm-26.05.tar").symlink_to(f"slurm-26.05-{KEYS[-1]}.tar")
    prune()
    assert sorted(path.name for path in (cache / "images").iterdir()) == sorted(
        ("slurm-26.05.tar", *(f"slurm-26.05-{key}.{suffix}" for key in KEYS[-2:] for suffix in ("tar", "cdx.json")))
    )
    assert (cache / "images/slurm-26.05.tar").exists()


def test_old_disks_of_guests_go(cache: Path) -> None:
    (cache / "guests").mkdir(parents=True)
    for number, key in enumerate(KEYS):
        disk = cache / "guests" / f"debian-{key}.img"
        disk.touch()
        aged(disk, number)
    prune()
    assert sorted(path.name for path in (cache / "guests").iterdir()) == [f"debian-{key}.img" for key in KEYS[-2:]]


def test_a_root_folder_without_a_key_is_somebody_elses(cache: Path) -> None:
    for number, name in enumerate((*(f"image-slurm-{key}" for key in KEYS), "slurm-26.05")):
        (cache / "roots" / name / "etc").mkdir(parents=True)
        lock = cache / "roots" / f"{name}.lock"
        lock.touch()
        aged(lock, number)
    prune()
    left = {path.name for path in (cache / "roots").iterdir() if path.is_dir()}
    assert left == {"slurm-26.05", *(f"image-slurm-{key}" for key in KEYS[-2:])}


def test_programs_that_a_cluster_runs_stay_however_old_they_are(cache: Path, tmp_path: Path) -> None:
    folders = [cache / "bin" / f"kubernetes-{key}" for key in KEYS]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        aged(folder, number)
    components = tmp_path / "state/corral/dev/components.json"
    components.parent.mkdir(parents=True)
    components.write_text(f'[{{"argv": ["{folders[0]}/kube-apiserver"]}}]')
    prune()
    assert sorted((cache / "bin").iterdir()) == sorted((folders[0], *folders[-2:]))
