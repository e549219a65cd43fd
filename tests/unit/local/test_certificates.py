from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from corral.local.certificates import LIFE, Wanted, ensure, issue, read, reason_to_issue, wanted
from corral.local.spec import Spec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CA = Wanted(file="ca", authority="ca", user="the authority")
SERVER = Wanted(file="server", user="server", names=("server.local",))


def test_a_second_run_issues_nothing(tmp_path: Path) -> None:
    wishes = wanted(Spec("dev", 1, 0))

    assert set(ensure(tmp_path, wishes, NOW)) == {wish.file for wish in wishes}
    assert ensure(tmp_path, wishes, NOW + timedelta(days=1)) == ()


def test_what_expires_soon_is_renewed_and_its_authority_is_kept(tmp_path: Path) -> None:
    ensure(tmp_path, (CA, SERVER), NOW)
    authority = read(tmp_path, "ca")

    assert ensure(tmp_path, (CA, SERVER), NOW + LIFE - timedelta(days=10)) == ("server",)
    assert read(tmp_path, "ca") == authority


def test_a_new_authority_signs_everything_again(tmp_path: Path) -> None:
    ensure(tmp_path, (CA, SERVER), NOW)
    (tmp_path / "ca.crt").unlink()

    assert ensure(tmp_path, (CA, SERVER), NOW) == ("ca", "server")


def test_a_key_that_does_not_belong_to_its_certificate_is_replaced(tmp_path: Path) -> None:
    """What a kill between the two writes leaves."""
    ensure(tmp_path, (CA, SERVER), NOW)
    (tmp_path / "server.key").write_bytes(read(tmp_path, "ca").key)

    assert ensure(tmp_path, (CA, SERVER), NOW) == ("server",)


def test_a_certificate_for_other_names_is_replaced() -> None:
    authority = issue(CA, None, NOW)
    pair = issue(SERVER, authority, NOW)
    renamed = Wanted(file="server", user="server", names=("other.local",))

    assert reason_to_issue(pair, SERVER, authority, NOW) == ""
    assert reason_to_issue(pair, renamed, authority, NOW) == "made for other names"


def test_only_the_person_is_a_master() -> None:
    masters = [wish.file for wish in wanted(Spec("dev", 5, 0)) if "system:masters" in wish.groups]

    assert masters == ["admin"]


def test_a_kubelet_is_the_node_it_runs_on() -> None:
    wish = next(wish for wish in wanted(Spec("dev", 2, 0)) if wish.file == "node-2")
    certificate = x509.load_pem_x509_certificate(issue(wish, issue(CA, None, NOW), NOW).certificate)

    (user,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    (group,) = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert (user.value, group.value) == ("system:node:node-2", "system:nodes")


def test_keys_can_be_read_by_root_only(tmp_path: Path) -> None:
    ensure(tmp_path, (CA, SERVER), NOW)

    assert {file.stat().st_mode & 0o077 for file in tmp_path.glob("*.key")} == {0}


@pytest.mark.parametrize("damage", [b"", b"not a certificate"])
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes) -> None:
    ensure(tmp_path, (CA, SERVER), NOW)
    (tmp_path / "server.crt").write_bytes(damage)

    assert ensure(tmp_path, (CA, SERVER), NOW) == ("server",)
