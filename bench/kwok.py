"""Kubernetes nodes that nobody runs: kwok (built from its Go module) makes the pods on them Ready and lets them go."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.lab import Kubectl, until
from bench.process import Settings
from corral.local import builds
from corral.local.progress import Progress
from corral.testing.gomodules import GoModule, downloaded

MODULE = builds.Module(
    folder=Path(__file__).parent / "go" / "kwok", path="sigs.k8s.io/kwok", disk_bytes=builds.GIB, stamped=()
)
BINARY = builds.Binary("kwok", MODULE, f"{MODULE.path}/cmd/kwok")
STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
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
        "--node-lease-duration-seconds=40",  # else its nodes are not heard of, and not ready
        *(f"--config={stage}" for stage in _stages()),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
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


def _stages() -> Iterator[Path]:
    """What kwok makes of nodes and pods, as its own module has it."""
    version = builds.version(MODULE)
    sums = (MODULE.folder / "go.sum").read_text()
    pinned = next(line for line in sums.splitlines() if line.startswith(f"{MODULE.path} {version} "))
    folder = downloaded(GoModule(path=MODULE.path, version=version, sum=pinned.split()[2])) / "kustomize" / "stage"
    for stage in STAGES:
        yield from (file for file in sorted((folder / stage).glob("*.yaml")) if file.name != "kustomization.yaml")


def _node(name: str) -> dict[str, Any]:
    room = {"cpu": "100000", "memory": "1000Ti", "pods": str(PODS_ON_A_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": LABEL, "annotations": {ANNOTATION: "fake"}},
        "spec": {"taints": [TAINT]},
        "status": {"allocatable": room, "capacity": room},
    }
