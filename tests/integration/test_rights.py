"""The operator under exactly the rights of deploy/: nothing is forbidden; with one verb less, something is."""

import json
import os
import re
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from corral.engine.controller import confined
from corral.install.generated import manifests
from corral.install.manifests import read_deploy
from corral.install.rbac import namespaced_objects, operator_objects
from corral.kinds.registry import KINDS
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.rbac_v1 import ClusterRole, ClusterRoleBinding, RoleBinding, RoleRef
from corral.testing.cluster import Cluster
from corral.testing.localcluster import until
from tests.kept_operator import KeptOperator

pytestmark = pytest.mark.cluster

WITHIN_S = 180
MADE = (
    "statefulset/demo-database",
    "statefulset/demo-controller",
    "deployment/demo-restapi",
    "pod/worker-0",
    "persistentvolumeclaim/box-root",
)
MANIFESTS = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Accounting
metadata: {name: demo}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {name: demo}
spec: {accountingRef: {name: demo}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: RestApi
metadata: {name: demo}
spec: {controllerRef: {name: demo}}
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: worker}
spec: {controllerRef: {name: demo}, replicas: 1}
---
apiVersion: vm.corral.dev/v1alpha1
kind: Wukong
metadata: {name: box}
spec: {cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Mi}]}
"""
EVERYTHING = "nodesets,restapis,controllers,accountings,wukongs"


class Restricted:
    """A cluster seen by a service account that may do what the operator may, and a namespace of its own."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, stdin=stdin, timeout_s=WITHIN_S + 20)

    def grant(self, objects: tuple[Object, ...]) -> None:
        """The generated objects, for a service account in the test's namespace in place of corral-system."""
        self.make_account()
        self.kubectl("apply", "-f", "-", stdin=manifests(map(self._moved, objects)))

    def make_account(self) -> None:
        self.kubectl("create", "serviceaccount", "corral")
        # An operator outside of a pod looks once whether there is a namespace for its Lease.
        self.kubectl("create", "role", "look", "--verb=get", "--resource=namespaces")
        self.kubectl("create", "rolebinding", "look", "--role=look", f"--serviceaccount={self.namespace}:corral")

    def kubeconfig(self) -> Path:
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": self.kubectl("create", "token", "corral").strip()}
        file = self.folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file

    @contextmanager
    def operator(self, *more: str) -> Iterator["Restricted"]:
        options = [*more, "--health-port", "0", "--lease-namespace", self.namespace, "--log-format", "json"]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig())}
        kept = KeptOperator(*options, environment=environment, log=self.log)
        try:
            yield self
        except AssertionError as error:
            error.add_note(f"rights that were missing: {self.missing() or 'none'}")
            raise
        finally:
            kept.stop()

    @property
    def log(self) -> Path:
        return self.folder / "operator.log"

    def refused(self) -> int:
        """How many requests the server has forbidden so far, by the operator's own count."""
        until("the operator has asked for something", lambda: bool(self._counted()), 90)
        return sum(int(float(line.split()[-1])) for line in self.forbidden())

    def forbidden(self) -> list[str]:
        return [line for line in self._counted() if 'code="403"' in line]

    def missing(self) -> list[str]:
        """In the server's words, from the operator's log."""
        said = self.log.read_text().replace('\\"', '"')
        return sorted(set(re.findall(r'cannot (\w+ resource "[^"]+" in API group "[^"]*")', said)))

    def _counted(self) -> list[str]:
        port = self._port()
        if not port:
            return []
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        return [line for line in lines if line.startswith("rest_client_requests_total{")]

    def _port(self) -> int:
        lines = self.log.read_text().splitlines()
        said = [json.loads(line) for line in lines if line.startswith("{")]
        return next((int(line["port"]) for line in said if line["event"] == "answering"), 0)

    def _moved(self, obj: Object) -> Object:
        name = f"{self.namespace}-{obj.metadata.name}" if not obj.resource.namespaced else obj.metadata.name
        metadata = ObjectMeta(name=name, namespace=self.namespace if obj.resource.namespaced else "")
        if not isinstance(obj, ClusterRoleBinding | RoleBinding):
            return msgspec.structs.replace(obj, metadata=metadata)
        subjects = tuple(msgspec.structs.replace(each, namespace=self.namespace) for each in obj.subjects)
        named = name if isinstance(obj, ClusterRoleBinding) else obj.role_ref.name
        role = RoleRef(api_group=obj.role_ref.api_group, kind=obj.role_ref.kind, name=named)
        return msgspec.structs.replace(obj, metadata=metadata, subjects=subjects, role_ref=role)


