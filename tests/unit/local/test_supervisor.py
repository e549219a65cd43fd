from pathlib import Path

import msgspec
import pytest

from corral.local.errors import LocalError
from corral.local.home import Home, write
from corral.local.processes import Identity
from corral.local.supervision import Record
from corral.local.supervisor import damaged_records, read_components, read_records

KEPT = Record(process=Identity(7, 70), revision="1", started_at_s=1000.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"\0\0\0\0", b'{"process":{"pid":7', b"{}", b"\xff"])
def test_a_damaged_record_hides_no_other(home: Home, damage: bytes) -> None:
    write(home.record("api"), msgspec.json.encode(KEPT))
    write(home.record("etcd"), damage)

    assert read_records(home) == {"api": KEPT}
    assert damaged_records(home) == (home.record("etcd"),)


def test_a_damaged_list_of_components_is_told_with_the_way_out(home: Home) -> None:
    write(home.components, b"[{")

    with pytest.raises(LocalError, match=r"components\.json is damaged .*corral up"):
        read_components(home)
