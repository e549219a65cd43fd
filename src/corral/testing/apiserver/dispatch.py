"""From a parsed call to its answer: which verb a method on a path is. Synchronous; raises Rejection."""

from typing import Any

from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import Preconditions, Propagation
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.eviction import evict
from corral.testing.apiserver.lists import check_watch, list_page
from corral.testing.apiserver.objects import Objects
from corral.testing.apiserver.routes import Call, list_query
from corral.testing.apiserver.scale import patch_scale, scale_of

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = ("application/apply-patch+yaml", "application/apply-patch+cbor")


def answer(objects: Objects, call: Call) -> tuple[int, Json]:
    match call.method, call.name, call.subresource:
        case "GET", "", "":
            query = list_query(call)
            check_watch(query)
            return 200, list_page(objects.storage, query)
        case "GET", _, "" | "status":
            check_subresource(call)
            return 200, objects.get(call.served, call.namespace, call.name)
        case "POST", "", "":
            return 201, objects.create(call.served, call.namespace, body_object(call), call.options)
        case "POST", name, "eviction" if call.served.resource.plural_and_group == "pods":
            return 201, evict(objects, call.served, call.namespace, name, body_object(call), call.options)
        case "PUT", name, "" | "status" if name:
            check_subresource(call)
            return 200, objects.update(call.served, call.namespace, name, body_object(call), call.options)
        case "PATCH", name, "" | "status" if name:
            check_subresource(call)
            return patch(objects, call)
        case "DELETE", name, "" if name:
            return 200, delete(objects, call)
        case "DELETE", "", "":
            return 200, delete_collection(objects, call)
        case "GET", name, "scale":
            return 200, scale_of(objects, call.served, call.namespace, name)
        case "PATCH", name, "scale":
            return 200, patch_scale(
                objects, call.served, call.namespace, name, call.body, call.content_type, call.options
            )
        case _, _, "":
            raise answers.method_not_allowed()
        case _:
            raise answers.no_such_path()


def check_subresource(call: Call) -> None:
    if call.subresource == "status" and not call.served.status:
        raise answers.no_such_path()


def body_object(call: Call) -> Json:
    if not isinstance(call.body, dict):
        raise answers.bad_request("the body of the request is not an object")
    return call.body


def patch(objects: Objects, call: Call) -> tuple[int, Json]:
    served, where = call.served, (call.namespace, call.name)
    match call.content_type.split(";")[0]:
        case content if content == MERGE:
            return 200, objects.merge(served, *where, body_object(call), call.options)
        case content if content == JSON_PATCH:
            return 200, objects.json_patch(served, *where, call.body, call.options)
        case content if content in APPLY:
            existed = objects.exists(served, *where)
            return 200 if existed else 201, objects.apply(served, *where, body_object(call), call.options)
        case _:
            raise answers.unsupported_media_type()


def delete(objects: Objects, call: Call) -> Json:
    asked = delete_options(call)
    wanted = asked.get("preconditions") or {}
    return objects.delete(
        call.served,
        call.namespace,
        call.name,
        propagation=propagation_of(asked),
        grace_s=asked.get("gracePeriodSeconds"),
        preconditions=Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
        dry_run=bool(asked.get("dryRun")),
    )


def delete_collection(objects: Objects, call: Call) -> Json:
    asked = delete_options(call)
    found = list_page(objects.storage, list_query(call))
    for item in found["items"]:
        metadata = item["metadata"]
        objects.delete(
            call.served,
            metadata.get("namespace", ""),
            metadata["name"],
            propagation=propagation_of(asked),
            grace_s=asked.get("gracePeriodSeconds"),
            dry_run=bool(asked.get("dryRun")),
        )
    return found


def delete_options(call: Call) -> Json:
    """From the body or, as `kubectl --raw` sends them, from the query."""
    asked: dict[str, Any] = dict(call.body) if isinstance(call.body, dict) else {}
    if policy := call.query.get("propagationPolicy"):
        asked.setdefault("propagationPolicy", policy)
    if grace := call.query.get("gracePeriodSeconds"):
        asked.setdefault("gracePeriodSeconds", int(grace))
    if call.options.dry_run:
        asked["dryRun"] = ["All"]
    return asked


def propagation_of(asked: Json) -> Propagation:
    match asked.get("propagationPolicy") or "":
        case "" | "Background" | "Foreground" | "Orphan" as policy:
            return policy
        case other:
            raise answers.bad_request(f'propagationPolicy: Unsupported value: "{other}"')
