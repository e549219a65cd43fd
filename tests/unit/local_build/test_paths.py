from pathlib import Path

import pytest

from corral.local.errors import LocalError
from corral.local.paths import cache_dir, cluster_dir


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


def test_each_cluster_has_a_state_directory_of_its_own() -> None:
    assert cluster_dir("a", {"HOME": "/h"}) == Path("/h/.local/state/corral/a")
    assert cluster_dir("b", {"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/corral/b")


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a-", "1a", "a" * 17])
def test_a_name_that_is_no_plain_word_never_becomes_a_path(name: str) -> None:
    with pytest.raises(LocalError, match="cluster name"):
        cluster_dir(name)
