"""What the server is and what it serves.

Resources are asked for in one request (aggregated discovery, Kubernetes 1.26 and later); a server that answers in the
old way is asked group by group. A group whose own server is down is left out: the others are no less there.
"""

from collections.abc import Mapping

import msgspec

from corral.kube.calls import Calls
from corral.kube.codec import decode_value
from corral.kube.errors import Invalid, NotFound, ServerError, Subject
from corral.kube.meta import Resource
from corral.kube.retry import Repeat
from corral.kube.transport import Request

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ASK_S_MAX = 30.0


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    major: str
    minor: str
    git_version: str = ""

    @property
    def number(self) -> tuple[int, int]:
        """To be compared: (1, 36). Some distributions say "36+"."""
        return int(self.major or 0), int("".join(filter(str.isdigit, self.minor)) or 0)


class ServedResource(msgspec.Struct, frozen=True):
    resource: Resource
    verbs: tuple[str, ...]
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


async def server_version(calls: Calls) -> ServerVersion:
    subject = Subject("get", "server version")
    return decode_value(ServerVersion, await _ask(calls, subject, "/version"), subject)


async def served(calls: Calls, resource: Resource) -> bool:
    listed = await _resources_of(calls, resource.group, resource.version)
    return any(one.resource.plural == resource.plural and one.resource.kind == resource.kind for one in listed)


async def resources(calls: Calls) -> tuple[ServedResource, ...]:
    found: list[ServedResource] = []
    for path in ("/api", "/apis"):
        subject = Subject("get", "API resources", name=path)
        answer = decode_value(_Discovery, await _ask(calls, subject, path, f"{AGGREGATED},application/json"), subject)
        if answer.kind == "APIGroupDiscoveryList":
            found += _aggregated(answer)
            continue
        versions = [("", version) for version in answer.versions]
        versions += [(group.name, one.version) for group in answer.groups for one in group.versions]
        for group, version in versions:
            found += await _resources_of(calls, group, version)
    return tuple(found)


async def openapi_paths(calls: Calls) -> Mapping[str, str]:
    subject = Subject("get", "OpenAPI documents")
    answer = decode_value(_OpenApiPaths, await _ask(calls, subject, "/openapi/v3"), subject)
    return {name: where.server_relative_url for name, where in answer.paths.items()}


async def openapi(calls: Calls, path: str) -> bytes:
    where, _, query = path.partition("?")
    subject = Subject("get", "OpenAPI document", name=where)
    if not where.startswith("/openapi/v3"):
        raise Invalid(subject, f"expected a path below /openapi/v3, got {where!r}", status=422, reason="Invalid")
    return await _ask(calls, subject, where, query=tuple(_pair(part) for part in query.split("&") if part))


def _pair(part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    return key, value


async def _ask(
    calls: Calls,
    subject: Subject,
    path: str,
    accept: str = "application/json",
    query: tuple[tuple[str, str], ...] = (),
) -> bytes:
    request = Request(subject=subject, method="GET", path=path, query=query, accept=accept, deadline_s=ASK_S_MAX)
    return (await calls.send(request, Repeat.HARMLESS)).body


async def _resources_of(calls: Calls, group: str, version: str) -> list[ServedResource]:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    subject = Subject("get", "API resources", name=path)
    try:
        answer = decode_value(_ResourceList, await _ask(calls, subject, path), subject)
    except (NotFound, ServerError):
        return []
    subresources: dict[str, list[str]] = {}
    for one in answer.resources:
        plural, slash, subresource = one.name.partition("/")
        subresources.setdefault(plural, []).extend([subresource] if slash else [])
    return [
        ServedResource(
            Resource(group, version, one.kind, one.name, one.namespaced),
            verbs=one.verbs,
            subresources=tuple(subresources[one.name]),
            short_names=one.short_names,
            categories=one.categories,
        )
        for one in answer.resources
        if "/" not in one.name
    ]


def _aggregated(answer: "_Discovery") -> list[ServedResource]:
    return [
        ServedResource(
            Resource(
                group.metadata.name, version.version, one.response_kind.kind, one.resource, one.scope == "Namespaced"
            ),
            verbs=one.verbs,
            subresources=tuple(below.subresource for below in one.subresources),
            short_names=one.short_names,
            categories=one.categories,
        )
        for group in answer.items
        for version in group.versions
        for one in version.resources
        if one.response_kind is not None
    ]


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Listed(_Wire, frozen=True, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _ResourceList(_Wire, frozen=True):
    resources: tuple[_Listed, ...] = ()


class _Kind(_Wire, frozen=True):
    kind: str


class _Below(_Wire, frozen=True):
    subresource: str


class _Resource(_Wire, frozen=True, rename="camel"):
    resource: str
    scope: str = ""
    response_kind: _Kind | None = None
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[_Below, ...] = ()


class _Version(_Wire, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()


class _Name(_Wire, frozen=True):
    name: str = ""


class _Group(_Wire, frozen=True):
    metadata: _Name = _Name()
    name: str = ""  # of an old answer
    versions: tuple[_Version, ...] = ()


class _Discovery(_Wire, frozen=True):
    """An answer of either way: `items` is the aggregated one, `versions` (at /api) and `groups` (at /apis) the old."""

    kind: str = ""
    items: tuple[_Group, ...] = ()
    versions: tuple[str, ...] = ()
    groups: tuple[_Group, ...] = ()


class _Path(_Wire, frozen=True, rename={"server_relative_url": "serverRelativeURL"}):
    server_relative_url: str


class _OpenApiPaths(_Wire, frozen=True):
    paths: Mapping[str, _Path] = {}
