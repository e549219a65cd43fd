"""`corral up` as a person types it: from nothing to a first job, again without work, and down without a trace."""

import re
from collections.abc import Iterator

import pytest

from corral.install.rbac import NAMESPACE
from corral.local.home import existing_names, home_of
from corral.local.spec import Spec
from corral.testing.cluster import Cluster, corral
from corral.testing.hosttraces import left_behind, traces
from corral.testing.localcluster import down

pytestmark = pytest.mark.cluster

NAME = "e2e-up"
WORKERS = ("worker-0", "worker-1", "worker-2")
METRICS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/metrics', timeout=30).read().decode())"


class Up:
    """What `corral up` said, and the cluster that it left."""

    def __init__(self) -> None:
        self.before = traces(Spec(NAME, 1, 0))
        done = corral("up", "--name", NAME)
        assert done.returncode == 0, done.stderr[-4000:]
        self.said, self.progress = done.stdout, done.stderr
        self.cluster = Cluster(home_of(NAME).kubeconfig, NAME)

    def in_operator(self, *command: str) -> str:
        return self.cluster.kubectl("exec", "deploy/corral", "-n", NAMESPACE, "--", *command, timeout_s=120)

    def pods(self) -> dict[str, str]:
        template = '{range .items[*]}{.metadata.name}={.metadata.uid}{"\\n"}{end}'
        listed = self.cluster.kubectl("get", "pods", "-A", "-o", f"jsonpath={template}")
        return dict(line.split("=") for line in listed.split())

    def forbidden(self) -> list[str]:
        counted = [
            line for line in self.in_operator("python3", "-c", METRICS).splitlines() if "requests_total{" in line
        ]
        assert counted
        return [line for line in counted if 'code="403"' in line]


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    yield Up()
    corral("down", "--name", NAME)


def test_up_ends_with_a_first_job_over_all_workers_and_says_what_to_try_next(up: Up) -> None:
    job = re.search(r"^\$ srun -N3 hostname\n(.*?)\n\$ sinfo\n(.*?)\n\n", up.said, re.DOTALL | re.MULTILINE)
    assert job is not None, up.said
    assert tuple(sorted(job[1].split())) == WORKERS
    assert re.search(r"\bup\b.* 3 +(idle|mix|alloc|comp)\S* +worker-\[0-2\]", job[2]), job[2]
    assert f"export KUBECONFIG={home_of(NAME).kubeconfig}" in up.said
    assert f"corral down --name {NAME}" in up.said


def test_the_operator_is_nobody_special_and_writes_nowhere(up: Up) -> None:
    assert up.in_operator("id", "-u").strip() == "65532"
    denied = up.cluster.try_kubectl("exec", "deploy/corral", "-n", NAMESPACE, "--", "touch", "/tmp/x")
    assert "Read-only file system" in denied.stderr


def test_a_second_up_changes_nothing_and_runs_a_job_again(up: Up) -> None:
    before = up.pods()
    again = Up()
    assert "Images into the nodes: done in" in again.progress
    assert "(all were there)" in again.progress
    assert re.search(r"corral/corral:\S+: cached", again.progress)
    assert "$ srun -N3 hostname" in again.said
    assert again.pods() == before


def test_with_its_own_rights_the_operator_scales_in_and_takes_everything_away_and_nothing_is_forbidden(up: Up) -> None:
    kubectl = up.cluster.kubectl
    kubectl("scale", "nodeset", "worker", "--replicas=2")
    kubectl("wait", "--for=delete", "pod/worker-2", "--timeout=180s", timeout_s=200)
    kubectl("delete", "slurm", "--all", "--timeout=240s", timeout_s=260)
    assert up.forbidden() == []


def test_down_leaves_nothing(up: Up) -> None:
    spec = home_of(NAME).read_spec()
    assert isinstance(spec, Spec)
    down(NAME)
    others = tuple(other for name in existing_names() if (other := home_of(name).read_spec()))
    assert not home_of(NAME).path.exists()
    assert left_behind(up.before, traces(spec), others) == []
