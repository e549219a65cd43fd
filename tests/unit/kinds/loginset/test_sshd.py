"""sshd's settings: the user's lines win, Match blocks stay last. Host keys are what ssh clients expect."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from corral.kinds.loginset.hostkeys import fingerprints, generate, has_private_key
from corral.kinds.loginset.sshd import sshd_config


def lines(extra: str) -> list[str]:
    return sshd_config(extra, port=22, passwords=False).splitlines()


@pytest.fixture(scope="module")
def keys() -> Mapping[str, bytes]:
    return generate()


def test_the_users_lines_come_first_because_the_first_value_counts() -> None:
    found = lines("X11Forwarding no\n")
    assert found.index("X11Forwarding no") < found.index("X11Forwarding yes")


@pytest.mark.parametrize("word", ["Match", "match"])
def test_a_match_block_stays_behind_our_lines_or_it_would_swallow_them(word: str) -> None:
    found = lines(f"Banner none\n{word} User guest\n  ForceCommand sinfo\n")
    assert found[0] == "Banner none"
    assert found[-2:] == [f"{word} User guest", "  ForceCommand sinfo"]


def test_passwords_are_asked_for_only_where_a_directory_knows_them() -> None:
    assert "PasswordAuthentication no" in sshd_config("", port=22, passwords=False)
    assert "PasswordAuthentication yes" in sshd_config("", port=22, passwords=True)


def test_keys_are_of_the_three_usual_kinds_and_shown_as_ssh_shows_them(keys: Mapping[str, bytes]) -> None:
    assert {name for name in keys if name.endswith("_key")} == {
        "ssh_host_ed25519_key",
        "ssh_host_ecdsa_key",
        "ssh_host_rsa_key",
    }
    assert has_private_key(keys)
    kinds = [shown.split()[1] for shown in fingerprints(keys)]
    assert kinds == ["(ecdsa-sha2-nistp256)", "(ssh-ed25519)", "(ssh-rsa)"]


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="openssh-client is not installed")
def test_ssh_itself_shows_the_same_fingerprint(keys: Mapping[str, bytes], tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch(mode=0o600)
    file.write_bytes(keys["ssh_host_ed25519_key"])
    told = subprocess.run(["ssh-keygen", "-l", "-f", file], capture_output=True, text=True, check=True).stdout
    assert told.split()[1] == fingerprints(keys)[1].split()[0]


@pytest.mark.parametrize("data", [{}, {"ssh_host_rsa_key": b""}, {"ssh_host_rsa_key.pub": b"ssh-rsa AAAA"}])
def test_a_secret_without_a_private_key_has_none(data: dict[str, bytes]) -> None:
    assert not has_private_key(data)


def test_what_is_no_public_key_is_left_out_of_what_is_shown() -> None:
    assert fingerprints({"ssh_host_x_key.pub": b"ssh-rsa A"}) == ()
