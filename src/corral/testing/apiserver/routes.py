"""From a request's path, query and body to a call on a kind. Knows the shape of URLs and nothing of what they do."""

from typing import Any
from urllib.parse import unquote

import msgspec
import yaml

from corral.kube.transport import Request
from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import OBJECT_BYTES_MAX
from corral.testing.apiserver.kinds import Kinds, Served
from corral.testing.apiserver.lists import Query
from corral.testing.apiserver.objects import Options
from corral.testing.apiserver.selectors import selector

REQUEST_BYTES_MAX = 2 * OBJECT_BYTES_MAX  # the server's own limit on a body; etcd's is lower


class Call(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    served: Served
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: dict[str, str]
    body: Any = None
    content_type: str = ""

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def is_watch(self) -> bool:
        return self.method == "GET" and self.query.get("watch") in ("1", "true")

    @property
    def options(self) -> Options:
        return Options(
            manager=self.query.get(
                "fieldManager", "" if self.content_type.startswith("application/apply") else "unknown"
            ),
            subresource=self.subresource,
            force=self.query.get("force") == "true",
            dry_run=self.query.get("dryRun") == "All",
        )


def parse(request: Request, kinds: Kinds) -> Call:
    group, version, rest = split_path(request.path)
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    if not kinds.has_version(group, version):
        raise answers.NoSuchPage
    served = kinds.find(group, version, plural)
    if served is None or len(rest) > 3 or bool(namespace) > served.resource.namespaced:
        raise answers.no_such_path()
    return Call(
        method=request.method,
        served=served,
        namespace=namespace,
        name=name,
        subresource=subresource,
        query=dict(reversed(request.query)),  # the first of several counts
        body=decoded(request),
        content_type=request.content_type,
    )


def split_path(path: str) -> tuple[str, str, list[str]]:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", version, *rest] if rest:
            return "", version, rest
        case ["apis", group, version, *rest] if rest:
            return group, version, rest
        case _:
            raise answers.NoSuchPage


def decoded(request: Request) -> Any:
    if len(request.body) > REQUEST_BYTES_MAX:
        raise answers.too_large(REQUEST_BYTES_MAX)
    if not request.body:
        return None
    try:
        return msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        if not request.content_type.endswith("yaml"):
            raise answers.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    try:
        return yaml.safe_load(request.body)
    except yaml.YAMLError as error:
        raise answers.bad_request(f"error decoding YAML: {error}") from None


def list_query(call: Call) -> Query:
    query = call.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if call.name:
        fields = f"metadata.name={call.name}"
    timeout = query.get("timeoutSeconds")
    return Query(
        served=call.served,
        namespace=call.namespace,
        matches=selector(labels, fields, call.served.selectable),
        selects=bool(labels or fields),
        version=query.get("resourceVersion", ""),
        version_match=query.get("resourceVersionMatch", ""),
        limit=int(query.get("limit", "0")),
        continue_token=query.get("continue", ""),
        initial_events=query.get("sendInitialEvents") == "true",
        bookmarks=query.get("allowWatchBookmarks") == "true",
        timeout_s=float(timeout) if timeout else None,
    )
