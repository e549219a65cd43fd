"""Asking a cluster through kubectl: for the few things `up` and `status` need before and besides our own client."""

from pathlib import Path

import msgspec

from corral.local import builds
from corral.local.commands import run


class NodeCondition(msgspec.Struct, frozen=True):
    type: str
    status: str
    last_heartbeat: str = msgspec.field(name="lastHeartbeatTime", default="")


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[NodeCondition, ...] = ()


class _Metadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Metadata
    status: _NodeStatus = _NodeStatus()


class _Nodes(msgspec.Struct):
    items: tuple[_Node, ...]


def apply(kubeconfig: Path, manifests: str) -> None:
    arguments = ("apply", "--server-side", "--force-conflicts", "--field-manager=corral-local", "--filename=-")
    _kubectl(kubeconfig, *arguments, stdin=manifests)


def ready_conditions(kubeconfig: Path) -> dict[str, NodeCondition | None]:
    """Each registered node's Ready condition; None while it has not said."""
    nodes = msgspec.json.decode(_kubectl(kubeconfig, "get", "nodes", "--output=json"), type=_Nodes)
    return {
        node.metadata.name: next((c for c in node.status.conditions if c.type == "Ready"), None) for node in nodes.items
    }


def memory(kubeconfig: Path) -> Path:
    """Where a person's kubectl keeps what it knows of a local cluster's kinds: with the cluster, and gone with it.

    By itself it goes by the server's address, which the next cluster has too.
    """
    return kubeconfig.with_name("kubectl-memory")


def _kubectl(kubeconfig: Path, *arguments: str, stdin: str = "") -> str:
    """With a memory of its own: it is filled before the cluster has all its kinds, perhaps by root."""
    cache = kubeconfig.with_name("kubectl-cache")
    options = (f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}", "--request-timeout=10s")
    return run([str(builds.binary("kubectl")), *options, *arguments], stdin=stdin, environment={"KUBERC": "off"})