@pytest.fixture
def restricted(corral_cluster: Cluster, corral_namespace: str, tmp_path: Path) -> Iterator[Restricted]:
    definitions = [document for document in read_deploy() if document["kind"] == "CustomResourceDefinition"]
    corral_cluster.define(yaml.safe_dump_all(dict(definition) for definition in definitions))
    found = Restricted(corral_cluster, corral_namespace, tmp_path)
    yield found
    # Whoever was to take the finalizer away is gone.
    for held in found.kubectl("get", "nodesets,wukongs", "-o", "name").split():
        found.kubectl("patch", held, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    for kind in ("clusterrole", "clusterrolebinding"):
        names = (f"{corral_namespace}-corral", f"{corral_namespace}-corral-{corral_namespace}")
        corral_cluster.kubectl("delete", kind, *names, "--ignore-not-found")


def rights() -> tuple[Object, ...]:
    return operator_objects(entry.build() for entry in KINDS)


def without(verb: str, resource: str, objects: tuple[Object, ...]) -> tuple[Object, ...]:
    """The same rights, but for one verb on one resource."""

    def lessened(role: ClusterRole) -> ClusterRole:
        rules = []
        for rule in role.rules or ():
            others = tuple(name for name in rule.resources if name != resource)
            rules.append(msgspec.structs.replace(rule, resources=others))
            if resource in rule.resources:
                verbs = tuple(each for each in rule.verbs if each != verb)
                rules.append(msgspec.structs.replace(rule, resources=(resource,), verbs=verbs))
        return msgspec.structs.replace(role, rules=tuple(rule for rule in rules if rule.resources and rule.verbs))

    return tuple(lessened(obj) if isinstance(obj, ClusterRole) else obj for obj in objects)


def test_with_the_rights_of_deploy_everything_is_made_and_taken_away_and_nothing_is_forbidden(
    restricted: Restricted,
) -> None:
    restricted.grant(rights())
    with restricted.operator():
        restricted.kubectl("apply", "-f", "-", stdin=MANIFESTS)
        for what in MADE:
            restricted.kubectl("wait", "--for=create", what, f"--timeout={WITHIN_S}s")
        restricted.kubectl("delete", EVERYTHING, "--all", "--wait=false")
        restricted.kubectl(
            "wait",
            "--for=delete",
            "controller/demo",
            "accounting/demo",
            "restapi/demo",
            "wukong/box",
            f"--timeout={WITHIN_S}s",
        )
        assert restricted.refused() == 0, restricted.log.read_text()[-4000:]


def test_an_operator_of_one_namespace_needs_no_rights_in_others(restricted: Restricted, corral_namespace: str) -> None:
    inside = (confined(entry.build(), corral_namespace) for entry in KINDS if entry.kind.resource.namespaced)
    restricted.grant(namespaced_objects(inside, corral_namespace))
    with restricted.operator("--only-namespace", corral_namespace):
        restricted.kubectl("apply", "-f", "-", stdin=MANIFESTS.rpartition("---")[2])
        restricted.kubectl("wait", "--for=create", MADE[-1], f"--timeout={WITHIN_S}s")
        restricted.kubectl("delete", "wukongs", "--all", "--wait=false")
        restricted.kubectl("wait", "--for=delete", "wukong/box", f"--timeout={WITHIN_S}s")
        assert restricted.refused() == 0, restricted.log.read_text()[-4000:]


@pytest.mark.parametrize(
    ("verb", "resource"), [("create", "statefulsets"), ("patch", "nodesets"), ("patch", "accountings/status")]
)
def test_with_one_verb_less_something_is_forbidden(restricted: Restricted, verb: str, resource: str) -> None:
    restricted.grant(without(verb, resource, rights()))
    with restricted.operator():
        restricted.kubectl("apply", "-f", "-", stdin=MANIFESTS)
        deadline_s = time.monotonic() + WITHIN_S
        while not restricted.refused():
            assert time.monotonic() < deadline_s, restricted.log.read_text()[-4000:]
            time.sleep(0.5)
