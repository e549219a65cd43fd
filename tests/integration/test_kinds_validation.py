"""What the API server itself refuses of our kinds, in the words that a user reads."""

import pytest

from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller
from corral.kinds.loginset.spec import LoginSet
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.restapi.spec import RestApi
from corral.kinds.token.spec import Token
from corral.kube.crd import crd_of, to_yaml
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def _definitions(corral_cluster: Cluster) -> None:
    kinds = (Accounting, Controller, LoginSet, NodeSet, RestApi, Token)
    corral_cluster.define(to_yaml(*(crd_of(kind) for kind in kinds)))


def answer(cluster: Cluster, namespace: str, kind: str, spec: str, *, dry: bool = True) -> str:
    manifest = f"{{apiVersion: slurm.corral.dev/v1alpha1, kind: {kind}, metadata: {{name: it}}, spec: {spec}}}"
    dry_run = ("--dry-run=server",) if dry else ()
    done = cluster.try_kubectl("apply", f"--namespace={namespace}", *dry_run, "-f", "-", stdin=manifest)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("Token", "{controllerRef: {name: x}, username: alice, lifetime: 30s}", "lifetime must be at least 1m"),
        ("Token", "{controllerRef: {name: x}, username: alice, lifetime: -5m}", "lifetime must be at least 1m"),
        ("Token", "{controllerRef: {name: x}, username: alice, lifetime: 9000h}", "at most a year"),
        ("Token", "{controllerRef: {name: x}, username: Bad User}", "spec.username"),
        ("Token", "{username: alice}", "set controllerRef or jwtKeyRef"),
        ("Token", "{controllerRef: {name: x}, jwtKeyRef: {name: a, key: b}, username: alice}", "set only one"),
        ("Token", "{controllerRef: {name: x}, username: host$, lifetime: 1h30m}", "created"),
        ("Accounting", "{storage: {host: a, passwordKeyRef: {name: a, key: b}}, managed: {}}", "set only one"),
        ("Accounting", "{storage: {host: 'a b', passwordKeyRef: {name: a, key: b}}}", "spec.storage.host"),
        ("Accounting", "{}", "created"),
        ("Controller", "{identity: {users: [{name: alice, uid: 0}]}}", "spec.identity.users[0].uid"),
        ("Controller", "{identity: {users: [{name: a, uid: 5001}, {name: a, uid: 5002}]}}", "Duplicate value"),
        ("Controller", "{identity: {users: [{name: 'a:b', uid: 5001}]}}", "spec.identity.users[0].name"),
        ("Controller", "{identity: {ldap: {uris: ['http://x'], base: dc=x}}}", "spec.identity.ldap.uris[0]"),
        ("NodeSet", "{controllerRef: {name: x}, scalingMode: DaemonSet, update: {maxSurge: 1}}", "has one worker"),
        ("NodeSet", "{controllerRef: {name: x}, scalingMode: DaemonSet, update: {maxUnavailable: 10%}}", "created"),
        ("NodeSet", "{controllerRef: {name: x}, extraConf: 'Gres=shard:1,{a.b/c}:2'}", "type of a Gres"),
        ("NodeSet", "{controllerRef: {name: x}, extraConf: 'Gres=gpu:{a.b/c} Features={d}'}", "created"),
        ("LoginSet", "{}", "controllerRef"),
        ("LoginSet", "{controllerRef: {name: x}, replicas: 2}", "created"),
    ],
)
def test_the_server_judges_a_manifest(
    corral_cluster: Cluster, corral_namespace: str, kind: str, spec: str, told: str
) -> None:
    assert told in answer(corral_cluster, corral_namespace, kind, spec)


def test_slurmdbd_never_goes_back_to_an_older_version(corral_cluster: Cluster, corral_namespace: str) -> None:
    for version, told in (("24.11", "created"), ("26.05", "configured"), ("24.11", "a downgrade is not possible")):
        spec = f'{{version: "{version}"}}'
        assert told in answer(corral_cluster, corral_namespace, "Accounting", spec, dry=False)


def test_a_restapi_stays_with_its_controller(corral_cluster: Cluster, corral_namespace: str) -> None:
    for controller, told in (("a", "created"), ("b", "controllerRef cannot change")):
        spec = f"{{controllerRef: {{name: {controller}}}}}"
        assert told in answer(corral_cluster, corral_namespace, "RestApi", spec, dry=False)


def test_workers_keep_the_volumes_that_they_were_made_with(corral_cluster: Cluster, corral_namespace: str) -> None:
    for name, size, told in (
        ("a", "1Gi", "created"),
        ("a", "2Gi", "configured"),
        ("b", "2Gi", "create another NodeSet"),
    ):
        template = f"{{metadata: {{name: {name}}}, spec: {{resources: {{requests: {{storage: {size}}}}}}}}}"
        spec = f"{{controllerRef: {{name: x}}, volumeClaimTemplates: [{template}]}}"
        assert told in answer(corral_cluster, corral_namespace, "NodeSet", spec, dry=False)
