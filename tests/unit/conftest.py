import io
from collections.abc import Iterator

import pytest

from corral.local.progress import Progress, Step


@pytest.fixture
def step() -> Iterator[Step]:
    """A step whose display nobody sees."""
    with Progress(("step",), stream=io.StringIO(), environment={}).step("step") as step:
        yield step
