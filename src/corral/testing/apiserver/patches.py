"""JSON merge patch (RFC 7396) and JSON patch (RFC 6902). Pure: a value and a patch in, a new value out."""

from typing import Any

from corral.testing.apiserver.answers import Json, Rejection, bad_request


def merge_patch(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), change)
    return result


def json_patch(value: Any, operations: Any) -> Any:
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise bad_request("json: cannot unmarshal the body into a list of JSON patch operations")
    for operation in operations:
        value = json_patch_step(value, operation)
    return value


def json_patch_step(value: Any, operation: Json) -> Any:
    path = pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return added(value, path, operation.get("value"))
        case "replace":
            return replaced(value, path, operation.get("value"))
        case "remove":
            return removed(value, path)
        case "test":
            if found(value, path) != operation.get("value"):
                raise rejected(f"testing value {operation.get('path')} failed")
            return value
        case "copy":
            return added(value, path, found(value, pointer(operation.get("from"))))
        case "move":
            source = pointer(operation.get("from"))
            return added(removed(value, source), path, found(value, source))
        case other:
            raise rejected(f"unexpected kind of operation: {other!r}")


def pointer(text: Any) -> list[str]:
    """RFC 6901: `/metadata/annotations/a~1b` is three steps, the last one `a/b`."""
    if text == "":
        return []
    if not isinstance(text, str) or not text.startswith("/"):
        raise rejected(f"{text!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]


def found(value: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[index(step, len(value) - 1)]
        else:
            raise rejected(f"path {'/'.join(path)!r} does not exist")
    return value


def added(value: Any, path: list[str], new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        if rest and step not in value:
            raise rejected(f"add operation does not apply: doc is missing path {step!r}")
        return {**value, step: added(value.get(step), rest, new)}
    if isinstance(value, list):
        if rest:
            at = index(step, len(value) - 1)
            return [*value[:at], added(value[at], rest, new), *value[at + 1 :]]
        at = len(value) if step == "-" else index(step, len(value))
        return [*value[:at], new, *value[at:]]
    raise rejected(f"add operation does not apply: {step!r} is inside a value that has no fields")


def replaced(value: Any, path: list[str], new: Any) -> Any:
    """The server replaces a field that is not there by adding it, which the RFC forbids."""
    if not path:
        return new
    parent = found(value, path[:-1])
    return added(removed(value, path) if not isinstance(parent, dict) or path[-1] in parent else value, path, new)


def removed(value: Any, path: list[str]) -> Any:
    if not path:
        return None
    found(value, path)  # what is not there cannot be removed
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        if rest:
            return {**value, step: removed(value[step], rest)}
        return {key: each for key, each in value.items() if key != step}
    at = index(step, len(value) - 1)
    middle = [removed(value[at], rest)] if rest else []
    return [*value[:at], *middle, *value[at + 1 :]]


def index(step: str, last: int) -> int:
    if not step.isdigit() or int(step) > last:
        raise rejected(f"invalid array index {step!r}")
    return int(step)


def rejected(why: str) -> Rejection:
    """The server keeps the reason to itself; so do we, but for whoever debugs a test."""
    rejection = Rejection(422, "Invalid", "the server rejected our request due to an error in our request")
    rejection.add_note(why)
    return rejection
