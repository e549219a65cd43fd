"""How the server says no: each refusal is a `Rejection` that carries the Status object a client receives.

Wording, `reason` and `details` follow the real server, since clients and people read them.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from corral.kube.errors import Cause
from corral.kube.meta import Resource

Json: TypeAlias = dict[str, Any]


class Rejection(Exception):
    def __init__(self, status: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}

    @property
    def retry_after_s(self) -> int | None:
        value = self.details.get("retryAfterSeconds")
        return value if isinstance(value, int) else None

    def body(self) -> Json:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({"details": self.details} if self.details else {}),
            "code": self.status,
        }


def success(resource: Resource, name: str, uid: str) -> Json:
    """What a DELETE answers when the object is gone at once."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**named(resource, name), "uid": uid},
    }


def named(resource: Resource, name: str) -> Json:
    return {
        **({"name": name} if name else {}),
        **({"group": resource.group} if resource.group else {}),
        "kind": resource.plural,
    }


def not_found(resource: Resource, name: str) -> Rejection:
    return Rejection(404, "NotFound", f'{resource.plural_and_group} "{name}" not found', named(resource, name))


def no_such_path() -> Rejection:
    return Rejection(404, "NotFound", "the server could not find the requested resource")


class NoSuchPage(Rejection):
    """What is under no group or version that we serve is answered in plain text, not with a Status."""

    TEXT = b"404 page not found\n"

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def already_exists(resource: Resource, name: str) -> Rejection:
    message = f'{resource.plural_and_group} "{name}" already exists'
    return Rejection(409, "AlreadyExists", message, named(resource, name))


def conflict(resource: Resource, name: str, why: str) -> Rejection:
    message = f'Operation cannot be fulfilled on {resource.plural_and_group} "{name}": {why}'
    return Rejection(409, "Conflict", message, named(resource, name))


def uid_differs(resource: Resource, name: str, asked: str, found: str) -> Rejection:
    why = f"the UID in the precondition ({asked}) does not match the UID in record ({found})."
    return precondition_failed(resource, name, f"{why} The object might have been deleted and then recreated")


def version_differs(resource: Resource, name: str, asked: str, found: str) -> Rejection:
    why = f"the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({found})."
    return precondition_failed(resource, name, f"{why} The object might have been modified")


def precondition_failed(resource: Resource, name: str, why: str) -> Rejection:
    message = f'Operation cannot be fulfilled on {group_kind(resource)} "{name}": {why}'
    return Rejection(409, "Conflict", message, {**named(resource, name), "kind": resource.kind})


def group_kind(resource: Resource) -> str:
    return f"{resource.kind}.{resource.group}" if resource.group else resource.kind


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> Rejection:
    found = list(causes)
    listed = ", ".join(f"{cause.field}: {cause.message}" for cause in found)
    message = f'{group_kind(resource)} "{name}" is invalid: ' + (f"[{listed}]" if len(found) > 1 else listed)
    details = {**named(resource, name), "kind": resource.kind, "causes": [cause_body(cause) for cause in found]}
    return Rejection(422, "Invalid", message, details)


def cause_body(cause: Cause) -> Json:
    return {"reason": cause.reason or "FieldValueInvalid", "message": cause.message, "field": cause.field}


def forbidden(resource: Resource, name: str, why: str, causes: Iterable[Cause] = ()) -> Rejection:
    message = f'{resource.plural_and_group} "{name}" is forbidden: {why}'
    details = {**named(resource, name), "causes": [cause_body(cause) for cause in causes]}
    return Rejection(403, "Forbidden", message, details)


def bad_request(message: str) -> Rejection:
    return Rejection(400, "BadRequest", message)


def unsupported_media_type() -> Rejection:
    return Rejection(415, "UnsupportedMediaType", "415: Unsupported Media Type")


def method_not_allowed() -> Rejection:
    return Rejection(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def expired(message: str) -> Rejection:
    return Rejection(410, "Expired", message)


def too_old(asked: int, oldest: int) -> Rejection:
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large_version(asked: int, current: int) -> Rejection:
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Rejection(504, "Timeout", f"Timeout: {message}", {"causes": [cause], "retryAfterSeconds": 1})


def too_many_requests(retry_after_s: int) -> Rejection:
    message = "the server has received too many requests and has asked us to try again later"
    return Rejection(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after_s})


def disruption_refused(budget: str, why: str) -> Rejection:
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {budget} {why}"}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Rejection(429, "TooManyRequests", message, {"causes": [cause]})


def too_large(limit: int) -> Rejection:
    return Rejection(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def internal_error(message: str) -> Rejection:
    return Rejection(500, "InternalError", f"Internal error occurred: {message}")
