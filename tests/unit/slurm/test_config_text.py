"""The grammar, both ways. What the real parser makes of the same texts is in tests/integration/test_slurm_config.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.slurm.config.text import Fault, Line, Section, Setting, UnwritableError, parse, record, setting, write

KEYS = st.from_regex(r"[A-Za-z][A-Za-z0-9_.]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='"'), max_size=12)


def settings(text: str) -> list[tuple[int, str, str]]:
    return [(line.number, part.key, part.value) for line in parse(text).lines for part in line.settings]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Key=a", "a"),
        ("  Key = a  ", "a"),
        ("Key=a#b", "a"),
        ("Key=a\\#b", "a#b"),
        ('Key="a b"', "a b"),
        ('Key="a#b"', '"a'),
        ('Key=""', ""),
        ('Key="a"b', '"a"b'),
        ("Key=a\\\nb", "ab"),
        ("Key=a\\ \nb", "ab"),
        ("Key=a\\", "a"),
        ("Key=a\\\\", "a\\"),
        ("Key==a", "=a"),
        ("Key=a # c \\\n", "a"),
        ("Key=a\r", "a"),
    ],
)
def test_a_value_is_read_as_slurm_reads_it(text: str, value: str) -> None:
    assert settings(text) == [(1, "Key", value)]


def test_lines_are_numbered_where_they_begin() -> None:
    text = "# first\n\nA=1 \\\n  B=2\n\nC=3\n"

    assert settings(text) == [(3, "A", "1"), (3, "B", "2"), (6, "C", "3")]


def test_an_include_is_a_line_of_its_own() -> None:
    assert parse("include  /etc/slurm/nodes.conf # c\n").lines == (Line((), "/etc/slurm/nodes.conf", 1),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Key", "cannot be read from 'Key' on"),
        ("Key=", "expected Key=Value"),
        ("Key=a b", "from 'b' on"),
        ("Key-Name=1", "expected Key=Value"),
        ('Key="a b', "from 'b' on"),
        ("Key=a\0Other=b", "control character"),
        ("Key=a\rOther=b", "control character"),
    ],
)
def test_what_cannot_be_read_is_a_fault_with_its_line(text: str, says: str) -> None:
    faults = parse("Ok=1\n" + text).faults

    assert [fault.number for fault in faults] == [2]
    assert says in faults[0].reason


def test_a_fault_in_a_line_with_a_password_does_not_repeat_it() -> None:
    faults = parse("StoragePass=open sesame").faults

    assert faults == (Fault(1, "cannot be read from the value on: expected Key=Value"),)


@given(st.lists(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3), max_size=4))
def test_what_is_written_is_read_back(rows: list[list[tuple[str, str]]]) -> None:
    lines = [Line(tuple(Setting(key, value) for key, value in row)) for row in rows]

    document = parse(write([Section("all", tuple(lines))]))

    assert document.faults == ()
    assert [line.settings for line in document.lines] == [line.settings for line in lines]


@pytest.mark.parametrize("value", ["a\nSlurmUser=root", "a\r\nb", "a\0b", 'a" b', "a\u2028b", "a\x0bb", "a\n"])
def test_text_that_would_become_another_line_is_not_written(value: str) -> None:
    with pytest.raises(UnwritableError, match=r"line break|quote"):
        write([setting("Key", value)])


def test_a_key_or_a_title_cannot_smuggle_a_line_either() -> None:
    with pytest.raises(UnwritableError, match="key"):
        write([setting("A=1\nB", "2")])
    with pytest.raises(UnwritableError, match="line break"):
        write([Section("a\nB=1", (setting("A", 1),))])
    with pytest.raises(UnwritableError):
        write([Line((), include="a\nB=1")])


def test_sections_have_a_title_and_empty_ones_vanish() -> None:
    text = write([Section("general", (setting("ClusterName", "lab"),)), Section("empty", ())])

    assert text == "#\n### GENERAL ###\nClusterName=lab\n"


def test_a_record_keeps_its_order_and_quotes_blanks() -> None:
    line = record(NodeName="n[1-2]", CPUs=4, Reason="not yet")

    assert write([line]) == 'NodeName=n[1-2] CPUs=4 Reason="not yet"\n'


@given(st.text(max_size=60))
def test_any_text_is_read_without_an_exception(text: str) -> None:
    document = parse(text)

    assert all(isinstance(fault, Fault) for fault in document.faults)
