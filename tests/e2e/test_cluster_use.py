"""What people do with a cluster, on two nodes: pods, names, services, logs, exec, port-forward, volumes, rights.

And what they ask about it: its components, their logs, who asked the API server for what.
"""

import base64
import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml

from corral.local.home import home_of
from corral.testing.cluster import Cluster, corral
from corral.testing.localcluster import down, fetch, shell, until, up

pytestmark = pytest.mark.cluster
NAME = "e2e-use"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def corral_cluster() -> Iterator[Cluster]:
    """Instead of the shared one: these tests need two nodes and the image with a shell."""
    cluster = up(NAME, 2, "--audit")
    cluster.provide_toolbox()
    yield cluster
    down(NAME)


def a_pod(name: str, node: str, script: str = "exec sleep infinity", claim: str = "") -> dict[str, object]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "volumes": volumes,
            "containers": [
                {
                    "name": "main",
                    "image": "corral.local/toolbox:1",
                    "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}] if claim else [],
                }
            ],
        },
    }


def says(cluster: Cluster, pod: str, namespace: str, script: str, expected: str) -> bool:
    """A service answers a moment after its pods are ready: every node must first hear of them."""
    scope = f"--namespace={namespace}"
    done = cluster.try_kubectl("exec", pod, scope, "--", "timeout", "5", "bash", "-c", script)
    return done.returncode == 0 and done.stdout.strip().endswith(expected)


A_WEB_SERVER = "hostname > /www/index.html; echo serving; exec httpd -f -p 80 -h /www"


def start(cluster: Cluster, namespace: str, *manifests: Mapping[str, object]) -> None:
    cluster.kubectl("apply", f"--namespace={namespace}", "--filename=-", stdin=yaml.safe_dump_all(manifests))
    cluster.kubectl("wait", f"--namespace={namespace}", "--for=condition=Ready", "pods", "--all", "--timeout=60s")


def a_service(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }


def read(cluster: Cluster, namespace: str, kind: str, name: str, path: str) -> str:
    return cluster.kubectl("get", kind, name, f"--namespace={namespace}", f"--output=jsonpath={{{path}}}")


def test_pods_on_two_nodes_meet_by_address_service_and_name(corral_cluster: Cluster, corral_namespace: str) -> None:
    ns = corral_namespace
    start(corral_cluster, ns, a_pod("web", "node-1", A_WEB_SERVER), a_pod("client", "node-2"), a_service("web"))
    pod_address = read(corral_cluster, ns, "pod", "web", ".status.podIP")
    service_address = read(corral_cluster, ns, "service", "web", ".spec.clusterIP")

    for client in ("client", "web"):  # from the other node, and a pod to itself through its own service
        for address in (pod_address, service_address, "web", f"web.{ns}.svc.cluster.local"):
            answers = partial(says, corral_cluster, client, ns, fetch(address), "web")
            until(f"{address} answers {client}", answers, 20)
    assert says(corral_cluster, "client", ns, "getent hosts web", f"web.{ns}.svc.cluster.local")


def test_pods_and_services_are_reached_from_the_host(corral_cluster: Cluster, corral_namespace: str) -> None:
    start(corral_cluster, corral_namespace, a_pod("web", "node-2", A_WEB_SERVER), a_service("web"))

    for kind, path in (("pod", ".status.podIP"), ("service", ".spec.clusterIP")):
        address = read(corral_cluster, corral_namespace, kind, "web", path)
        until(f"the {kind} answers", partial(answers_host, address), 20)


def answers_host(address: str) -> bool:
    try:
        with DIRECT.open(f"http://{address}/", timeout=5) as answer:
            return bool(answer.read() == b"web\n")
    except OSError:  # not yet
        return False


def test_logs_exec_and_port_forward(corral_cluster: Cluster, corral_namespace: str) -> None:
    scope = f"--namespace={corral_namespace}"
    start(corral_cluster, corral_namespace, a_pod("web", "node-2", A_WEB_SERVER))

    assert corral_cluster.kubectl("logs", "web", scope) == "serving\n"
    assert corral_cluster.kubectl("exec", "web", scope, "--", "hostname") == "web\n"
    assert forwarded_answer(corral_cluster, scope) == b"web\n"


def forwarded_answer(cluster: Cluster, scope: str) -> bytes:
    from corral.local.builds import binary

    command = [str(binary("kubectl")), f"--kubeconfig={cluster.kubeconfig}", "port-forward", "pod/web", ":80", scope]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            port = re.search(r":(\d+) ->", forwarding.stdout.readline())
            assert port is not None
            with DIRECT.open(f"http://127.0.0.1:{port[1]}/", timeout=10) as answer:
                return bytes(answer.read())
        finally:
            forwarding.terminate()


