"""Which kinds the server serves, and how each differs: scope, subresources, names, merging, checks.

`builtin.py` holds what Corral uses of Kubernetes. A custom kind is registered by a test, or by creating its
CustomResourceDefinition, which is read here (`from_definition`).
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

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


def at(value: Json, path: Iterable[str]) -> object:
    found: object = value
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found


class Kinds:
    """All kinds served, found by where a path says they are."""

    def __init__(self, served: Iterable[Served]) -> None:
        self._served: dict[tuple[str, str, str], Served] = {}
        for each in served:
            self.add(each)

    def add(self, served: Served) -> None:
        resource = served.resource
        self._served[resource.group, resource.version, resource.plural] = served

    def remove(self, served: Served) -> None:
        resource = served.resource
        del self._served[resource.group, resource.version, resource.plural]

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
