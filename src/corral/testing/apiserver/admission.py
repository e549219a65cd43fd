"""What a write may say and what it may change: preconditions, identity, names, finalizers, sizes, deletion.

Pure functions: the old object and the new one in; a Rejection, or the object as the server will keep it, out.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from corral.kube.errors import Cause
from corral.kube.meta import Resource
from corral.testing.apiserver import answers
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Served
from corral.testing.apiserver.names import annotation_causes, label_causes, name_causes

Propagation: TypeAlias = Literal["", "Background", "Foreground", "Orphan"]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
OBJECT_BYTES_MAX: Final = 1536 * 1024  # etcd's limit on a request
SYSTEM_METADATA: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
PATCH_OPTIONS: Final = Resource("meta.k8s.io", "v1", "PatchOptions", "patchoptions", namespaced=False)


class Preconditions(msgspec.Struct, frozen=True):
    uid: str = ""
    version: str = ""


def stated(value: Json) -> Preconditions:
    metadata = value.get("metadata") or {}
    return Preconditions(metadata.get("uid") or "", metadata.get("resourceVersion") or "")


def check_identity(served: Served, body: Json, namespace: str, name: str) -> None:
    resource, metadata = served.resource, body.get("metadata") or {}
    if (found := body.get("apiVersion")) not in (None, "", resource.api_version):
        expected = resource.api_version
        raise answers.bad_request(
            f"the API version in the data ({found}) does not match the expected API version ({expected})"
        )
    if (found := body.get("kind")) not in (None, "", resource.kind):
        raise answers.bad_request(f"the kind in the data ({found}) does not match the expected kind ({resource.kind})")
    if resource.namespaced and metadata.get("namespace") not in (None, "", namespace):
        raise answers.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if name and metadata.get("name") not in (None, "", name):
        found = metadata["name"]
        raise answers.bad_request(f"the name of the object ({found}) does not match the name on the URL ({name})")


def check_preconditions(served: Served, old: Json, asked: Preconditions) -> None:
    """Of a delete. A patch states the same in its body, and is answered differently."""
    resource, metadata = served.resource, old["metadata"]
    if asked.uid and asked.uid != metadata["uid"]:
        raise answers.uid_differs(resource, metadata["name"], asked.uid, metadata["uid"])
    if asked.version and asked.version != metadata["resourceVersion"]:
        raise answers.version_differs(resource, metadata["name"], asked.version, metadata["resourceVersion"])


def check_version(served: Served, old: Json, asked: str) -> None:
    if asked and asked != old["metadata"]["resourceVersion"]:
        raise answers.conflict(served.resource, old["metadata"]["name"], answers.STALE)


def check_uid(served: Served, old: Json, asked: str) -> None:
    if asked and asked != old["metadata"]["uid"]:
        cause = Cause("metadata.uid", f'Invalid value: "{asked}": field is immutable')
        raise answers.invalid(served.resource, old["metadata"]["name"], [cause])


def check_apply(config: Json, manager: str) -> None:
    if not manager:
        cause = Cause("fieldManager", "Required value: is required for apply patch", "FieldValueRequired")
        raise answers.invalid(PATCH_OPTIONS, "", [cause])
    if (config.get("metadata") or {}).get("managedFields"):
        raise answers.bad_request("metadata.managedFields must be nil")
    if not config.get("apiVersion") or not config.get("kind"):
        raise answers.bad_request("an apply configuration must name its apiVersion and kind")


def check(served: Served, new: Json, old: Json | None) -> None:
    if causes := [*metadata_causes(served, new, old), *served.validate(new, old)]:
        raise answers.invalid(served.resource, new["metadata"].get("name", ""), causes)


def metadata_causes(served: Served, new: Json, old: Json | None) -> Iterator[Cause]:
    metadata = new["metadata"]
    if not metadata.get("name"):
        message = "Required value: name or generateName is required"
        yield Cause("metadata.name", message, "FieldValueRequired")
        return
    if old is None:
        yield from name_causes(metadata["name"], served.name_rule)
    elif "deletionTimestamp" in old["metadata"]:
        known = old["metadata"].get("finalizers") or []
        if added := [each for each in metadata.get("finalizers") or () if each not in known]:
            listed = ", ".join(f'"{each}"' for each in added)
            message = "no new finalizers can be added if the object is being deleted, found new finalizers []string{%s}"
            yield Cause("metadata.finalizers", f"Forbidden: {message % listed}", "FieldValueForbidden")
    yield from label_causes(metadata.get("labels") or {})
    yield from annotation_causes(metadata.get("annotations") or {})


def check_size(value: Json) -> None:
    size = len(msgspec.json.encode(value))
    if size > OBJECT_BYTES_MAX:
        raise answers.too_large(OBJECT_BYTES_MAX)


def admitted(served: Served, old: Json, new: Json, subresource: str) -> Json:
    """`new`, with everything that this writer may not change put back to what it was."""
    ownership = new["metadata"].get("managedFields")
    if subresource == "status":
        new = {**{field: each for field, each in old.items() if field != "status"}, **only_status(new)}
        new["metadata"] = dict(old["metadata"])
    elif served.status:
        new = {field: each for field, each in new.items() if field != "status"}
        if "status" in old:
            new["status"] = old["status"]
    metadata = {field: each for field, each in new["metadata"].items() if field not in SYSTEM_METADATA and each}
    metadata |= {field: old["metadata"][field] for field in SYSTEM_METADATA if field in old["metadata"]}
    metadata |= {
        field: old["metadata"][field] for field in ("name", "namespace", "resourceVersion") if field in old["metadata"]
    }
    if ownership:
        metadata["managedFields"] = ownership
    return {**new, "apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata}


def only_status(value: Json) -> Json:
    metadata = value.get("metadata") or {}
    kept = {field: metadata[field] for field in ("name", "namespace", "uid", "resourceVersion") if field in metadata}
    return {"metadata": kept, **({"status": value["status"]} if "status" in value else {})}


def own_part(served: Served, value: Json) -> Json:
    """What a writer of the object itself can own: not its status, where that has an endpoint of its own."""
    return {field: each for field, each in value.items() if field != "status"} if served.status else value


def meaning(served: Served, value: Json) -> Json:
    """What a generation counts: everything a user wrote, less metadata and status."""
    hidden = {"metadata", "status"} if served.status else {"metadata"}
    return {field: each for field, each in value.items() if field not in hidden}


def finalizers_for(old: Json, propagation: Propagation) -> list[str]:
    found = list(old["metadata"].get("finalizers") or ())
    if not propagation:
        return found
    others = [each for each in found if each not in (FOREGROUND, ORPHAN)]
    extra = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[propagation]
    return [*others, *extra]


def blocked(value: Json) -> bool:
    """A namespace stays until its content is gone."""
    return value["kind"] == "Namespace" and bool((value.get("spec") or {}).get("finalizers"))


def is_due(value: Json) -> bool:
    metadata = value["metadata"]
    marked = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds", 0) == 0
    return marked and not metadata.get("finalizers") and not blocked(value)
