"""What a file of manifests becomes, without any cluster."""

from pathlib import Path

from corral.cli.loading import manifests_in
from corral.cli.render import rendered
from corral.kinds.registry import KINDS
from corral.kube.meta import ref

QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart.yaml"


async def test_manifests_of_one_file_find_each_other_and_what_the_others_make() -> None:
    made = {str(ref(obj)) for obj in await rendered(manifests_in(QUICKSTART, KINDS, "lab"))}

    assert made >= {
        "StatefulSet lab/demo-database",
        "ConfigMap lab/demo-config",
        "StatefulSet lab/demo-controller",
        "Deployment lab/demo-restapi",
        "Pod lab/worker-2",
    }


async def test_what_waits_for_something_that_is_nowhere_makes_nothing_of_it(tmp_path: Path) -> None:
    alone = "---\n".join(part for part in QUICKSTART.read_text().split("---\n") if "kind: NodeSet" in part)
    file = tmp_path / "alone.yaml"
    file.write_text(alone)

    assert await rendered(manifests_in(file, KINDS, "lab")) == ()
