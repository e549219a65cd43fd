"""What an operator does, in words: those that a plan lists, and those that its requests are. One deed, one word.

Left out are reads, events, leases, and the status of the reconciled object, which no plan lists.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from corral.engine import Plan
from corral.engine.actions import (
    Action,
    AddFinalizer,
    Apply,
    Create,
    Delete,
    EmitEvent,
    Evict,
    Outside,
    Patch,
    RemoveFinalizer,
    SetStatus,
    Target,
)
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.codec import encode_value
from corral.kube.meta import Resource
from corral.kube.transport import Request
from corral.testing.apiserver.answers import Rejection
from corral.testing.apiserver.kinds import Kinds
from corral.testing.apiserver.routes import parse

UNLISTED = ("leases", "events")
LOOKS_AT = "looks at"


def listed(plan: Plan) -> list[str]:
    return [word for action in plan.actions if (word := of_action(action))]


def of_action(action: Action) -> str:
    """Empty: nobody is asked for anything."""
    match action:
        case Create():
            return _word("create", type(action.object).resource, action.object.metadata.name)
        case Apply():
            return _word("apply", type(action.object).resource, action.object.metadata.name)
        case Patch():
            said = action.merge if action.merge is not None else action.json
            return f"{_of(f'patch {action.subresource}'.strip(), action.target)} {_told(said)}"
        case AddFinalizer() | RemoveFinalizer():
            others = [one for one in action.present if one != action.finalizer]
            finalizers = [*others, action.finalizer] if isinstance(action, AddFinalizer) else others
            return f"{_of('patch', action.target)} {_told({'metadata': {'finalizers': finalizers}})}"
        case SetStatus():
            return _of("apply status", action.target)
        case Delete():
            return f"{_of('delete', action.target)} {action.target.uid}"
        case Evict():
            return _of("evict", action.target)
        case Outside():
            return of_call(action.call)
        case EmitEvent():
            return ""


def of_call(call: msgspec.Struct) -> str:
    return f"{type(call).__name__} {about(call) or getattr(call, 'pod', '')}{_more(msgspec.to_builtins(call))}"


def about(call: msgspec.Struct) -> str:
    """What of Slurm's."""
    return str(getattr(call, "node", "") or getattr(call, "reservation", ""))


def of_request(request: Request, kinds: Kinds) -> str:
    """Empty: not a deed."""
    try:
        call = parse(request, kinds)
    except Rejection:
        return f"{request.method} {request.path}"
    resource, body = call.served.resource, call.body
    is_report = resource == NodeSet.resource and call.subresource == "status"
    if not call.is_write or resource.plural in UNLISTED or is_report:
        return ""
    match call.method, call.subresource:
        case "POST", "":
            return _word("create", resource, body["metadata"]["name"])
        case "PATCH", sub if "apply" in call.content_type:
            return _word(f"apply {sub}".strip(), resource, call.name)
        case "PATCH", sub:
            return f"{_word(f'patch {sub}'.strip(), resource, call.name)} {_told(_without_precondition(body))}"
        case "DELETE", "":
            uid = ((body or {}).get("preconditions") or {}).get("uid", "")
            return f"{_word('delete', resource, call.name)} {uid}"
    return f"{request.method} {request.path}"


def of_slurm_request(method: str, path: Sequence[str], body: bytes) -> str:
    """A look at a node is told too: whoever finds it as it should be does no more."""
    said = msgspec.json.decode(body) if body else {}
    match method, path:
        case "GET", ["node", name]:
            return f"{LOOKS_AT} {name}"
        case "DELETE", ["node", name]:
            return f"Forget {name}"
        case "POST", ["node", name] if said.get("state") == ["DRAIN"]:
            return f"Drain {name}{_more(said)}"
        case "POST", ["node", name] if said.get("state") == ["UNDRAIN"]:
            return f"Undrain {name}"
        case "POST", ["reservation"]:
            verb = "Reserve" if "start_time" in said else "Narrow"
            return f"{verb} {said['name']}{_more({'nodes': said.get('node_list')})}"
        case "DELETE", ["reservation", name]:
            return f"Unreserve {name}"
        case "GET", _:
            return ""
    return f"{method} {'/'.join(path)}"


def _more(said: dict[str, Any]) -> str:
    """What a drain says, and whom a reservation is over."""
    told = [str(said["reason"])] if said.get("reason") else []
    told += [",".join(said["nodes"])] if said.get("nodes") else []
    return "".join(f" {one}" for one in told)


def _of(verb: str, target: Target) -> str:
    return _word(verb, target.kind.resource, target.name)


def _word(verb: str, resource: Resource, name: str) -> str:
    return f"{verb} {resource.plural}/{name}"


def _told(body: object) -> str:
    return msgspec.json.encode(msgspec.json.decode(encode_value(body)), order="deterministic").decode()


def _without_precondition(body: Any) -> Any:
    """Of a merge patch: the uid and the version that must be there are not what it changes."""
    if not isinstance(body, dict):
        return body
    metadata = {k: v for k, v in (body.get("metadata") or {}).items() if k not in ("uid", "resourceVersion")}
    rest = {k: v for k, v in body.items() if k != "metadata"}
    return {**rest, **({"metadata": metadata} if metadata else {})}
