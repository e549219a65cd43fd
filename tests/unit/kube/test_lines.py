from hypothesis import given
from hypothesis import strategies as st

from corral.kube.lines import Lines


def cut(data: bytes, at: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in at})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


@given(st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b)), st.lists(st.integers(0, 300)))
def test_lines_come_whole_however_the_stream_is_torn(lines: list[bytes], at: list[int]) -> None:
    splitter = Lines()
    got = [line for chunk in cut(b"".join(line + b"\n" for line in lines), at) for line in splitter.feed(chunk)]

    assert got == lines
    assert splitter.rest() == b""


def test_what_follows_the_last_end_of_line_is_the_rest() -> None:
    splitter = Lines()

    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.rest() == b"tw"
    assert splitter.rest() == b""
