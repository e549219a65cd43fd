"""What each verb sends, as a value: pure functions from a verb's arguments to a Request."""

from collections.abc import Mapping
from typing import Any

from corral.kube.codec import encode, encode_value
from corral.kube.errors import Cause, Invalid, Subject
from corral.kube.meta import Object, Resource
from corral.kube.retry import Repeat
from corral.kube.selection import Precondition, Propagation, Selector
from corral.kube.transport import Priority, Request

JSON = "application/json"
METADATA_ONLY = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

READ_S_MAX = 30.0
LIST_S_MAX = 60.0
WRITE_S_MAX = 30.0

Query = tuple[tuple[str, str], ...]


def get(
    resource: Resource,
    name: str,
    namespace: str,
    *,
    subresource: str = "",
    deadline_s: float = READ_S_MAX,
    priority: Priority = Priority.NORMAL,
) -> Request:
    subject = Subject("get", resource.kind, namespace, name)
    return Request(
        subject=subject,
        method="GET",
        path=path_to(resource, subject, subresource),
        priority=priority,
        deadline_s=deadline_s,
    )


def list_page(
    resource: Resource, where: Selector, *, limit: int, continue_token: str, resource_version: str, priority: Priority
) -> Request:
    subject = Subject("list", resource.kind, where.namespace)
    query = (
        *_selection(where),
        *_given("limit", str(limit) if limit else ""),
        *_given("continue", continue_token),
        *_given("resourceVersion", resource_version),
    )
    return Request(
        subject=subject,
        method="GET",
        path=path_to_all(resource, subject),
        query=query,
        priority=priority,
        deadline_s=LIST_S_MAX,
    )


def watch(resource: Resource, where: Selector, *, resource_version: str, initial_list: bool) -> Request:
    subject = Subject("watch", resource.kind, where.namespace)
    streamed: Query = (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")) if initial_list else ()
    query = (
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        *streamed,
        *_selection(where),
        *_given("resourceVersion", resource_version),
    )
    return Request(
        subject=subject, method="GET", path=path_to_all(resource, subject), query=query, deadline_s=READ_S_MAX
    )


def create(obj: Object, *, field_manager: str, dry_run: bool, priority: Priority, accept: str = JSON) -> Request:
    named = obj.metadata.name or obj.metadata.generate_name
    subject = Subject("create", obj.resource.kind, obj.metadata.namespace, named)
    _need_namespace(obj.resource, subject)
    return Request(
        subject=subject,
        method="POST",
        path=path_to_all(obj.resource, subject),
        query=_write_query(field_manager, dry_run),
        body=encode(obj),
        content_type=JSON,
        accept=accept,
        priority=priority,
        deadline_s=WRITE_S_MAX,
    )


def apply(
    obj: Object, *, field_manager: str, force: bool, subresource: str, dry_run: bool, priority: Priority
) -> Request:
    subject = Subject("apply", obj.resource.kind, obj.metadata.namespace, obj.metadata.name)
    return Request(
        subject=subject,
        method="PATCH",
        path=path_to(obj.resource, subject, subresource),
        query=(*_write_query(field_manager, dry_run), ("force", "true" if force else "false")),
        body=encode(obj),
        content_type=APPLY_PATCH,
        priority=priority,
        deadline_s=WRITE_S_MAX,
    )


def patch(
    resource: Resource,
    name: str,
    namespace: str,
    *,
    change: Mapping[str, Any] | tuple[Mapping[str, Any], ...],
    precondition: Precondition,
    field_manager: str,
    subresource: str,
    dry_run: bool,
    priority: Priority,
) -> tuple[Request, Repeat]:
    """A mapping is a merge patch, a tuple a JSON patch. The precondition becomes part of it."""
    subject = Subject("patch", resource.kind, namespace, name)
    if isinstance(change, Mapping):
        body, content_type = encode_value(_guarded_merge(change, precondition)), MERGE_PATCH
    else:
        body, content_type = encode_value(_guarded_json(change, precondition)), JSON_PATCH
    harmless = content_type == MERGE_PATCH or precondition.resource_version or dry_run
    request = Request(
        subject=subject,
        method="PATCH",
        path=path_to(resource, subject, subresource),
        query=_write_query(field_manager, dry_run),
        body=body,
        content_type=content_type,
        priority=priority,
        deadline_s=WRITE_S_MAX,
    )
    return request, Repeat.HARMLESS if harmless else Repeat.UNSENT


def delete(
    resource: Resource,
    name: str,
    namespace: str,
    *,
    precondition: Precondition,
    propagation: Propagation,
    grace_period_s: int | None,
    dry_run: bool,
    priority: Priority,
) -> tuple[Request, Repeat]:
    subject = Subject("delete", resource.kind, namespace, name)
    request = Request(
        subject=subject,
        method="DELETE",
        path=path_to(resource, subject),
        body=encode_value(
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": propagation,
                **_delete_options(precondition, grace_period_s, dry_run),
            }
        ),
        content_type=JSON,
        priority=priority,
        deadline_s=WRITE_S_MAX,
    )
    return request, _removal_repeat(precondition, dry_run)


