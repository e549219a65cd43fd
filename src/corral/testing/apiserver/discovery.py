"""What the server says about itself: its version, and which kinds it serves."""

from typing import Final

from corral.testing.apiserver import answers
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Kinds, Served

VERSION: Final[Json] = {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "fake"}
VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def describe(path: str, kinds: Kinds) -> Json | None:
    """None when the path is not about the server itself."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            groups = sorted({each.resource.group for each in kinds.all()} - {""})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_body(each, kinds) for each in groups]}
        case ["api", version]:
            return resources_body("", version, kinds)
        case ["apis", group]:
            return {"kind": "APIGroup", "apiVersion": "v1", **group_body(group, kinds)}
        case ["apis", group, version]:
            return resources_body(group, version, kinds)
        case _:
            return None


def group_body(group: str, kinds: Kinds) -> Json:
    versions = sorted({each.resource.version for each in kinds.all() if each.resource.group == group})
    if not versions:
        raise answers.no_such_path()
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def resources_body(group: str, version: str, kinds: Kinds) -> Json:
    found = [each for each in kinds.all() if (each.resource.group, each.resource.version) == (group, version)]
    if not found:
        raise answers.no_such_path()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for each in found for entry in resource_entries(each)],
    }


def resource_entries(served: Served) -> list[Json]:
    resource = served.resource
    base = {"singularName": resource.kind.lower(), "namespaced": resource.namespaced, "kind": resource.kind}
    names = {"shortNames": list(served.short_names)} if served.short_names else {}
    categories = {"categories": list(served.categories)} if served.categories else {}
    entries: list[Json] = [{"name": resource.plural, **base, "verbs": VERBS, **names, **categories}]
    if served.status:
        entries.append(
            {"name": f"{resource.plural}/status", **base, "singularName": "", "verbs": ["get", "patch", "update"]}
        )
    if served.scale:
        scale = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        entries.append(
            {
                "name": f"{resource.plural}/scale",
                **base,
                "singularName": "",
                **scale,
                "verbs": ["get", "patch", "update"],
            }
        )
    if resource.plural_and_group == "pods":
        eviction = {"group": "policy", "version": "v1", "kind": "Eviction"}
        entries.append({"name": "pods/eviction", **base, "singularName": "", **eviction, "verbs": ["create"]})
    return entries
