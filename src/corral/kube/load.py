"""Find credentials where kubectl's users expect them.

In this order: the kubeconfig that was named; KUBECONFIG; the service account of the pod we run in (unless a context was
named: a service account has none); ~/.kube/config.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from corral.kube.credentials import Credentials, wrong
from corral.kube.in_cluster import FOLDER, in_cluster_credentials, is_in_cluster
from corral.kube.kubeconfig import credentials_of, read_kubeconfig


def load_credentials(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = FOLDER,
) -> Credentials:
    """Raises CredentialsError, which says where to look, for everything that can be wrong."""
    if kubeconfig:
        return _from_files((Path(kubeconfig),), context)
    if named := [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]:
        return _from_files(tuple(named), context)
    if context is None and is_in_cluster(environment, service_account):
        return in_cluster_credentials(environment, service_account)
    home = Path(environment.get("HOME") or Path.home()) / ".kube" / "config"
    if not home.exists():
        raise wrong(str(home), "no such file, KUBECONFIG is not set, and this is not a pod; name a kubeconfig")
    return _from_files((home,), context)


def _from_files(paths: tuple[Path, ...], context: str | None) -> Credentials:
    return credentials_of(read_kubeconfig(paths), context, now=_now)


def _now() -> datetime:
    return datetime.now(UTC)
