"""The commands, as a person types them, on a real cluster with the example kind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.local import builds
from corral.testing.cluster import Cluster
from tests.kept_operator import COMMAND, KeptOperator

pytestmark = pytest.mark.cluster

NOTE = str(Path(__file__).parents[2] / "examples" / "note.py")
MANIFEST = """
apiVersion: demo.corral.dev/v1alpha1
kind: Note
metadata: {{name: hello}}
spec: {{text: {text}, copies: {copies}}}
"""


class Person:
    """Somebody with a terminal, in a namespace of a cluster."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.folder = folder
        self.environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}

    def corral(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *arguments, "--load", NOTE, "-n", self.namespace]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=90, check=False, env=self.environment, cwd=self.folder
        )

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.cluster.kubectl(*arguments, "-n", self.namespace, stdin=stdin)

    def manifest(self, *, text: str = "Hello", copies: int = 2) -> str:
        file = self.folder / "note.yaml"
        file.write_text(MANIFEST.format(text=text, copies=copies))
        return str(file)


@pytest.fixture
def person(corral_cluster: Cluster, corral_namespace: str, tmp_path: Path) -> Person:
    crds = subprocess.run([*COMMAND, "crds", "--load", NOTE], capture_output=True, text=True, check=True).stdout
    corral_cluster.define(crds)
    return Person(corral_cluster, corral_namespace, tmp_path)


@pytest.fixture
def operator(person: Person) -> Iterator[None]:
    options = ("--load", NOTE, "--health-port", "0", "--lease-namespace", person.namespace)
    kept = KeptOperator(*options, environment=person.environment, log=person.folder / "operator.log")
    yield
    kept.stop()


def test_plan_shows_what_would_happen_and_exits_as_kubectl_diff_does(person: Person) -> None:
    planned = person.corral("plan", "-f", person.manifest(), "--diff")

    assert planned.returncode == 1, planned.stderr
    assert f"create ConfigMap {person.namespace}/hello-0: the ConfigMap does not exist yet (Missing)" in planned.stdout
    assert "+  text: Hello" in planned.stdout
    assert "hello" not in person.kubectl("get", "configmaps", "-o", "name")


def test_programs_read_plans_renderings_and_states_as_json(person: Person) -> None:
    manifest = person.manifest()
    planned = person.corral("plan", "-f", manifest, "-o", "json")
    assert planned.returncode == 1
    (found,) = json.loads(planned.stdout)["items"]
    assert [action["kind"] for action in found["actions"]] == ["ConfigMap", "ConfigMap"]

    rendered = person.corral("render", "-f", manifest, "-o", "json")
    assert [item["kind"] for item in json.loads(rendered.stdout)["items"]] == ["ConfigMap", "ConfigMap"]
    assert person.corral("render", "-f", manifest).stdout.count("kind: ConfigMap") == 2
    assert json.loads(person.corral("status", "-o", "json").stdout)["items"] == []


def test_kubectl_finds_corral_as_a_plugin(person: Person) -> None:
    person.kubectl("apply", "-f", person.manifest())
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [str(builds.binary("kubectl")), "corral", "status", "--load", NOTE, "-n", person.namespace]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=90, check=False, env={**person.environment, "PATH": path}
    )

    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout


def test_what_is_applied_becomes_true_and_the_plan_empty(person: Person, operator: None) -> None:
    person.kubectl("apply", "-f", person.manifest(copies=3))
    ready = person.corral("status", "--wait", "-o", "json")

    assert ready.returncode == 0, ready.stdout + ready.stderr
    assert [row["ready"] for row in json.loads(ready.stdout)["items"]] == [True]
    assert person.kubectl("get", "notes", "hello", "-o", "jsonpath={.status.copies}") == "3"
    assert person.corral("plan", "note", "hello").returncode == 0
    for all_of_them in (("plan",), ("plan", "note")):
        planned = person.corral(*all_of_them)
        assert planned.returncode == 0, planned.stderr
        assert planned.stdout == f"Note {person.namespace}/hello\n  nothing to do\n"


def test_scaling_in_prunes_and_drift_is_put_back_and_told(person: Person, operator: None) -> None:
    person.kubectl("apply", "-f", person.manifest())
    person.kubectl("wait", "--for=condition=Ready", "note/hello", "--timeout=60s")

    person.kubectl("patch", "configmap", "hello-0", "--type=merge", "-p", '{"data": {"text": "no", "own": "kept"}}')
    person.kubectl("wait", "--for=jsonpath={.data.text}=Hello", "configmap/hello-0", "--timeout=60s")
    person.kubectl("scale", "note", "hello", "--replicas=1")
    person.kubectl("wait", "--for=delete", "configmap/hello-1", "--timeout=60s")

    assert person.kubectl("get", "configmap", "hello-0", "-o", "jsonpath={.data.own}") == "kept"
    explained = person.corral("explain", "note", "hello")
    assert f"ConfigMap {person.namespace}/hello-0: someone else changed data.text; reverted" in explained.stdout


def test_what_the_schema_forbids_is_refused_at_once_with_the_field(person: Person) -> None:
    refused = person.cluster.try_kubectl("apply", "-n", person.namespace, "-f", person.manifest(copies=51))

    assert refused.returncode != 0
    assert "spec.copies" in refused.stderr
    planned = person.corral("plan", "-f", person.manifest(copies=51))
    assert planned.returncode == 2
    assert "at `$.spec.copies`" in planned.stderr


@pytest.mark.parametrize(
    ("kubeconfig", "says"),
    [
        ("", "no such file"),
        ("{", "not YAML"),
        ("apiVersion: v1\nkind: Config\ncurrent-context: lab\n", "lab"),
    ],
)
def test_a_broken_kubeconfig_is_one_sentence_and_a_code(kubeconfig: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    if kubeconfig:
        file.write_text(kubeconfig)
    command = [*COMMAND, "status", "--kubeconfig", str(file)]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert failed.returncode == 2
    assert says in failed.stderr
    assert failed.stderr.count("\n") == 1
