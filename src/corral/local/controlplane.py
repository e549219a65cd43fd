"""The control plane: etcd, the API server, the controller manager and the scheduler, in a namespace of their own.

Pure: from the cluster's description and its paths to command lines. Each speaks to the API server as its own user;
the controllers inside the controller manager each use their own service account.
"""

from pathlib import Path
from typing import Any

from corral.local.home import Home
from corral.local.spec import Spec
from corral.local.supervision import Component, HttpProbe

API_SERVER = "kube-apiserver"
AUDIT = "audit"
USERS = {  # certificate -> the user's name inside its kubeconfig
    "controller-manager": "system:kube-controller-manager",
    "scheduler": "system:kube-scheduler",
    "proxy": "system:kube-proxy",
    "dns": "corral:dns",
    "storage": "corral:storage",
}


def components(spec: Spec, home: Home, programs: dict[str, Path]) -> tuple[Component, ...]:
    control = str(home.control_network)
    return (
        Component(name="etcd", argv=_etcd(home, programs["etcd"]), network=control),
        Component(
            name=API_SERVER,
            argv=_api_server(spec, home, programs[API_SERVER]),
            network=control,
            probe=HttpProbe(f"{spec.server}/readyz"),
        ),
        Component(
            name="kube-controller-manager",
            argv=_controller_manager(spec, home, programs["kube-controller-manager"]),
            network=control,
            after=(API_SERVER,),
        ),
        Component(
            name="kube-scheduler",
            argv=_scheduler(home, programs["kube-scheduler"]),
            network=control,
            after=(API_SERVER,),
        ),
    )


def kubeconfig_path(home: Home, user: str) -> Path:
    return home.config / f"{user}.kubeconfig"


def _etcd(home: Home, program: Path) -> tuple[str, ...]:
    pki = home.pki
    return (
        str(program),
        f"--data-dir={home.etcd}",
        "--listen-client-urls=https://127.0.0.1:2379",
        "--advertise-client-urls=https://127.0.0.1:2379",
        "--listen-peer-urls=https://127.0.0.1:2380",
        "--initial-advertise-peer-urls=https://127.0.0.1:2380",
        "--initial-cluster=default=https://127.0.0.1:2380",
        "--client-cert-auth",
        f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
        f"--cert-file={pki / 'etcd.crt'}",
        f"--key-file={pki / 'etcd.key'}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={pki / 'etcd-ca.crt'}",
        f"--peer-cert-file={pki / 'etcd.crt'}",
        f"--peer-key-file={pki / 'etcd.key'}",
        "--unsafe-no-fsync",  # a power cut may cost this cluster its data, and a slow disk costs it no time
        "--auto-compaction-retention=1",
        "--quota-backend-bytes=4294967296",
        "--watch-progress-notify-interval=5s",  # the API server's streaming lists wait for these
        "--logger=zap",
        "--log-level=warn",
    )


def _api_server(spec: Spec, home: Home, program: Path) -> tuple[str, ...]:
    pki = home.pki
    return (
        str(program),
        # Not loopback: pods reach it by the service `kubernetes`.
        f"--bind-address={spec.control_address}",
        f"--advertise-address={spec.control_address}",
        "--secure-port=6443",
        f"--service-cluster-ip-range={spec.services}",
        "--etcd-servers=https://127.0.0.1:2379",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'apiserver-etcd.crt'}",
        f"--etcd-keyfile={pki / 'apiserver-etcd.key'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={pki / 'apiserver-kubelet.crt'}",
        f"--kubelet-client-key={pki / 'apiserver-kubelet.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",  # node names resolve nowhere
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy.key'}",
        # One process makes thousands of requests in a test; a laptop's default of 400 turns some of them away.
        "--max-requests-inflight=1000",
        "--max-mutating-requests-inflight=500",
        # Else a stop waits up to a minute for open watches.
        "--shutdown-watch-termination-grace-period=1s",
        "--request-timeout=60s",
        *(_audit(home) if spec.audit else ()),
    )


def audit_policy_path(home: Home) -> Path:
    return home.config / "audit-policy.json"


def audit_policy() -> dict[str, Any]:
    """Who asked for what, when, and what came of it; never what objects say."""
    rules = [{"level": "Metadata", "omitStages": ["RequestReceived", "ResponseStarted"]}]
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}


def _audit(home: Home) -> tuple[str, ...]:
    return (
        f"--audit-policy-file={audit_policy_path(home)}",
        f"--audit-log-path={home.log(AUDIT)}",
        "--audit-log-maxsize=200",  # MiB
        "--audit-log-maxbackup=1",
    )


def _controller_manager(spec: Spec, home: Home, program: Path) -> tuple[str, ...]:
    pki = home.pki
    own = kubeconfig_path(home, "controller-manager")
    return (
        str(program),
        f"--kubeconfig={own}",
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        "--bind-address=127.0.0.1",
        "--use-service-account-credentials",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        f"--cluster-name={spec.context}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=300",
        "--node-monitor-grace-period=20s",
        # Each sync of a Service looks at all of its pods. Without a pause it is synced for every pod that comes, and a
        # thousand of them cost a processor.
        "--endpoint-updates-batch-period=100ms",
        "--endpointslice-updates-batch-period=100ms",
    )


def _scheduler(home: Home, program: Path) -> tuple[str, ...]:
    own = kubeconfig_path(home, "scheduler")
    return (
        str(program),
        f"--kubeconfig={own}",
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=300",
    )
