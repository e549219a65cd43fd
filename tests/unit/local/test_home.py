import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.local.errors import LocalError
from corral.local.home import Home, locked, write
from corral.local.spec import Spec


def test_a_cluster_that_was_never_described_has_no_spec(tmp_path: Path) -> None:
    assert Home(tmp_path).read_spec() is None


def test_a_spec_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write(Home(tmp_path).spec_file, b'{"name":"dev","node_count":2,"block":3}')

    assert Home(tmp_path).read_spec() == Spec("dev", 2, 3)


def test_a_damaged_spec_is_told_with_the_way_out(tmp_path: Path) -> None:
    write(Home(tmp_path).spec_file, "{")

    with pytest.raises(LocalError, match=f"damaged.*corral down --name {tmp_path.name}"):
        Home(tmp_path).read_spec()


def test_a_file_that_cannot_be_replaced_is_left_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()

    with pytest.raises(OSError, match="taken"):
        write(target, "new")
    assert os.listdir(tmp_path) == ["taken"]


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """No file may grow, as on a full disk. Not as a fixture: the report of pytest may go to a file too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_for_which_there_is_no_room_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large") as refusal, no_room():
        write(tmp_path / "wanted", "new")

    assert refusal.value.filename == str(tmp_path / "wanted")
    assert os.listdir(tmp_path) == []


def test_a_lock_makes_its_directory_and_leaves_it_usable(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b"):
        pass
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
