"""The service account of the pod we run in.

The kubelet renews the token in its file; it is read again every minute and after a 401. The authority is read once: it
changes with the cluster's own root, which every pod must be restarted for anyway.
"""

from collections.abc import Mapping
from pathlib import Path

from corral.kube.credentials import Auth, Credentials, Reread, Server, wrong
from corral.kube.kubeconfig import read_token

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environment: Mapping[str, str], folder: Path = FOLDER) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def in_cluster_credentials(environment: Mapping[str, str], folder: Path = FOLDER) -> Credentials:
    origin = f"service account in {folder}"
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise wrong(origin, "KUBERNETES_SERVICE_HOST is not set: this is not a pod")
    source = Reread(lambda: Auth(token=read_token(folder / "token", origin)))
    source.read()
    return Credentials(
        server=Server(
            url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", ca=_ca(folder, origin)
        ),
        source=source,
        namespace=_namespace(folder),
        origin=origin,
    )


def _ca(folder: Path, origin: str) -> bytes:
    try:
        ca = (folder / "ca.crt").read_bytes()
    except OSError as error:
        raise wrong(origin, f"ca.crt: {error.strerror}") from None
    if not ca.strip():  # with no authority of its own, whoever the system trusts would be trusted
        raise wrong(origin, "ca.crt: it is empty")
    return ca


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip()
    except OSError:
        return "default"
