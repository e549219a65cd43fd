"""`corral up` as a person types it: from nothing to a first job, again without work, and down without a trace.

It is ended at every step on the way; the one that is not ended takes it from there.

The same cluster then is somebody's: Corral goes from it and comes back by `--context`, with images from elsewhere.
"""

import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
import yaml

from corral.install.rbac import NAMESPACE
from corral.install.up import image_references
from corral.local.checkout import recipes_of
from corral.local.home import home_of
from corral.local.images import import_archive
from corral.local.spec import Spec
from corral.testing.cluster import Cluster, corral
from corral.testing.hosttraces import stays_different, traces
from corral.testing.localcluster import down, interrupt_up
from images.build import archive_path

pytestmark = pytest.mark.cluster

NAME = "e2e-up"
WORKERS = ("worker-0", "worker-1", "worker-2")
METRICS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/metrics', timeout=30).read().decode())"


CONTEXT, LAB, MIRROR = "theirs", "lab", "mirror.example/team"
COMMAND = (sys.executable, "-c", "from corral.cli.main import main; main()")


# Those before, which need no image and no Corral, are in test_cluster_life.
MOMENTS = (
    ("Images into the nodes ...", signal.SIGINT),
    ("Images into the nodes ...", signal.SIGKILL),
    ("Corral ...", signal.SIGINT),
    ("Corral ...", signal.SIGKILL),
    ("Slurm cluster ...", signal.SIGINT),
    ("Slurm cluster ...", signal.SIGKILL),
    ("First job ...", signal.SIGINT),
    ("First job ...", signal.SIGKILL),
)


class Up:
    """What `corral up` said, and the cluster that it left."""

    def __init__(self) -> None:
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
def before() -> frozenset[str]:
    """What the machine has without the cluster."""
    return traces(Spec(NAME, 1, 0))


@pytest.fixture(scope="module")
def up(before: frozenset[str]) -> Iterator[Up]:
    for moment, sign in MOMENTS:
        interrupt_up(NAME, sign, moment)
    yield Up()
    corral("down", "--name", NAME)


def test_up_ends_with_a_first_job_over_all_workers_and_says_what_to_try_next(up: Up) -> None:
    job = re.search(r"^\$ srun -N3 hostname\n(.*?)\n\$ sinfo\n(.*?)\n\n", up.said, re.DOTALL | re.MULTILINE)
    assert job is not None, up.said
    assert tuple(sorted(job[1].split())) == WORKERS
    assert re.search(r"\bup\b.* 3 +(idle|mix|alloc|comp)\S* +worker-\[0-2\]", job[2]), job[2]
    assert f"export KUBECONFIG={home_of(NAME).kubeconfig}" in up.said
    assert f"corral down --name {NAME}" in up.said


def test_the_shell_that_is_named_is_a_users_whose_jobs_write_into_their_home(up: Up) -> None:
    named = re.search(r" -- exec -it (\S+) -- (su - \w+) +#", up.said)
    assert named is not None, up.said
    script = "sbatch -W --wrap hostname >/dev/null && cat slurm-*.out"
    assert up.cluster.kubectl("exec", named[1], "--", *named[2].split(), "-c", script, timeout_s=120).strip() in WORKERS


def test_a_job_submitted_where_slurmctld_runs_can_write_its_output(up: Up) -> None:
    up.cluster.kubectl("exec", "demo-controller-0", "--", "sbatch", "-W", "--wrap", "hostname", timeout_s=120)


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


