"""Bytes to objects and back: the only place that knows the JSON of Kubernetes.

A kind's apiVersion and kind come from its class (`obj.resource`), never from the object: Structs have no such fields.
Decoders are made once per class. Lists and watch lines are decoded into the class in one pass, without a dict between.

What cannot be decoded is `Garbled`. Its message has the path and the type that was expected; it quotes the answer only
when that is no JSON object (a proxy's page), because objects may hold secrets.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import msgspec

from corral.kube.answers import Bookmark, Gone, Page, Put
from corral.kube.errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Garbled,
    Invalid,
    NotFound,
    ServerError,
    ServerTimeout,
    StreamingListUnsupported,
    Subject,
    TooManyRequests,
    Unauthorized,
)
from corral.kube.meta import ListMeta, Model, Object, ObjectMeta
from corral.kube.unstructured import Unstructured

T = TypeVar("T", bound=Object)
X = TypeVar("X")

INITIAL_LIST_ENDS = "k8s.io/initial-events-end"
QUOTED_BYTES_MAX = 120
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def encode(obj: Object) -> bytes:
    """The wire form, with apiVersion and kind first."""
    if isinstance(obj, Unstructured):
        content = {key: value for key, value in obj.content.items() if key not in ("apiVersion", "kind")}
        body = _ENCODER.encode(content)
    else:
        body = _ENCODER.encode(obj)
    head = _head(type(obj))
    return head + b"}" if body == b"{}" else head + b"," + body[1:]


def encode_value(value: object) -> bytes:
    """A patch or another body that is no object."""
    return _ENCODER.encode(value)


def decode(kind: type[T], body: bytes, subject: Subject) -> T:
    if issubclass(kind, Unstructured):
        return cast("T", _untyped(kind, _decode(_decoder(dict[str, Any]), body, subject), subject))
    return _decode(_decoder(kind), body, subject)


def decode_metadata(body: bytes, subject: Subject) -> ObjectMeta:
    return _decode(_decoder(_Marker), body, subject).metadata


def decode_value(shape: type[X], body: bytes, subject: Subject) -> X:
    """An answer that is no object: a version, a list of resources."""
    return _decode(_decoder(shape), body, subject)


def decode_list(kind: type[T], body: bytes, subject: Subject) -> Page[T]:
    if issubclass(kind, Unstructured):
        raw = _decode(_decoder(_List[dict[str, Any]]), body, subject)
        items = tuple(cast("T", _untyped(kind, item, subject)) for item in raw.items or ())
        return Page(items, raw.metadata.resource_version, raw.metadata.continue_)
    answer = _decode(_list_decoder(kind), body, subject)
    return Page(answer.items or (), answer.metadata.resource_version, answer.metadata.continue_)


def decode_deleted(kind: type[T], body: bytes, subject: Subject) -> T | None:
    """A delete is answered by the object, marked or gone, or by a Status that says no more than "done"."""
    if _decode(_decoder(_Named), body, subject).kind == "Status":
        return None
    return decode(kind, body, subject)


def decode_events(kind: type[T], lines: bytes, subject: Subject) -> Iterator[Put[T] | Gone[T] | Bookmark]:
    """What whole lines of a watch say. An ERROR line, or one that cannot be read, is raised after what is before it."""
    decoder = _event_decoder(dict if issubclass(kind, Unstructured) else kind)
    try:
        told = iter(decoder.decode_lines(lines))
    except UNREADABLE:
        told = (_decode(decoder, line, subject) for line in lines.split(b"\n") if line)
    for event in told:
        yield _said(kind, event, subject)


def _said(kind: type[T], event: Any, subject: Subject) -> Put[T] | Gone[T] | Bookmark:
    if isinstance(event, _Bookmark):
        meta = event.object.metadata
        return Bookmark(meta.resource_version, meta.annotations.get(INITIAL_LIST_ENDS) == "true")
    if isinstance(event, _Error):
        raise _error(subject, event.object.code, event.object, None)
    obj: T = event.object
    if issubclass(kind, Unstructured):
        obj = cast("T", _untyped(kind, event.object, subject))
    if isinstance(event, _Deleted):
        return Gone(obj)
    return Put(obj, "MODIFIED" if isinstance(event, _Modified) else "ADDED")


def error_of(subject: Subject, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The typed error for an answer of 400 or more. A body that is no Status (a proxy's page) still gives one."""
    try:
        told = _decoder(_Status).decode(body)
    except UNREADABLE:
        told = _Status(message=_quoted(body))
    return _error(subject, status, told, _retry_after_s(headers, told))


