import subprocess
import sys
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


def test_a_supervisor_lives_on_when_its_log_takes_no_more() -> None:
    script = "from corral.local.supervisor import _say; _say('a component died'); print('still here')"

    with open("/dev/full", "w") as full_disk:
        said = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=full_disk, text=True)

    assert (said.stdout, said.returncode) == ("still here\n", 0)