class Person:
    """Somebody with a cluster: they have a kubeconfig, whose context names a namespace."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["contexts"] = [{"name": CONTEXT, "context": {**config["contexts"][0]["context"], "namespace": LAB}}]
        config["current-context"] = "none"
        (folder / "config").write_text(yaml.safe_dump(config))
        self.environment = {**os.environ, "KUBECONFIG": str(folder / "config")}

    def corral(self, *arguments: str, code: int = 0) -> str:
        command = [*COMMAND, *arguments, "--context", CONTEXT]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=self.environment)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"corral {' '.join(arguments)} ended with {done.returncode}:\n{said[-4000:]}"
        return said

    def named(self, *kinds: str) -> str:
        return self.cluster.kubectl("get", ",".join(kinds), "-A", "-o", "name")


@pytest.fixture
def person(up: Up, tmp_path: Path) -> Person:
    return Person(up.cluster, tmp_path)


def elsewhere(archive: Path, name: str, folder: Path) -> Path:
    """The same image under another name, as a registry would have it."""
    copy = folder / f"{name.replace('/', '_')}.tar"
    with tarfile.open(archive) as source, tarfile.open(copy, "w") as target:
        for member in source.getmembers():
            content = source.extractfile(member)
            assert content is not None
            if member.name == "manifest.json":
                renamed = json.dumps([{**json.load(content)[0], "RepoTags": [name]}]).encode()
                member.size, content = len(renamed), io.BufferedReader(io.BytesIO(renamed))
            target.addfile(member, content)
    return copy


def test_a_persons_operator_stands_by_while_the_installed_one_leads(person: Person) -> None:
    command = [*COMMAND, "run", "--health-port", "0", "--context", CONTEXT]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=person.environment) as operator:
        assert operator.stderr is not None
        guard = Timer(300, operator.kill)  # whatever it does, its output ends
        guard.start()
        try:
            first = operator.stderr.readline().decode()
            assert f"leads (Lease {NAMESPACE}/corral): this operator stands by until that one stops" in first
            assert any(b"caches synced" in line for line in operator.stderr)
            operator.send_signal(signal.SIGTERM)
            assert b"leading" not in operator.stderr.read()
            assert operator.wait(timeout=60) == 0
        finally:
            guard.cancel()
            operator.kill()


def test_corral_goes_from_somebodys_cluster_and_comes_back_with_images_from_elsewhere(
    person: Person, tmp_path: Path
) -> None:
    gone = person.corral("down")
    assert f"gone from context {CONTEXT}" in gone
    assert "slurm.corral.dev" not in person.named("crd", "clusterrole")
    assert f"namespace/{NAMESPACE}" not in person.named("ns")

    person.cluster.kubectl("create", "namespace", LAB)
    recipes = recipes_of(image_references())
    for recipe, name in zip(recipes, image_references(MIRROR), strict=True):
        import_archive(NAME, elsewhere(archive_path(recipe), name, tmp_path))
    said = person.corral("up", "--image-prefix", MIRROR)
    assert re.search(r"^\$ srun -N3 hostname\n(worker-\d\n){3}\$ sinfo\n", said, re.MULTILINE), said
    assert f"Slurm cluster in namespace {LAB} of context {CONTEXT}" in said
    assert f"corral down --context {CONTEXT}" in said
    template = "{.items[*].spec.containers[*].image} {.items[*].spec.initContainers[*].image}"
    images = person.cluster.kubectl("get", "pods", "-n", LAB, "-o", f"jsonpath={template}").split()
    assert {image for image in images if not image.startswith(f"{MIRROR}/")} == set()
    rows = json.loads(person.corral("status", "-o", "json"))["items"]
    assert {(row["namespace"], row["ready"]) for row in rows} == {(LAB, True)}


def test_corral_stays_while_somebody_needs_it_and_goes_then_and_data_stays(person: Person) -> None:
    theirs = "apiVersion: slurm.corral.dev/v1alpha1\nkind: Token\nmetadata: {name: theirs}\n"
    spec = "spec: {controllerRef: {name: other}, username: alice}\n"
    person.cluster.kubectl("apply", "-n", "default", "-f", "-", stdin=theirs + spec)
    assert "Corral was not removed: that would delete Token default/theirs too" in person.corral("down", code=2)
    assert person.named("controllers", "nodesets") == ""
    person.cluster.kubectl("delete", "token", "theirs", "-n", "default", "--timeout=60s", timeout_s=90)

    said = person.corral("down")
    kept = re.search(rf"kubectl --context {CONTEXT} -n {LAB} delete pvc (.*?)  ", said)
    assert kept is not None, said
    assert "demo-home" in kept[1].split()
    claims = person.cluster.kubectl("get", "pvc", "-n", LAB, "-o", "jsonpath={.items[*].metadata.name}")
    assert sorted(claims.split()) == sorted(kept[1].split())
    assert f"namespace/{NAMESPACE}" not in person.named("ns")


def test_down_leaves_nothing_also_of_an_up_that_was_ended(up: Up, before: frozenset[str]) -> None:
    interrupt_up(NAME, signal.SIGKILL, "Slurm cluster ...")
    spec = home_of(NAME).read_spec()
    assert isinstance(spec, Spec)
    down(NAME)
    assert not home_of(NAME).path.exists()
    assert stays_different(before, spec) == []
