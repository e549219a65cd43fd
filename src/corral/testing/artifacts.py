"""What a failed test leaves to read: events, logs of its pods and all manifests of its namespace, in one folder.

Secrets are left out. Whatever cannot be fetched is noted in place of its content: collecting never fails a test anew.
"""

import re
import subprocess
from pathlib import Path

import msgspec

from corral.testing.cluster import Cluster

SKIPPED_KINDS = frozenset({"secrets", "events", "events.events.k8s.io"})


def folder_name(test: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", test).strip("_")[-150:]


def collect(cluster: Cluster, namespace: str, folder: Path, report: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.txt").write_text(report)
    scope = f"--namespace={namespace}"
    _save(folder / "events.txt", cluster, "get", "events", scope, "--sort-by=.lastTimestamp", "--output=wide")
    kinds = _ask(cluster, "api-resources", "--namespaced", "--verbs=list", "--output=name").words
    listed = ",".join(kind for kind in kinds if kind not in SKIPPED_KINDS)
    _save(folder / "manifests.yaml", cluster, "get", listed, scope, "--output=yaml", "--ignore-not-found")
    for pod in _ask(cluster, "get", "pods", scope, "--output=name").words:
        arguments = ("logs", pod, scope, "--all-containers", "--prefix", "--tail=5000")
        _save(folder / f"{folder_name(pod)}.log", cluster, *arguments)
        if earlier := _ask(cluster, *arguments, "--previous").said:  # most pods have no earlier life
            (folder / f"{folder_name(pod)}.previous.log").write_text(earlier)


class _Answer(msgspec.Struct, frozen=True):
    said: str = ""
    trouble: str = ""

    @property
    def words(self) -> list[str]:
        return self.said.split()


def _save(path: Path, cluster: Cluster, *arguments: str) -> None:
    answer = _ask(cluster, *arguments)
    path.write_text(answer.said or answer.trouble or "none\n")


def _ask(cluster: Cluster, *arguments: str) -> _Answer:
    try:
        done = cluster.try_kubectl(*arguments, timeout_s=30.0)
    except subprocess.TimeoutExpired as error:
        return _Answer(trouble=f"{error}\n")
    return _Answer(said=done.stdout) if done.returncode == 0 else _Answer(trouble=done.stderr)
