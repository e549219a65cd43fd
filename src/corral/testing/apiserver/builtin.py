"""The kinds of Kubernetes itself that Corral uses, each with what its own code in the real server does to it."""

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec

from corral.kube.errors import Cause
from corral.kube.meta import Resource
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Scale, Served, Validate, at


def prepared_namespace(value: Json) -> Json:
    metadata = value["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **value,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"], **(value.get("spec") or {})},
        "status": {"phase": "Active", **(value.get("status") or {})},
    }


def prepared_secret(value: Json) -> Json:
    text = value.get("stringData") or {}
    data = {**(value.get("data") or {}), **{key: base64_of(each) for key, each in text.items()}}
    rest = {key: each for key, each in value.items() if key not in ("stringData", "data")}
    return {**rest, **({"data": data} if data else {}), "type": value.get("type") or "Opaque"}


def base64_of(text: str) -> str:
    return b64encode(text.encode()).decode()


def prepared_pod(value: Json) -> Json:
    """With the tolerations that an admission plugin, which is on by default, gives to whoever says nothing of it."""
    spec = value.get("spec") or {}
    said = spec.get("tolerations") or []
    added = [limited(key) for key in LIMITED if not any(tolerates(one, key) for one in said)]
    tolerating = {"spec": {**spec, "tolerations": [*said, *added]}} if added else {}
    return {**value, **tolerating, "status": {"phase": "Pending", **(value.get("status") or {})}}


def tolerates(toleration: Json, key: str) -> bool:
    is_named = toleration.get("key", "") in ("", key)
    return is_named and toleration.get("effect", "") in ("", "NoExecute")


def limited(key: str) -> Json:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_S}


def immutable(*path: str) -> Validate:
    def check(new: Json, old: Json | None) -> Iterable[Cause]:
        if old is not None and at(new, path) != at(old, path):
            found = msgspec.json.encode(at(new, path)).decode()
            yield Cause(".".join(path), f"Invalid value: {found}: field is immutable")

    return check


def secret_or_config_map_causes(new: Json, old: Json | None) -> Iterable[Cause]:
    size = sum(len(each) for field in ("data", "binaryData") for each in (new.get(field) or {}).values())
    if size > DATA_BYTES_MAX:
        where = "data" if new["kind"] == "Secret" else "[]"
        yield Cause(where, f"Too long: may not be more than {DATA_BYTES_MAX} bytes", "FieldValueTooLong")
    if old is None or not old.get("immutable"):
        return
    for field in ("data", "binaryData", "immutable"):
        if new.get(field) != old.get(field):
            yield Cause(field, "Forbidden: field is immutable when `immutable` is set", "FieldValueForbidden")


LIMITED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TOLERATED_S: Final = 300
DATA_BYTES_MAX: Final = 1 << 20
POD_FIELDS: Final = frozenset(
    {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    }
)
EVENT_FIELDS: Final = frozenset({"reason", "type", "reportingComponent", "source"})


def built_in(group: str, version: str, kind: str, plural: str, *, namespaced: bool = True) -> Resource:
    return Resource(group, version, kind, plural, namespaced)


def event_fields(about: str) -> frozenset[str]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return EVENT_FIELDS | {f"{about}.{part}" for part in parts}


def workload(kind: str, plural: str, *, scales: bool) -> Served:
    """apps/v1. The selector cannot change."""
    return Served(
        resource=built_in("apps", "v1", kind, plural),
        status=True,
        scale=Scale(label_selector="") if scales else None,
        generation=True,
        validate=immutable("spec", "selector"),
    )


BUILT_IN: Final[tuple[Served, ...]] = (
    Served(
        resource=built_in("", "v1", "Namespace", "namespaces", namespaced=False),
        status=True,
        name_rule="label",
        fields=frozenset({"status.phase"}),
        prepare=prepared_namespace,
        returns_deleted=True,
    ),
    Served(
        resource=built_in("", "v1", "Pod", "pods"),
        status=True,
        generation=True,
        fields=POD_FIELDS,
        prepare=prepared_pod,
        marked_first=True,
        returns_deleted=True,
        validate=immutable("spec", "nodeName"),
    ),
    Served(
        resource=built_in("", "v1", "Node", "nodes", namespaced=False),
        status=True,
        fields=frozenset({"spec.unschedulable"}),
    ),
    Served(resource=built_in("", "v1", "ConfigMap", "configmaps"), validate=secret_or_config_map_causes),
    Served(
        resource=built_in("", "v1", "Secret", "secrets"),
        fields=frozenset({"type"}),
        prepare=prepared_secret,
        validate=secret_or_config_map_causes,
    ),
    Served(resource=built_in("", "v1", "Service", "services"), status=True, name_rule="service", returns_deleted=True),
    Served(resource=built_in("", "v1", "ServiceAccount", "serviceaccounts"), returns_deleted=True),
    Served(resource=built_in("", "v1", "Endpoints", "endpoints")),
    Served(resource=built_in("", "v1", "Event", "events"), fields=event_fields("involvedObject")),
    Served(resource=built_in("", "v1", "ResourceQuota", "resourcequotas"), status=True, returns_deleted=True),
    Served(resource=built_in("", "v1", "LimitRange", "limitranges")),
    Served(
        resource=built_in("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
        status=True,
        returns_deleted=True,
    ),
    Served(
        resource=built_in("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False),
        status=True,
        returns_deleted=True,
    ),
    workload("Deployment", "deployments", scales=True),
    workload("StatefulSet", "statefulsets", scales=True),
    workload("ReplicaSet", "replicasets", scales=True),
    workload("DaemonSet", "daemonsets", scales=False),
    Served(resource=built_in("apps", "v1", "ControllerRevision", "controllerrevisions")),
    Served(
        resource=built_in("batch", "v1", "Job", "jobs"),
        status=True,
        generation=True,
        fields=frozenset({"status.successful"}),
    ),
    Served(resource=built_in("batch", "v1", "CronJob", "cronjobs"), status=True, generation=True),
    Served(
        resource=built_in("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"), status=True, generation=True
    ),
    Served(resource=built_in("coordination.k8s.io", "v1", "Lease", "leases")),
    Served(resource=built_in("events.k8s.io", "v1", "Event", "events"), fields=event_fields("regarding")),
    Served(resource=built_in("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"), generation=True),
    Served(resource=built_in("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"), generation=True),
    Served(resource=built_in("networking.k8s.io", "v1", "Ingress", "ingresses"), status=True, generation=True),
    Served(resource=built_in("rbac.authorization.k8s.io", "v1", "Role", "roles"), name_rule="path"),
    Served(resource=built_in("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"), name_rule="path"),
    Served(
        resource=built_in("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False),
        name_rule="path",
    ),
    Served(
        resource=built_in(
            "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
        ),
        name_rule="path",
    ),
    Served(
        resource=built_in("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False),
        returns_deleted=True,
    ),
    Served(
        resource=built_in("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
        generation=True,
    ),
    Served(
        resource=built_in(
            "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
        ),
        status=True,
        generation=True,
    ),
)
