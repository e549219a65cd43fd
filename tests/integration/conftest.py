"""What tests of a real API server share."""

from collections.abc import Iterator

import pytest

from corral.testing.cluster import Cluster
from tests.integration.wukonglife import definitions


@pytest.fixture(scope="module")
def wukong_definitions(corral_cluster: Cluster) -> Iterator[None]:
    """Of all that a Wukong is made of."""
    with definitions(corral_cluster):
        yield