def evict(
    pods: Resource, name: str, namespace: str, *, precondition: Precondition, grace_period_s: int | None, dry_run: bool
) -> tuple[Request, Repeat]:
    subject = Subject("evict", pods.kind, namespace, name)
    request = Request(
        subject=subject,
        method="POST",
        path=path_to(pods, subject, "eviction"),
        body=encode_value(
            {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": name, "namespace": namespace},
                "deleteOptions": _delete_options(precondition, grace_period_s, dry_run),
            }
        ),
        content_type=JSON,
        deadline_s=WRITE_S_MAX,
    )
    return request, _removal_repeat(precondition, dry_run)


def act(resource: Resource, name: str, namespace: str, *, action: str, options: Mapping[str, Any]) -> Request:
    """An action that an API server of others serves below an object, as KubeVirt's `start`: it replaces nothing."""
    subject = Subject(action, resource.kind, namespace, name)
    return Request(
        subject=subject,
        method="PUT",
        path=path_to(resource, subject, action),
        body=encode_value(options),
        content_type=JSON,
        accept="*/*",
        deadline_s=WRITE_S_MAX,
    )


def attach(resource: Resource, name: str, namespace: str, *, to: str) -> Request:
    subject = Subject(to, resource.kind, namespace, name)
    return Request(
        subject=subject, method="GET", path=path_to(resource, subject, to), accept="*/*", deadline_s=READ_S_MAX
    )


def path_to(resource: Resource, subject: Subject, subresource: str = "") -> str:
    """The path to the one object that the subject names.

    Never that of a collection: without a name, DELETE would mean all of them. A name that cannot be one is Invalid, as
    it would be to the server.
    """
    _need(bool(subject.name), subject, "metadata.name", "a name is needed")
    _need_namespace(resource, subject)
    return _checked(resource, subject, subject.name, subresource)


def path_to_all(resource: Resource, subject: Subject) -> str:
    """The path to the collection, in the subject's namespace or in all of them."""
    return _checked(resource, subject, "", "")


def _checked(resource: Resource, subject: Subject, name: str, subresource: str) -> str:
    try:
        return resource.path(subject.namespace, name, subresource)
    except ValueError as error:
        raise _unsendable(subject, "metadata.name", str(error)) from None


def _need_namespace(resource: Resource, subject: Subject) -> None:
    given = bool(subject.namespace) or not resource.namespaced
    _need(given, subject, "metadata.namespace", f"a {resource.kind} lives in a namespace, and none is given")


def _need(fact: bool, subject: Subject, field: str, otherwise: str) -> None:
    if not fact:
        raise _unsendable(subject, field, otherwise)


def _unsendable(subject: Subject, field: str, message: str) -> Invalid:
    told = f"{field}: {message}"
    return Invalid(subject, told, status=422, reason="Invalid", causes=(Cause(field, message, "FieldValueInvalid"),))


def _selection(where: Selector) -> Query:
    return (*_given("labelSelector", where.labels), *_given("fieldSelector", where.fields))


def _given(key: str, value: str) -> Query:
    return ((key, value),) if value else ()


def _write_query(field_manager: str, dry_run: bool) -> Query:
    """Strict: a field the server does not know is an error here, not a warning nobody reads."""
    return (
        ("fieldManager", field_manager),
        ("fieldValidation", "Strict"),
        *_given("dryRun", "All" if dry_run else ""),
    )


def _guarded_merge(change: Mapping[str, Any], precondition: Precondition) -> Mapping[str, Any]:
    metadata = {**change.get("metadata", {}), **_identity(precondition)}
    return {**change, "metadata": metadata} if metadata else change


def _guarded_json(change: tuple[Mapping[str, Any], ...], precondition: Precondition) -> list[Mapping[str, Any]]:
    """`replace` and not `test`: a `test` that fails is a 422 without a field, a replaced version a 409."""
    guards = _identity(precondition).items()
    return [*({"op": "replace", "path": f"/metadata/{key}", "value": value} for key, value in guards), *change]


def _delete_options(precondition: Precondition, grace_period_s: int | None, dry_run: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if identity := _identity(precondition):
        options["preconditions"] = identity
    if grace_period_s is not None:
        options["gracePeriodSeconds"] = grace_period_s
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def _identity(precondition: Precondition) -> dict[str, str]:
    return dict((*_given("uid", precondition.uid), *_given("resourceVersion", precondition.resource_version)))


def _removal_repeat(precondition: Precondition, dry_run: bool) -> Repeat:
    return Repeat.HARMLESS if precondition != Precondition() or dry_run else Repeat.UNSENT
