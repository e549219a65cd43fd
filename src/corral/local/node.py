"""A node: containerd, kubelet and kube-proxy in the node's namespaces. Pure: from values to configuration texts.

Pods are joined to the node by point-to-point links instead of a bridge, so that every packet between them is routed
and the NAT of services sees both directions, with or without the kernel's br_netfilter.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from corral.local.controlplane import API_SERVER, kubeconfig_path
from corral.local.home import Home
from corral.local.spec import DOMAIN, Node, Spec
from corral.local.supervision import Component, SocketProbe

CNI_PLUGINS = Path("/usr/lib/cni")
CNI_PROGRAMS = ("ptp", "host-local", "portmap", "loopback")
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"  # inside the node
SANDBOX_IMAGE = "corral.local/pause:1"


def components(home: Home, node: Node, programs: dict[str, Path]) -> tuple[Component, ...]:
    config = directory(home, node)
    runtime = f"{node.name}.containerd"
    return tuple(
        msgspec.structs.replace(component, network=str(home.network(node)), mounts=str(home.mounts(node)))
        for component in (
            Component(
                name=runtime,
                argv=("containerd", "--config", str(config / "containerd.toml")),
                probe=SocketProbe(str(home.node(node) / "root" / CONTAINERD_SOCKET.lstrip("/"))),
            ),
            Component(
                name=f"{node.name}.kubelet",
                argv=(
                    str(programs["kubelet"]),
                    f"--config={config / 'kubelet.yaml'}",
                    f"--kubeconfig={kubeconfig_path(home, node.name)}",
                    f"--hostname-override={node.name}",
                    f"--node-ip={node.address}",
                ),
                after=(runtime, API_SERVER),
            ),
            Component(
                name=f"{node.name}.kube-proxy",
                argv=(str(programs["kube-proxy"]), f"--config={config / 'kube-proxy.yaml'}"),
                after=(API_SERVER,),
            ),
        )
    )


def directory(home: Home, node: Node) -> Path:
    return home.config / node.name


def files(spec: Spec, home: Home, node: Node, *, lowers_oom_scores: bool) -> dict[Path, str]:
    """`lowers_oom_scores`: whether root may do that here (CAP_SYS_RESOURCE)."""
    config = directory(home, node)
    return {
        config / "containerd.toml": containerd(config / "cni", lowers_oom_scores=lowers_oom_scores),
        config / "cni" / "10-corral.conflist": json.dumps(cni(node), indent=1),
        config / "kubelet.yaml": yaml.safe_dump(
            kubelet(spec, home, node, lowers_oom_scores=lowers_oom_scores), sort_keys=False
        ),
        config / "kube-proxy.yaml": yaml.safe_dump(kube_proxy(spec, home, node), sort_keys=False),
        config / "resolv.conf": "# Pods get the cluster's own name server and no other.\n",
    }


def containerd(cni_directory: Path, *, lowers_oom_scores: bool) -> str:
    restrict = "false" if lowers_oom_scores else "true"  # else each pod would fail
    return f"""version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX_IMAGE}"
restrict_oom_score_adj = {restrict}
disable_apparmor = true # it would load a profile into the host's kernel

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{cni_directory}"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def cni(node: Node) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": "corral",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": str(node.pods)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
        ],
    }


def kubelet(spec: Spec, home: Home, node: Node, *, lowers_oom_scores: bool) -> dict[str, Any]:
    pki = home.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(node.address),
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.name}.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDomain": DOMAIN,
        "clusterDNS": [str(spec.control_address)],
        "resolvConf": str(directory(home, node) / "resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{spec.cgroup}/{node.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": -999 if lowers_oom_scores else 0,
        # A laptop's disk is often nearly full, and an imported image cannot be fetched again.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "syncFrequency": "10s",
        "maxPods": 200,
    }


def kube_proxy(spec: Spec, home: Home, node: Node) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(kubeconfig_path(home, "proxy"))},
        "hostnameOverride": node.name,
        "bindAddress": str(node.address),
        # What does not come from a pod is masqueraded, so answers to the host find the node that translated.
        "clusterCIDR": str(spec.pods),
        "detectLocalMode": "ClusterCIDR",
        "nodePortAddresses": [f"{node.address}/32"],
        "conntrack": {"maxPerCore": 0, "min": 0},  # the host's table is not ours to size
        "oomScoreAdj": 0,
    }
