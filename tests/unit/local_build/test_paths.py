from pathlib import Path

import pytest

from corral.local.errors import LocalError
from corral.local.paths import SOCKET_PATH_BYTES_MAX, cache_dir, socket_path


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"HOME": "/h"}, "/h/.cache/corral", id="nothing said"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/corral", id="XDG"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": "c"}, "/h/.cache/corral", id="a relative XDG path is ignored"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": "/c", "CORRAL_CACHE": "/own"}, "/own", id="our own wins"),
    ],
)
def test_the_cache_is_where_the_user_says(environment: dict[str, str], expected: str) -> None:
    assert cache_dir(environment) == Path(expected)


def test_a_relative_cache_of_ours_is_refused_with_its_value() -> None:
    with pytest.raises(LocalError, match=r"CORRAL_CACHE is 'here': expected an absolute path"):
        cache_dir({"CORRAL_CACHE": "here"})


def test_a_socket_path_may_be_as_long_as_allowed_and_not_a_byte_longer() -> None:
    directory = Path("/run/corral")
    longest = "s" * (SOCKET_PATH_BYTES_MAX - len("/run/corral/"))

    assert socket_path(directory, longest).name == longest
    with pytest.raises(LocalError, match="has 100 bytes"):
        socket_path(directory, longest + "s")


def test_the_length_of_a_socket_path_is_counted_in_bytes() -> None:
    with pytest.raises(LocalError, match="bytes"):
        socket_path(Path("/run"), "ü" * 50)
