"""From documents to schemas by name: what a server's OpenAPI v3 and third parties' CRD files say about kinds.

Both end as the same thing, `Schemas`: JSON schemas that refer to each other by name, and the kinds among them. A CRD's
nested objects have no names; they get one from their path (`VirtualMachine` + `spec` + `template`), and objects that
look the same share the first one's name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from corral.kube.meta import Resource

REF = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."

Schema = Mapping[str, Any]


class Schemas(msgspec.Struct, frozen=True):
    by_name: Mapping[str, Schema]
    kinds: Mapping[str, Resource]  # the schemas that are kinds, and where they are served

    def __or__(self, other: "Schemas") -> "Schemas":
        return Schemas({**self.by_name, **other.by_name}, {**self.kinds, **other.kinds})


def from_openapi(document: Mapping[str, Any], wanted: Iterable[str]) -> Schemas:
    """The schemas of one group's document; `wanted` are the kinds (a document also holds kinds of other groups)."""
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    served = _served(document["paths"])
    return Schemas(schemas, {_schema_of(kind, schemas, served): served[kind] for kind in wanted})


def _served(paths: Mapping[str, Any]) -> Mapping[str, Resource]:
    """The kinds that the paths of one group serve as resources of their own."""
    found: dict[str, Resource] = {}
    for path in sorted(paths, key=len, reverse=True):  # /namespaces/{namespace}/pods before /pods, which is all of them
        identity = paths[path].get("get", paths[path].get("post", {})).get("x-kubernetes-group-version-kind")
        parts = path.partition("/v")[2].split("/")[1:]
        namespaced = parts[:2] == ["namespaces", "{namespace}"]
        plural, *rest = parts[2:] if namespaced else parts
        if identity and not rest and plural != "watch":
            found.setdefault(identity["kind"], Resource(**identity, plural=plural, namespaced=namespaced))
    return found


def _schema_of(kind: str, schemas: Mapping[str, Schema], served: Mapping[str, Resource]) -> str:
    if kind not in served:
        raise LookupError(f"the server serves no {kind} here; it serves {', '.join(sorted(served))}")
    resource = served[kind]
    identity = {"group": resource.group, "version": resource.version, "kind": kind}
    for name, schema in schemas.items():
        if identity in schema.get("x-kubernetes-group-version-kind", ()) and not name.startswith(META):
            return name
    raise LookupError(f"no schema says that it is {resource.api_version} {kind}")


def from_crd(manifest: Mapping[str, Any], version: str) -> Schemas:
    """The schemas of one version of a CustomResourceDefinition."""
    spec = manifest["spec"]
    names = spec["names"]
    root = next((entry["schema"]["openAPIV3Schema"] for entry in spec["versions"] if entry["name"] == version), None)
    if root is None:
        has = ", ".join(entry["name"] for entry in spec["versions"])
        raise LookupError(f"CustomResourceDefinition {manifest['metadata']['name']}: no version {version}, only {has}")
    prefix = f"{spec['group']}.{version}."
    found: dict[str, Schema] = {}
    _name_objects(_kind_schema(root), prefix, names["kind"], found, {})
    resource = Resource(spec["group"], version, names["kind"], names["plural"], spec["scope"] == "Namespaced")
    return Schemas(found, {prefix + names["kind"]: resource})


def _kind_schema(root: Schema) -> Schema:
    """A CRD says of metadata only that it is an object; every kind's is ObjectMeta."""
    return {**root, "properties": {**root.get("properties", {}), "metadata": {"$ref": REF + META + "ObjectMeta"}}}


def _name_objects(schema: Schema, prefix: str, name: str, found: dict[str, Schema], known: dict[bytes, str]) -> Schema:
    """The schema with its nested objects moved to `found` under names of their own."""
    if "items" in schema:
        return {**schema, "items": _name_objects(schema["items"], prefix, name, found, known)}
    if isinstance(schema.get("additionalProperties"), dict):
        values = _name_objects(schema["additionalProperties"], prefix, name, found, known)
        return {**schema, "additionalProperties": values}
    if not schema.get("properties") or schema.get("x-kubernetes-embedded-resource"):
        return schema
    shape = msgspec.json.encode(_without_prose(schema), order="deterministic")
    if shape not in known:
        while prefix + name in found:
            name += "_"  # `spec.sides` and a field `specSides` make the same name
        known[shape] = prefix + name
        found[prefix + name] = {
            **schema,
            "properties": {
                key: _name_objects(value, prefix, name + key[:1].upper() + key[1:], found, known)
                for key, value in schema["properties"].items()
            },
        }
    reference = {"$ref": REF + known[shape]}
    return {"nullable": True, "allOf": [reference]} if schema.get("nullable") else reference


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_prose(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    prose = "description" if isinstance(schema.get("description"), str) else None
    return {key: _without_prose(part) for key, part in schema.items() if key != prose}
