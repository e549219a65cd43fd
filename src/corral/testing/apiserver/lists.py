"""The verbs that read many: lists in pages, and the events of a watch. Pure functions over the storage."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Final

import msgspec

from corral.kube.errors import Cause
from corral.kube.meta import Resource
from corral.testing.apiserver import answers
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Served
from corral.testing.apiserver.selectors import Predicate
from corral.testing.apiserver.storage import Change, Storage

LIST_OPTIONS: Final = Resource("meta.k8s.io", "v1", "ListOptions", "listoptions", namespaced=False)
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What a list or a watch is asked for."""

    served: Served
    namespace: str
    matches: Predicate
    selects: bool = False  # whether there is a label or field selector at all
    version: str = ""
    version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    initial_events: bool = False
    bookmarks: bool = False
    timeout_s: float | None = None


class Token(msgspec.Struct, frozen=True):
    version: int
    after: str  # the path of the last object sent


class Event(msgspec.Struct, frozen=True):
    type: str
    object: Json


def list_page(storage: Storage, query: Query) -> Json:
    if query.continue_token and query.version not in ("", "0"):
        raise answers.bad_request("specifying resource version is not allowed when using continue")
    token = decode_token(query.continue_token) if query.continue_token else None
    version = token.version if token else list_version(storage, query)
    if version < storage.compacted:
        raise token_expired() if token else answers.too_old(version, storage.compacted)
    found = storage.scan(query.served.resource.plural_and_group, query.namespace, at=version)
    rest = [(path, value) for path, value in found if (not token or path > token.after) and query.matches(value)]
    page = rest[: query.limit] if query.limit else rest
    metadata: Json = {"resourceVersion": str(version)}
    if len(page) < len(rest):
        metadata["continue"] = encode_token(Token(version, page[-1][0]))
        if not query.selects:
            metadata["remainingItemCount"] = len(rest) - len(page)
    return list_body(query.served, [value for _, value in page], metadata)


def list_body(served: Served, items: list[Json], metadata: Json) -> Json:
    """Items of built-in kinds come without apiVersion and kind, those of custom kinds with them: so does the server."""
    if not served.custom:
        items = [{field: each for field, each in item.items() if field not in ("apiVersion", "kind")} for item in items]
    resource = served.resource
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata, "items": items}


def list_version(storage: Storage, query: Query) -> int:
    if query.version_match and not query.version:
        raise forbidden_option("resourceVersionMatch is forbidden unless resourceVersion is provided")
    asked = reached_version(storage, query)
    return asked if query.version_match == "Exact" else storage.version


def reached_version(storage: Storage, query: Query) -> int:
    """The version asked for; one from the future is refused. (The real server waits for it for three seconds first.)"""
    asked = parse_version(query.version)
    if asked > storage.version:
        raise answers.too_large_version(asked, storage.version)
    return asked


def forbidden_option(why: str) -> answers.Rejection:
    cause = Cause("resourceVersionMatch", f"Forbidden: {why}", "FieldValueForbidden")
    return answers.invalid(LIST_OPTIONS, "", [cause])


def check_watch(query: Query) -> None:
    if query.initial_events and query.version_match != "NotOlderThan":
        raise forbidden_option("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")


def parse_version(text: str) -> int:
    if not text:
        return 0
    if not text.isdigit():
        raise answers.bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def encode_token(token: Token) -> str:
    return urlsafe_b64encode(msgspec.json.encode(token)).decode()


def decode_token(text: str) -> Token:
    try:
        return msgspec.json.decode(urlsafe_b64decode(text), type=Token)
    except ValueError:
        raise answers.bad_request("continue key is not valid") from None


def token_expired() -> answers.Rejection:
    return answers.expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter."
    )


def initial_events(storage: Storage, query: Query) -> list[Event]:
    found = storage.scan(query.served.resource.plural_and_group, query.namespace)
    return [Event("ADDED", value) for _, value in found if query.matches(value)]


def wants_initial_events(query: Query) -> bool:
    """A watch that names no version begins with all there is, whether it asked for that or not."""
    return query.initial_events or query.version in ("", "0")


def events_since(storage: Storage, query: Query, version: int) -> Iterator[tuple[int, Event]]:
    """Each event with its version. An object that leaves the selector is deleted for this watch."""
    for change in storage.changes_since(version):
        event = event_of(change, query)
        if event is not None:
            yield change.version, event


def event_of(change: Change, query: Query) -> Event | None:
    if change.key.resource != query.served.resource.plural_and_group:
        return None
    if query.namespace and change.key.namespace != query.namespace:
        return None
    was = change.before is not None and query.matches(change.before)
    if change.after is not None and query.matches(change.after):
        return Event("MODIFIED" if was else "ADDED", change.after)
    return Event("DELETED", change.last) if was else None


def bookmark(served: Served, version: int, *, initial_events_end: bool = False) -> Event:
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    resource = served.resource
    return Event("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})
