import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.kube.lines import LINE_BYTES_MAX, Lines, LineTooLong


def cut(data: bytes, at: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in at})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b)), st.lists(st.integers(0, 300)))
def test_lines_come_whole_however_the_stream_is_torn(lines: list[bytes], at: list[int]) -> None:
    splitter = Lines()
    whole = b"".join(line + b"\n" for line in lines)
    pieces = [splitter.feed(chunk) for chunk in cut(whole, at)]

    assert b"".join(pieces) == whole
    assert all(piece.endswith(b"\n") for piece in pieces if piece)
    assert splitter.rest() == b""


def test_what_follows_the_last_end_of_line_is_the_rest() -> None:
    splitter = Lines()

    assert splitter.feed(b"one\ntw") == b"one\n"
    assert splitter.rest() == b"tw"
    assert splitter.rest() == b""


def test_a_line_without_end_is_given_up_before_it_fills_the_memory() -> None:
    splitter = Lines()
    splitter.feed(bytes(LINE_BYTES_MAX))

    with pytest.raises(LineTooLong):
        splitter.feed(b"x")
