"""Sets of slurm keys: what Slurm reads, and how one key follows another without a moment in which two do not agree."""

import itertools
import json

import pytest

from corral.kinds.controller import keyset
from corral.kinds.controller.keyset import KeySet, Stage

OLD, NEW = b"o" * 64, b"n" * 64


def way(wanted: int) -> list[KeySet]:
    """All sets from the first one to the last, the last one twice."""
    sets = [keyset.first(0, OLD)]
    while len(sets) < 2 or sets[-1] != sets[-2]:
        sets.append(keyset.following(sets[-1], wanted, NEW))
    return sets


def test_a_new_key_is_known_before_it_signs_and_the_old_one_goes_last() -> None:
    said = [([key.number for key in keys.keys], keys.signing) for keys in way(1)]
    assert said == [([0], 0), ([0, 1], 0), ([0, 1], 1), ([1], 1), ([1], 1)]
    assert [keys.stage for keys in way(1)[:4]] == [Stage.SETTLED, Stage.INTRODUCED, Stage.SIGNING, Stage.SETTLED]


def test_whoever_is_one_step_behind_understands_and_is_understood() -> None:
    sets = way(1)
    for earlier, later in itertools.pairwise(sets):
        assert earlier.signing in {key.number for key in later.keys}
        assert later.signing in {key.number for key in earlier.keys}


def test_several_rotations_asked_for_at_once_are_one() -> None:
    assert [key.number for key in way(7)[-1].keys] == [7]
    assert len(way(7)) == len(way(1))


def test_a_counter_that_goes_down_changes_nothing() -> None:
    settled = keyset.first(3, OLD)
    assert keyset.following(settled, 1, NEW) == settled


def test_a_rotation_asked_for_during_another_ends_with_the_latest_key() -> None:
    during = keyset.following(keyset.first(0, OLD), 1, NEW)
    third = keyset.following(during, 2, b"t" * 64)
    assert [key.number for key in third.keys] == [0, 1, 2]
    assert third.signing == 0


@pytest.mark.parametrize("keys", way(1))
def test_what_is_written_is_read_again(keys: KeySet) -> None:
    assert keyset.parsed(keyset.encoded(keys)) == keys


def test_slurm_finds_one_key_that_signs_by_default() -> None:
    written = json.loads(keyset.encoded(way(1)[2]))["keys"]
    assert [(key["kid"], key.get("use")) for key in written] == [("0", None), ("1", "default")]
    assert {(key["alg"], key["kty"]) for key in written} == {("HS256", "oct")}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not json",
        b'{"keys":[]}',
        b'{"keys":[{"kid":"theirs","k":"AAAA","use":"default"}]}',
        b'{"keys":[{"kid":"1","k":"AAAA"}]}',
        b'{"keys":[{"kid":"1","k":"AAAA","use":"default"},{"kid":"1","k":"AAAA"}]}',
    ],
)
def test_what_is_not_ours_is_not_taken_for_a_set(text: bytes) -> None:
    assert keyset.parsed(text) is None


def test_no_key_is_shown() -> None:
    assert "o" * 10 not in repr(way(1)[1])
