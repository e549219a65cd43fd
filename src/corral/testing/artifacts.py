"""What a failed test leaves to read: events, logs of its pods and all manifests of its namespace, in one folder.

Secrets are left out. Whatever cannot be fetched is noted in place of its content: collecting never fails a test anew.
"""

import re
import subprocess
from pathlib import Path

from corral.testing.cluster import Cluster

SKIPPED_KINDS = frozenset({"secrets", "events", "events.events.k8s.io"})


def folder_name(test: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", test).strip("_")[-150:]


def collect(cluster: Cluster, namespace: str, folder: Path, report: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.txt").write_text(report)
    scope = f"--namespace={namespace}"
    _save(folder / "events.txt", cluster, "get", "events", scope, "--sort-by=.lastTimestamp", "--output=wide")
    kinds = _said(cluster, "api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    listed = ",".join(kind for kind in kinds if kind not in SKIPPED_KINDS)
    _save(folder / "manifests.yaml", cluster, "get", listed, scope, "--output=yaml", "--ignore-not-found")
    for pod in _said(cluster, "get", "pods", scope, "--output=name").split():
        arguments = ("logs", pod, scope, "--all-containers", "--prefix", "--tail=5000")
        _save(folder / f"{folder_name(pod)}.log", cluster, *arguments)
        _save(folder / f"{folder_name(pod)}.previous.log", cluster, *arguments, "--previous")


def _save(path: Path, cluster: Cluster, *arguments: str) -> None:
    content = _said(cluster, *arguments)
    if content:
        path.write_text(content)


def _said(cluster: Cluster, *arguments: str) -> str:
    try:
        done = cluster.try_kubectl(*arguments, timeout_s=30.0)
    except subprocess.TimeoutExpired as error:
        return f"{error}\n"
    if "--previous" in arguments and done.returncode != 0:
        return ""  # most pods have no earlier life
    return done.stdout if done.returncode == 0 else done.stderr
