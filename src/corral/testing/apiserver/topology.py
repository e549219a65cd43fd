"""Which lists and maps of a kind server-side apply merges, and which it replaces whole.

A list is atomic unless we know the keys of its items. The built-in table goes by field name, which is enough for the
kinds that we use; a custom kind's table comes from its CRD's schema (`from_schema`) where there is one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from corral.testing.apiserver.answers import Json

Names: TypeAlias = tuple[str, ...]  # field names from the root, without list items: ("spec", "containers", "env")

SET: Final[Names] = ("",)  # a list whose items are their own keys, as `finalizers`

IN_METADATA: Final[Mapping[Names, Names]] = MappingProxyType(
    {("metadata", "finalizers"): SET, ("metadata", "ownerReferences"): ("uid",)}
)
ATOMIC_IN_METADATA: Final = frozenset({("metadata", "ownerReferences")})


class Topology(msgspec.Struct, frozen=True):
    by_path: Mapping[Names, Names] = IN_METADATA
    by_name: Mapping[str, Names] = MappingProxyType({"conditions": ("type",)})
    atomic_by_path: frozenset[Names] = ATOMIC_IN_METADATA  # maps, and items of lists with keys
    atomic_by_name: frozenset[str] = frozenset()

    def list_keys(self, names: Names) -> Names | None:
        """None: the list is atomic. SET: items are their own keys. Else the fields that name an item."""
        return self.by_path.get(names) or (self.by_name.get(names[-1]) if names else None)

    def is_atomic_map(self, names: Names) -> bool:
        return names in self.atomic_by_path or bool(names and names[-1] in self.atomic_by_name)


BUILT_IN: Final = Topology(
    by_path=MappingProxyType(
        {
            **IN_METADATA,
            ("spec", "ports"): ("port", "protocol"),  # Service
            ("status", "addresses"): ("type",),  # Node
        }
    ),
    by_name=MappingProxyType(
        {
            "conditions": ("type",),
            "containers": ("name",),
            "initContainers": ("name",),
            "ephemeralContainers": ("name",),
            "ports": ("containerPort", "protocol"),
            "env": ("name",),
            "volumes": ("name",),
            "volumeMounts": ("mountPath",),
            "volumeDevices": ("devicePath",),
            "imagePullSecrets": ("name",),
            "hostAliases": ("ip",),
            "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
            "resourceClaims": ("name",),
            "schedulingGates": ("name",),
            "claims": ("name",),
            "podIPs": ("ip",),
            "hostIPs": ("ip",),
            "secrets": ("name",),
            "webhooks": ("name",),
        }
    ),
    atomic_by_name=frozenset(
        {
            "selector",
            "labelSelector",
            "podSelector",
            "namespaceSelector",
            "nodeSelector",
            "configMapKeyRef",
            "secretKeyRef",
            "fieldRef",
            "resourceFieldRef",
            "secretRef",
            "targetRef",
            "scaleTargetRef",
            "involvedObject",
            "regarding",
        }
    ),
)

DEFAULT_OF_KEY: Final[Mapping[str, str]] = MappingProxyType({"protocol": "TCP"})


def from_schema(schema: Json) -> Topology:
    """What a CRD's `openAPIV3Schema` says with x-kubernetes-list-type, -list-map-keys and -map-type."""
    lists: dict[Names, Names] = dict(IN_METADATA)
    atomic: set[Names] = set(ATOMIC_IN_METADATA)
    read_schema(schema, (), lists, atomic)
    return Topology(by_path=lists, by_name={}, atomic_by_path=frozenset(atomic))


def read_schema(schema: Json, names: Names, lists: dict[Names, Names], atomic: set[Names]) -> None:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            lists[names] = SET
        case "map":
            lists[names] = tuple(schema["x-kubernetes-list-map-keys"])
    if schema.get("x-kubernetes-map-type") == "atomic":
        atomic.add(names)
    if "items" in schema:
        read_schema(schema["items"], names, lists, atomic)
    for name, field in (schema.get("properties") or {}).items():
        if names or name != "metadata":
            read_schema(field, (*names, name), lists, atomic)
