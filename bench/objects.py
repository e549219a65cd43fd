"""What the figures are measured with: a kind of our own, and pods as a Slurm worker has them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from corral.engine import controller_reference
from corral.kube.crd import kind
from corral.kube.meta import Model, Object, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Pod

# Namespaces, one for what each figure needs.
CREATION, QUEUE, PODS = "bench-creation", "bench-queue", "bench-workers"


class TicketSpec(Model, frozen=True, kw_only=True):
    number: int


@kind(group="bench.corral.dev", version="v1", plural="tickets")
class Ticket(Object, frozen=True, kw_only=True):
    """Something to reconcile."""

    spec: TicketSpec


def a_ticket(number: int, namespace: str) -> Ticket:
    metadata = ObjectMeta(name=f"ticket-{number:05}", namespace=namespace)
    return Ticket(metadata=metadata, spec=TicketSpec(number=number))


def small_object(ticket: Ticket) -> ConfigMap:
    """What is created 2,000 times."""
    metadata = ObjectMeta(
        name=ticket.metadata.name,
        namespace=ticket.metadata.namespace,
        labels={"app.kubernetes.io/managed-by": "corral-ticket", "app.kubernetes.io/part-of": "bench"},
        owner_references=(controller_reference(ticket),),
    )
    return ConfigMap(metadata=metadata, data={"number": str(ticket.spec.number), "text": "as small as they come"})


def worker_pod(number: int) -> Pod:
    """Never scheduled. With its status and what the server adds it is 6 KiB on the wire, as in a real cluster."""
    return msgspec.convert(
        {
            "metadata": {
                "name": f"lab-gpu-{number:05}",
                "namespace": PODS,
                "labels": {
                    "app.kubernetes.io/name": "slurmd",
                    "app.kubernetes.io/instance": "lab",
                    "app.kubernetes.io/component": "worker",
                    "app.kubernetes.io/managed-by": "corral-nodeset",
                    "corral.dev/cluster": "lab",
                    "corral.dev/nodeset": "gpu",
                    "corral.dev/index": str(number),
                },
                "annotations": {
                    "corral.dev/spec-hash": f"{number * 2654435761 % 2**64:016x}",
                    "corral.dev/node": f"lab-gpu-{number:05}",
                    "kubectl.kubernetes.io/default-container": "slurmd",
                },
            },
            "spec": _worker_spec(number),
        },
        Pod,
    )


def _worker_spec(number: int) -> Mapping[str, Any]:
    return {
        "schedulerName": "none",
        "automountServiceAccountToken": False,
        "hostname": f"lab-gpu-{number:05}",
        "subdomain": "lab-workers",
        "terminationGracePeriodSeconds": 600,
        "priority": 0,
        "nodeSelector": {"corral.dev/pool": "gpu"},
        "tolerations": [
            {"key": "corral.dev/dedicated", "operator": "Equal", "value": "slurm", "effect": "NoSchedule"},
        ],
        "containers": [_slurmd()],
        "volumes": [
            {"name": "etc", "emptyDir": {"medium": "Memory"}},
            {"name": "munge", "secret": {"secretName": "lab-munge", "defaultMode": 256}},
            {"name": "home", "persistentVolumeClaim": {"claimName": "lab-home"}},
        ],
    }


def _slurmd() -> Mapping[str, Any]:
    resources = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    return {
        "name": "slurmd",
        "image": "images.example.org/corral/slurmd:25.05.3",
        "command": ["/usr/libexec/corral/slurmd"],
        "args": ["-D", "-Z", "--conf-server", "lab-controller-0.lab-controller:6817"],
        "env": [
            {"name": "SLURM_CLUSTER", "value": "lab"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": "slurmd", "containerPort": 6818}],
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": [
            {"name": "etc", "mountPath": "/etc/slurm"},
            {"name": "munge", "mountPath": "/etc/munge", "readOnly": True},
            {"name": "home", "mountPath": "/home"},
        ],
    }


def worker_status(number: int) -> Mapping[str, Any]:
    """As a kubelet would report it, for the merge patch of the status."""
    since = "2026-01-02T03:04:05Z"
    address = f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"
    image = "images.example.org/corral/slurmd@sha256:" + f"{number:064x}"
    return {
        "phase": "Running",
        "hostIP": "192.0.2.7",
        "hostIPs": [{"ip": "192.0.2.7"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": since,
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": since}
            for type_ in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "slurmd",
                "image": "images.example.org/corral/slurmd:25.05.3",
                "imageID": image,
                "containerID": f"containerd://{number:064x}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": since}},
            }
        ],
    }
