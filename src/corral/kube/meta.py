"""What every Kubernetes object has in common, as frozen values.

Objects are frozen Structs: a cached object is shared by everyone and changed by no one; a change is a new value
(`msgspec.structs.replace`). Unknown fields are dropped on decoding, which is why no verb sends a decoded object back.
`managedFields` is left out on purpose: it is a fifth of an object's bytes and most of the garbage collector's work.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Never
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from corral.kube.unstructured import Unstructured

EMPTY: Mapping[str, Never] = MappingProxyType({})  # the default of every map, whatever its values are


class Model(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of every part of an object. Subclasses repeat `frozen=True`, so that type checkers see it."""


class Resource(msgspec.Struct, frozen=True):
    """Where the API serves a kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def plural_and_group(self) -> str:
        """As RBAC and `kubectl` write it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def untyped(self) -> "type[Unstructured]":
        """The class that stands for this kind where we have none of our own."""
        from corral.kube.unstructured import untyped  # it builds on this module

        return untyped(self)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path the API serves it at. A name that could lead to another path is a ValueError."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{_segment(namespace)}" if self.namespaced and namespace else ""
        what = f"/{_segment(name)}" if name else ""
        return f"{root}{where}/{self.plural}{what}" + (f"/{subresource}" if subresource else "")


ORDINARY = re.compile("[a-z0-9][-a-z0-9.]*")  # as almost every name is: nothing in it to escape


def _segment(name: str) -> str:
    """The server's own rule for names in paths (no slash, no percent sign, not a dot or two), then escaped."""
    if ORDINARY.fullmatch(name):
        return name
    if name in (".", "..") or "/" in name or "%" in name or not name.isprintable():
        raise ValueError(f"{name!r} cannot be a name: expected no '/' or '%', and neither '.' nor '..'")
    return quote(name, safe=":")


class OwnerReference(Model, frozen=True, kw_only=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(Model, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class Condition(Model, frozen=True, kw_only=True):
    """metav1.Condition. `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str
    message: str = ""
    observed_generation: int | None = None
    last_transition_time: datetime | None = None


class Object(Model, frozen=True, kw_only=True):
    """The base of every kind. The class says the apiVersion and kind; the wire form gets them from `resource`."""

    resource: ClassVar[Resource]
    metadata: ObjectMeta = ObjectMeta()


class ObjectRef(msgspec.Struct, frozen=True, order=True):
    """Names one object in messages, plans and indexes. `namespace` is empty for cluster-wide kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def ref(obj: Object) -> ObjectRef:
    return ObjectRef(obj.resource.kind, obj.metadata.namespace, obj.metadata.name)
