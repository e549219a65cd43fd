"""The steps that the Slurm image's scripts share, run by a real shell in a folder of their own."""

import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

COMMON = Path(__file__).parents[3] / "images/slurm/common.sh"
Shell = Callable[..., str]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Run a line of shell after common.sh, whose folders are below tmp_path."""
    folders = f"config={tmp_path}/config keys={tmp_path}/keys installed={tmp_path}/etc"
    for name in ("config", "keys", "etc"):
        (tmp_path / name).mkdir()

    def run(line: str, *arguments: str) -> str:
        script = f"set -eu; . {COMMON}; {folders}; {line}"
        return subprocess.run(["sh", "-c", script, "sh", *arguments], capture_output=True, text=True, check=True).stdout

    return run


def mounted(folder: Path, version: str, **files: str) -> None:
    """Files as kubelet mounts them: in a folder that ..data leads to."""
    (folder / version).mkdir()
    for name, content in files.items():
        (folder / version / name).write_text(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..data").unlink(missing_ok=True)
    (folder / "..data").symlink_to(version)


def test_mounted_files_are_copied_as_files(shell: Shell, tmp_path: Path) -> None:
    mounted(tmp_path / "config", "..one", a="1", b="2")
    shell('copy_mounted "$1"', f"{tmp_path}/copy")
    assert {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()} == {"a": "1", "b": "2"}
    assert not (tmp_path / "copy/a").is_symlink()


def test_installing_leaves_exactly_the_new_files_and_the_keys(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "keys/slurm.key").write_text("secret")
    (tmp_path / "etc/gone.conf").write_text("old")
    (tmp_path / "etc/slurm.conf").write_text("old")
    mounted(tmp_path / "config", "..one", **{"slurm.conf": "new"})
    shell('copy_mounted "$1"; install_from "$1"', f"{tmp_path}/copy")
    assert {path.name: path.read_text() for path in (tmp_path / "etc").iterdir()} == {
        "slurm.conf": "new",
        "slurm.key": "secret",
    }


def test_a_renewed_key_is_seen_without_another_step(shell: Shell, tmp_path: Path) -> None:
    mounted(tmp_path / "keys", "..one", **{"slurm.key": "first"})
    shell('link_keys "$installed"')
    mounted(tmp_path / "keys", "..two", **{"slurm.key": "second"})
    assert (tmp_path / "etc/slurm.key").read_text() == "second"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("StorageHost=db\n", "db"),
        ("  storagehost = db # ours\n", "db"),
        ("StorageHost=one\nStorageHost=two\n", "two"),
        ("#StorageHost=db\nStorageHostX=x\n", ""),
    ],
)
def test_a_value_is_read_as_slurm_reads_it(shell: Shell, tmp_path: Path, text: str, value: str) -> None:
    (tmp_path / "file").write_text(text)
    assert shell('value_of "$1" StorageHost', f"{tmp_path}/file").strip() == value


@pytest.mark.parametrize("text", ['say "no"', "a\\b", "two\nlines", "tab\there", "bell\a", "ümläut"])
def test_any_text_becomes_a_json_string_of_one_line(shell: Shell, text: str) -> None:
    made = shell('printf \'"%s"\' "$(json_text "$1")"', text)
    assert json.loads(made) == text.replace("\n", " ").replace("\t", " ").replace("\a", "")


def test_a_long_text_is_cut_between_characters_and_stays_json(shell: Shell) -> None:
    made = shell('printf \'"%s"\' "$(json_text "$1")"', "x" * 1999 + "üü")
    assert json.loads(made) == "x" * 1999


def test_keys_are_told_by_name_and_digest_as_they_are_mounted(shell: Shell, tmp_path: Path) -> None:
    mounted(tmp_path / "keys", "..one", **{"slurm.jwks": "first", "jwt.key": "token"})
    told = json.loads("{" + shell("key_digests") + "}")
    assert told == {
        "jwt.key": hashlib.sha256(b"token").hexdigest()[:16],
        "slurm.jwks": hashlib.sha256(b"first").hexdigest()[:16],
    }
    mounted(tmp_path / "keys", "..two", **{"slurm.jwks": "second", "jwt.key": "token"})
    assert json.loads("{" + shell("key_digests") + "}") == told | {
        "slurm.jwks": hashlib.sha256(b"second").hexdigest()[:16]
    }


def test_a_folder_that_is_no_cgroup_v2_confines_nobody(shell: Shell, tmp_path: Path) -> None:
    assert "expected cgroup2fs" in shell('cgroup_trouble "$1"', str(tmp_path))
    assert "is not there: expected cgroup2fs" in shell('cgroup_trouble "$1"', f"{tmp_path}/nowhere")


def cgroup_v2() -> str:
    """Where this machine has it, if it may be written to."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next((at for _, at, kind, options, *_ in mounts if kind == "cgroup2" and "rw" in options.split(",")), "")


@pytest.mark.skipif(not cgroup_v2() or os.geteuid() != 0, reason="needs root and a writable cgroup v2")
def test_a_writable_cgroup_v2_does(shell: Shell) -> None:
    assert shell('cgroup_trouble "$1"', cgroup_v2()) == ""
    assert not (Path(cgroup_v2()) / "corral-trial").exists()


def test_of_last_words_only_the_newest_that_came_since_count(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "fatal").write_text("[10:00] fatal: of before\n[11:00] fatal: a\n[11:00] fatal: open /nowhere: no\n")
    assert shell(f"fatals={tmp_path}/fatal; last_words 1") == "fatal: open /nowhere: no"


def test_who_waits_for_a_port_says_so_and_when_it_is_given_up(shell: Shell) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    assert shell(f"wait_for_port 127.0.0.1 {port} 1 2>&1") == ""
    free.close()
    said = shell(f"sleep() {{ :; }}; wait_for_port 127.0.0.1 {port} 1 2>&1").splitlines()
    assert said == [f"corral: waiting for 127.0.0.1:{port}", f"corral: 127.0.0.1:{port} is not there after 1 s"]
