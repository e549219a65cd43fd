"""What the server adds to what it is given."""

import pytest

from corral.testing.contract import POD, World

CONTAINERS = [{"name": "main", "image": "none"}]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        pytest.param([], {"not-ready": 300, "unreachable": 300}, id="nothing said"),
        pytest.param(
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            {"not-ready": None, "unreachable": 300},
            id="one of them said",
        ),
        pytest.param([{"operator": "Exists", "effect": "NoExecute"}], {"": None}, id="whatever drives out"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoSchedule"}],
            {"": None, "not-ready": 300, "unreachable": 300},
            id="only what keeps out",
        ),
    ],
)
async def test_a_pod_tolerates_a_lost_node_for_five_minutes_unless_it_says_for_how_long(
    world: World, said: list[dict[str, str]], seconds: dict[str, int | None]
) -> None:
    spec = {"containers": CONTAINERS, "schedulerName": "nobody", "tolerations": said}
    made = await world.create(world.thing(POD, "a", spec=spec))

    found = made.get("spec", "tolerations")
    assert isinstance(found, tuple)
    assert {one.get("key", "").rpartition("/")[2]: one.get("tolerationSeconds") for one in found} == seconds
