"""Which kinds the server serves, and how each differs: scope, subresources, names, merging, checks.

`BUILT_IN` holds what Corral uses of Kubernetes. A custom kind is registered by a test, or by creating its
CustomResourceDefinition, which is read here (`from_definition`).
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from corral.kube.errors import Cause
from corral.kube.meta import Resource
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.names import NameRule
from corral.testing.apiserver.topology import BUILT_IN as BUILT_IN_TOPOLOGY
from corral.testing.apiserver.topology import Topology, from_schema

Validate: TypeAlias = Callable[[Json, Json | None], Iterable[Cause]]  # the new object and, for an update, the old one
Prepare: TypeAlias = Callable[[Json], Json]  # defaults; called for each write, so it must leave its own result alone
Grace: TypeAlias = Callable[[Json, int | None], int]  # the object and what the caller asked for -> seconds until gone


def anything_goes(new: Json, old: Json | None) -> Iterable[Cause]:  # noqa: ARG001
    return ()


def as_it_is(value: Json) -> Json:
    return value


def at_once(value: Json, asked_s: int | None) -> int:  # noqa: ARG001
    return 0


class Scale(msgspec.Struct, frozen=True):
    """Where a kind keeps what its scale subresource shows. Dotted, without a leading dot."""

    spec_replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    label_selector: str = "status.selector"


class Served(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource
    custom: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: Scale | None = None
    generation: bool = False
    name_rule: NameRule = "subdomain"
    topology: Topology = BUILT_IN_TOPOLOGY
    fields: frozenset[str] = frozenset()  # that a field selector may name, besides metadata.name and .namespace
    marked_first: bool = False  # even what goes at once is first marked, which is a version and an event of its own
    returns_deleted: bool = False  # DELETE answers with the object, not with a Status
    prepare: Prepare = as_it_is
    validate: Validate = anything_goes
    grace: Grace = at_once

    @property
    def selectable(self) -> frozenset[str]:
        scope = {"metadata.namespace"} if self.resource.namespaced else set()
        return self.fields | {"metadata.name"} | scope


def custom(
    resource: Resource,
    *,
    status: bool = True,
    scale: Scale | None = None,
    validate: Validate = anything_goes,
    topology: Topology | None = None,
    fields: Iterable[str] = (),
    short_names: Iterable[str] = (),
    categories: Iterable[str] = (),
) -> Served:
    return Served(
        resource=resource,
        custom=True,
        short_names=tuple(short_names),
        categories=tuple(categories),
        status=status,
        scale=scale,
        generation=True,
        topology=topology or Topology(),
        fields=frozenset(fields),
        validate=validate,
    )


def from_definition(definition: Json) -> list[Served]:
    """The kinds that a CustomResourceDefinition asks for. Its schema is used for merging, not for validation."""
    spec = definition["spec"]
    return [
        custom(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=spec["names"]["kind"],
                plural=spec["names"]["plural"],
                namespaced=spec["scope"] == "Namespaced",
            ),
            short_names=spec["names"].get("shortNames") or (),
            categories=spec["names"].get("categories") or (),
            status="status" in (version.get("subresources") or {}),
            scale=scale_of((version.get("subresources") or {}).get("scale")),
            topology=from_schema((version.get("schema") or {}).get("openAPIV3Schema") or {}),
            fields=[field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()],
        )
        for version in spec["versions"]
        if version.get("served", True)
    ]


def scale_of(declared: Json | None) -> Scale | None:
    if not declared:
        return None
    return Scale(
        declared["specReplicasPath"].lstrip("."),
        declared["statusReplicasPath"].lstrip("."),
        (declared.get("labelSelectorPath") or "").lstrip("."),
    )


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
    return {**value, "status": {"phase": "Pending", **(value.get("status") or {})}}


def immutable(*path: str) -> Validate:
    def check(new: Json, old: Json | None) -> Iterable[Cause]:
        if old is not None and at(new, path) != at(old, path):
            found = msgspec.json.encode(at(new, path)).decode()
            yield Cause(".".join(path), f"Invalid value: {found}: field is immutable")

    return check


def at(value: Json, path: Iterable[str]) -> object:
    found: object = value
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


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


class Kinds:
    """All kinds served, found by where a path says they are."""

    def __init__(self, served: Iterable[Served] = BUILT_IN) -> None:
        self._served: dict[tuple[str, str, str], Served] = {}
        for each in served:
            self.add(each)

    def add(self, served: Served) -> None:
        resource = served.resource
        self._served[resource.group, resource.version, resource.plural] = served

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._served.get((group, version, plural))

    def has_version(self, group: str, version: str) -> bool:
        return any(key[:2] == (group, version) for key in self._served)

    def of_kind(self, api_version: str, kind: str) -> Served | None:
        for each in self._served.values():
            if each.resource.kind == kind and each.resource.api_version == api_version:
                return each
        return None

    def of_storage(self, plural_and_group: str) -> Served | None:
        for each in self._served.values():
            if each.resource.plural_and_group == plural_and_group:
                return each
        return None

    def all(self) -> list[Served]:
        return [self._served[key] for key in sorted(self._served)]