class _StatusCause(Model, frozen=True, kw_only=True):
    field: str = ""
    message: str = ""
    reason: str = ""


class _StatusDetails(Model, frozen=True, kw_only=True):
    causes: tuple[_StatusCause, ...] | None = None
    retry_after_seconds: int | None = None


class _Status(Model, frozen=True, kw_only=True):
    message: str = ""
    reason: str = ""
    code: int = 500
    details: _StatusDetails | None = None


class _List(Model, Generic[X], frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: tuple[X, ...] | None = None


class _Named(Model, frozen=True, kw_only=True):
    kind: str = ""


class _Marker(Model, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


class _Added(msgspec.Struct, Generic[X], frozen=True, tag_field="type", tag="ADDED"):
    object: X


class _Modified(msgspec.Struct, Generic[X], frozen=True, tag_field="type", tag="MODIFIED"):
    object: X


class _Deleted(msgspec.Struct, Generic[X], frozen=True, tag_field="type", tag="DELETED"):
    object: X


class _Bookmark(msgspec.Struct, frozen=True, tag_field="type", tag="BOOKMARK"):
    object: _Marker


class _Error(msgspec.Struct, frozen=True, tag_field="type", tag="ERROR"):
    object: _Status


def _encode_read_only(value: object) -> object:
    if isinstance(value, MappingProxyType):
        return dict(value)
    raise NotImplementedError(f"no wire form for {type(value).__name__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_read_only)


@cache
def _head(kind: type[Object]) -> bytes:
    return msgspec.json.encode({"apiVersion": kind.resource.api_version, "kind": kind.resource.kind})[:-1]


def _decoder(shape: type[X]) -> msgspec.json.Decoder[X]:
    known = _DECODERS.get(shape)
    if known is None:
        known = _DECODERS[shape] = msgspec.json.Decoder(shape)
    return known


def _list_decoder(kind: type[X]) -> msgspec.json.Decoder[_List[X]]:
    return _decoder(_List[kind])  # type: ignore[valid-type]


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


@cache
def _event_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Added[kind] | _Modified[kind] | _Deleted[kind] | _Bookmark | _Error)


def _decode(decoder: msgspec.json.Decoder[X], body: bytes, subject: Subject) -> X:
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        quoted = "" if body.lstrip()[:1] == b"{" else f": {_quoted(body)}"
        raise Garbled(subject, f"cannot read the answer: {error}{quoted}") from None


def _untyped(kind: type[Unstructured], content: dict[str, Any], subject: Subject) -> Unstructured:
    try:
        return kind(content=content)
    except msgspec.ValidationError as error:
        raise Garbled(subject, f"cannot read the answer: {error} in metadata") from None


def _quoted(body: bytes) -> str:
    start = " ".join(body[: QUOTED_BYTES_MAX * 2].decode(errors="replace").split())[:QUOTED_BYTES_MAX]
    return start or "(an empty answer)"


def _retry_after_s(headers: Mapping[str, str], told: _Status) -> float | None:
    """Kubernetes sends whole seconds; an HTTP date, which it never sends, counts as not given."""
    given = headers.get("retry-after", "")
    if given.isascii() and given.isdigit():
        return float(given)
    return told.details.retry_after_seconds if told.details else None


def _error(subject: Subject, code: int, told: _Status, retry_after_s: float | None) -> ApiError:
    details = told.details or _StatusDetails()
    causes = tuple(Cause(cause.field, cause.message, cause.reason) for cause in details.causes or ())
    return _class_of(code, told)(
        subject,
        told.message or told.reason or f"HTTP {code}",
        status=code,
        reason=told.reason,
        causes=causes,
        retry_after_s=details.retry_after_seconds if retry_after_s is None else retry_after_s,
    )


def _class_of(code: int, told: _Status) -> type[ApiError]:
    if code in (400, 422, 403) and "sendInitialEvents" in told.message:
        return StreamingListUnsupported  # Kubernetes before 1.32, or the feature gate WatchList is off
    if code == 500 and "RequestWatchProgress" in told.message:
        return StreamingListUnsupported  # the server has it, its etcd (before 3.4.25) does not; told within the stream
    if code >= 500 and told.reason in ("ServerTimeout", "Timeout"):
        return ServerTimeout
    if told.reason == "AlreadyExists":
        return AlreadyExists
    return _CLASSES.get(code, ServerError if code >= 500 else ApiError)


_CLASSES: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: Invalid,
    422: Invalid,
    429: TooManyRequests,
    504: ServerTimeout,
}