def test_a_claim_gets_a_volume_that_pods_on_both_nodes_write(corral_cluster: Cluster, corral_namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    pods = [a_pod(f"pod-{n}", f"node-{n}", f"touch /data/{n}; exec sleep infinity", "data") for n in (1, 2)]
    start(corral_cluster, corral_namespace, claim, *pods)
    volume = read(corral_cluster, corral_namespace, "pvc", "data", ".spec.volumeName")
    directory = home_of(NAME).volumes / volume

    until("both pods have written", lambda: {file.name for file in directory.iterdir()} == {"1", "2"}, 20)
    assert shell(corral_cluster, "pod-1", corral_namespace, "cd /data; echo *") == "1 2"

    corral_cluster.kubectl("delete", "pods,pvc", "--all", f"--namespace={corral_namespace}")
    until("the volume's directory is gone", lambda: not directory.exists(), 30)
    corral_cluster.kubectl("wait", "--for=delete", f"pv/{volume}", "--timeout=30s")


def test_there_is_no_way_out(corral_cluster: Cluster, corral_namespace: str) -> None:
    start(corral_cluster, corral_namespace, a_pod("client", "node-1"))
    scope = f"--namespace={corral_namespace}"
    script = "exec 3<>/dev/tcp/192.0.2.1/80"

    refused = corral_cluster.try_kubectl("exec", "client", scope, "--", "timeout", "10", "bash", "-c", script)

    assert "unreachable" in refused.stderr
    assert corral_cluster.try_kubectl("exec", "client", scope, "--", "getent", "hosts", "example.com").returncode == 2


def test_components_have_only_their_own_rights(corral_cluster: Cluster) -> None:
    config = home_of(NAME).config

    assert may(corral_cluster, "get", "secrets", kubeconfig=corral_cluster.kubeconfig)
    for component in ("node-1", "proxy", "dns", "storage", "scheduler"):
        assert not may(corral_cluster, "get", "secrets", kubeconfig=config / f"{component}.kubeconfig"), component


def may(cluster: Cluster, verb: str, resource: str, kubeconfig: Path) -> bool:
    done = cluster.try_kubectl(f"--kubeconfig={kubeconfig}", "auth", "can-i", verb, resource, "--all-namespaces")
    return done.stdout.strip() == "yes"


def test_who_shows_no_certificate_is_told_nothing(corral_cluster: Cluster) -> None:
    home = home_of(NAME)
    spec = home.read_spec()
    assert spec is not None
    trusting = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(home.pki / "ca.crt")))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), trusting)

    for port, path in ((6443, "version"), (10250, "pods")):
        address = spec.control_address if port == 6443 else spec.nodes[0].address
        with pytest.raises(urllib.error.HTTPError, match="401") as refusal:
            opener.open(f"https://{address}:{port}/{path}", timeout=10)
        refusal.value.close()


def say(*arguments: str) -> str:
    """What a command says that is told the cluster's name."""
    done = corral(*arguments, "--name", NAME)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_of_the_cluster_is_at_hand(corral_cluster: Cluster) -> None:
    done = corral("kubectl", "--name", NAME, "--", "get", "nodes", "--output=name")

    assert (done.stdout, done.returncode) == ("node/node-1\nnode/node-2\n", 0)


def test_programs_are_told_how_the_cluster_is(corral_cluster: Cluster) -> None:
    told = json.loads(say("local", "status", "--output", "json"))

    components = {component["name"]: component for component in told["components"]}
    assert (told["kind"], told["name"], told["well"]) == ("LocalStatus", NAME, True)
    assert told["kubeconfig"] == str(corral_cluster.kubeconfig)
    assert {component["state"] for component in components.values()} == {"running"}
    assert components["etcd"]["pid"] > 0
    assert told["nodes"] == [{"name": f"node-{n}", "state": "Ready"} for n in (1, 2)]


def test_each_component_has_a_log(corral_cluster: Cluster) -> None:
    assert "started etcd, pid" in say("local", "logs", "supervisor")
    assert "Serving securely on" in say("local", "logs", "kube-apiserver")
    assert "node-2" in say("local", "logs", "node-2.kubelet")


def test_the_audit_log_says_who_asked_for_what_and_nothing_of_what_objects_say(
    corral_cluster: Cluster, corral_namespace: str
) -> None:
    scope, hidden = f"--namespace={corral_namespace}", "not to be found"
    corral_cluster.kubectl("create", "secret", "generic", "mine", f"--from-literal=key={hidden}", scope)

    log = say("local", "logs", "audit")

    events = [json.loads(line) for line in log.splitlines()]
    (created,) = (e for e in events if e["requestURI"].startswith(f"/api/v1/namespaces/{corral_namespace}/secrets?"))
    assert (created["verb"], created["user"]["username"]) == ("create", "corral-admin")
    assert created["userAgent"].startswith("kubectl/")
    assert all({"requestObject", "responseObject"}.isdisjoint(e) for e in events)
    assert hidden not in log
    assert base64.b64encode(hidden.encode()).decode() not in log
