"""The scale subresource: the same three fields for every kind that scales."""

from typing import Any

from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import check_uid, check_version, stated
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Scale, Served, at
from corral.testing.apiserver.objects import Objects, Options
from corral.testing.apiserver.patches import json_patch, merge_patch


def scale_of(objects: Objects, served: Served, namespace: str, name: str) -> Json:
    return view(declared(served), objects.get(served, namespace, name))


def patch_scale(
    objects: Objects, served: Served, namespace: str, name: str, patch: Any, content_type: str, options: Options
) -> Json:
    where = declared(served)
    old = objects.get(served, namespace, name)
    seen = view(where, old)
    changed = json_patch(seen, patch) if content_type == "application/json-patch+json" else merge_patch(seen, patch)
    check_version(served, old, stated(changed).version)
    check_uid(served, old, stated(changed).uid)
    replicas = at(changed, ("spec", "replicas")) or 0
    if not isinstance(replicas, int) or replicas < 0:
        raise answers.bad_request(f"spec.replicas: expected 0 or more, got {replicas!r}")
    new = merge_patch(old, nested(where.spec_replicas, replicas))
    return view(where, objects.update(served, namespace, name, new, options))


def declared(served: Served) -> Scale:
    if served.scale is None:
        raise answers.no_such_path()
    return served.scale


def view(where: Scale, value: Json) -> Json:
    metadata = {
        key: value["metadata"].get(key) for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    selector = at(value, where.label_selector.split(".")) if where.label_selector else None
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": at(value, where.spec_replicas.split(".")) or 0},
        "status": {
            "replicas": at(value, where.status_replicas.split(".")) or 0,
            **({"selector": selector} if selector else {}),
        },
    }


def nested(dotted: str, value: object) -> Json:
    for step in reversed(dotted.split(".")):
        value = {step: value}
    assert isinstance(value, dict)
    return value
