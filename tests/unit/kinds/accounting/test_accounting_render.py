"""What an Accounting becomes: golden files, the file that slurmdbd reads, what replaces the pods."""

from pathlib import Path

import pytest

from corral.kinds.accounting.configuration import ConfRefused, Storage, slurmdbd_conf
from corral.kinds.accounting.render import (
    Keys,
    conf_secret,
    database,
    database_service,
    digest,
    password_secret,
    slurmdbd,
    slurmdbd_service,
)
from corral.kinds.accounting.spec import Accounting, AccountingSpec, ManagedDatabase
from corral.kinds.parts import KeyRef, Volume
from corral.kube.meta import ObjectMeta
from corral.slurm.config.lint import errors, lint
from tests.unit.kinds.golden import as_yaml, assert_golden

GOLDEN = Path(__file__).parent / "golden"
KEYS = Keys(slurm=KeyRef(name="keys", key="a"), jwt=KeyRef(name="keys", key="b"))
STORAGE = Storage(
    host="slurm-database.lab", port=3306, database="slurm_acct_db", username="slurm", password="pa#ss", encrypted=False
)


def an_accounting(**spec: object) -> Accounting:
    metadata = ObjectMeta(name="slurm", namespace="lab", uid="u1", generation=1)
    return Accounting(metadata=metadata, spec=AccountingSpec(**spec))  # type: ignore[arg-type]


def test_the_database_is_as_in_the_golden_file() -> None:
    ours = an_accounting()

    made = (password_secret(ours, b"secret"), database_service(ours), database(ours, b"secret"))
    assert_golden(GOLDEN / "database.yaml", as_yaml(made))


def test_slurmdbd_is_as_in_the_golden_file() -> None:
    ours = an_accounting()
    made = (slurmdbd_service(ours), conf_secret(ours, "conf"), slurmdbd(ours, KEYS, "0123"))

    assert_golden(GOLDEN / "slurmdbd.yaml", as_yaml(made))


def test_slurmdbd_conf_is_as_in_the_golden_file() -> None:
    ours = an_accounting(extra_conf="PurgeJobAfter=12months\nDebugLevel=debug\n")
    encrypted = Storage(host="db", port=1, database="d", username="u", password="p q", encrypted=True)

    assert_golden(GOLDEN / "slurmdbd.conf", slurmdbd_conf(ours, encrypted))


@pytest.mark.parametrize("version", ["24.11", "26.05"])
def test_slurmdbd_conf_is_what_the_linter_takes(version: str) -> None:
    assert not errors(lint("slurmdbd.conf", slurmdbd_conf(an_accounting(version=version), STORAGE), version))


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("StoragePass=other", "line 1: StoragePass is set by Corral"),
        ("DebugLevl=debug", "did you mean DebugLevel?"),
        ("\nCommitDelay=soon", "line 2: CommitDelay is soon"),
    ],
)
def test_a_bad_extra_line_is_refused_with_its_number_and_reason(extra: str, told: str) -> None:
    with pytest.raises(ConfRefused, match=r"spec\.extraConf") as refused:
        slurmdbd_conf(an_accounting(extra_conf=extra), STORAGE)

    assert told in str(refused.value)


@pytest.mark.parametrize("password", ['qu"ote', "two\nlines", "null\0"])
def test_a_password_that_no_file_can_hold_is_refused_and_not_shown(password: str) -> None:
    storage = Storage(host="h", port=1, database="d", username="u", password=password)

    with pytest.raises(ConfRefused) as refused:
        slurmdbd_conf(an_accounting(), storage)
    assert password[:3] not in str(refused.value)
    assert password not in repr(storage)


def test_a_volume_that_is_there_is_used_instead_of_a_new_one() -> None:
    managed = ManagedDatabase(persistence=Volume(existing_claim="old-data"))
    made = database(an_accounting(managed=managed), b"secret")

    assert made.spec.volume_claim_templates == ()
    assert made.spec.template.spec is not None
    claims = [v.persistent_volume_claim for v in made.spec.template.spec.volumes if v.name == "data"]
    assert [claim.claim_name for claim in claims if claim] == ["old-data"]


def test_the_digest_tells_states_apart_and_needs_the_key() -> None:
    states = {
        digest(b"k", b"a", b"b"),
        digest(b"k", b"ab", b""),
        digest(b"k", b"", b"ab"),
        digest(b"other", b"a", b"b"),
    }

    assert len(states) == 4
