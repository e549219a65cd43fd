"""What a new cluster holds before anyone uses it: rights for the components that Kubernetes has no roles for, storage.

The roles of the scheduler, the controllers, kube-proxy and the nodes come with the API server itself.
"""

from typing import Any

import yaml

STORAGE_CLASS = "corral-shared"
PROVISIONER = "corral.dev/shared-directory"


def manifests() -> str:
    return yaml.safe_dump_all(
        [
            _binding("corral:kubelet-api", "system:kubelet-api-admin", "kube-apiserver-kubelet-client"),
            _role(
                "corral:dns",
                _rule(("",), ("services", "pods", "namespaces"), ("list", "watch")),
                _rule(("discovery.k8s.io",), ("endpointslices",), ("list", "watch")),
            ),
            _binding("corral:dns", "corral:dns", "corral:dns"),
            _role(
                "corral:storage",
                _rule(("",), ("persistentvolumeclaims",), ("get", "list", "watch")),
                _rule(("",), ("persistentvolumes",), ("get", "list", "watch", "create", "delete")),
            ),
            _binding("corral:storage", "corral:storage", "corral:storage"),
            # A node may read the claims of its pods, but the API server learns whose those are after kubelet has been
            # given the pod. On a busy machine kubelet comes first, is refused, and tries again only 10 s later.
            _role("corral:claims", _rule(("",), ("persistentvolumeclaims", "persistentvolumes"), ("get",))),
            _binding("corral:claims", "corral:claims", "system:nodes", kind="Group"),
            _storage_class(),
        ],
        sort_keys=False,
    )


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",  # a volume is the same directory on every node
    }


def _role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _rule(groups: tuple[str, ...], resources: tuple[str, ...], verbs: tuple[str, ...]) -> dict[str, Any]:
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def _binding(name: str, role: str, who: str, *, kind: str = "User") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": who}],
    }
