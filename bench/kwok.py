"""Kubernetes nodes that nobody runs: kwok (built from its Go module) makes the pods on them Ready and lets them go."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.lab import Kubectl, until
from bench.process import Settings
from corral.local import builds
from corral.local.progress import Progress

MODULE = builds.Module(
    folder=Path(__file__).parent / "go" / "kwok", path="sigs.k8s.io/kwok", disk_bytes=builds.GIB, stamped=()
)
BINARY = builds.Binary("kwok", MODULE, f"{MODULE.path}/cmd/kwok")
PODS_ON_A_NODE = 250
ANNOTATION = "kwok.x-k8s.io/node"
LABEL = {"bench.corral.dev/nodes": "kwok"}
TAINT = {"key": ANNOTATION, "value": "fake", "effect": "NoSchedule"}
# What a pod says that wants to be there, and only there.
THERE: dict[str, Any] = {"nodeSelector": LABEL, "tolerations": [{"key": ANNOTATION, "operator": "Exists"}]}


@contextmanager
def pretended_nodes(settings: Settings, pods: int) -> Iterator[None]:
    """Room for so many pods, until the block ends."""
    with Progress((builds.GO_STEP, BINARY.name)) as progress:
        builds.build(progress, (BINARY,))
    kubectl = Kubectl(settings.kubeconfig)
    names = [f"kwok-{number}" for number in range(-(-pods // PODS_ON_A_NODE))]
    command = [
        str(builds.place(BINARY)),
        f"--kubeconfig={settings.kubeconfig}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
    ]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            kubectl(
                "apply", "--server-side", "-f", "-", stdin="\n---\n".join(json.dumps(_node(name)) for name in names)
            )
            ready = "{.items[*].status.conditions[?(@.type=='Ready')].status}"
            until(
                "kwok's nodes are ready",
                lambda: kubectl("get", "nodes", *names, "-o", f"jsonpath={ready}").split() == ["True"] * len(names),
            )
            yield
        finally:
            kubectl("delete", "nodes", *names, "--ignore-not-found")
            process.terminate()
            process.wait(timeout=60)


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "100000", "memory": "1000Ti", "pods": str(PODS_ON_A_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": LABEL, "annotations": {ANNOTATION: "fake"}},
        "spec": {"taints": [TAINT]},
        "status": {"allocatable": room, "capacity": room},
    }
