"""The objects of a Controller, like golden files that people read."""

from pathlib import Path

import pytest

from corral.kinds.controller.plan import plan
from corral.kinds.controller.spec import Controller
from corral.kinds.parts import KeyRef, PodTemplate, Volume
from corral.kube.models.core_v1 import ConfigMap, Secret
from tests.unit.kinds.controller.builders import a_controller, a_secret, a_snapshot, made_by
from tests.unit.kinds.golden import as_yaml, assert_golden

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("name", "controller"),
    [
        pytest.param("plain", a_controller(), id="nothing said"),
        pytest.param("older", a_controller(version="24.11"), id="24.11 has no HTTP to probe"),
        pytest.param(
            "overridden",
            a_controller(
                jwt_key_ref=KeyRef(name="mine", key="k"),
                persistence=Volume(existing_claim="kept"),
                slurmctld={"resources": {"requests": {"cpu": "1"}}},
                template=PodTemplate(labels={"team": "hpc"}, spec={"nodeSelector": {"role": "infra"}}),
            ),
            id="the user's own",
        ),
    ],
)
def test_the_objects_are_like_the_golden_file(name: str, controller: Controller) -> None:
    decided = plan(a_snapshot(controller, secrets={"mine": a_secret("mine", {"k": b"key"})}))
    shown = [one for one in made_by(decided) if not isinstance(one, ConfigMap | Secret)]

    assert_golden(GOLDEN / f"{name}.yaml", as_yaml(shown))
