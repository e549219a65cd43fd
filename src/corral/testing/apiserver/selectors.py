"""Label and field selectors: text in, a predicate over JSON objects out."""

import re
from collections.abc import Callable
from typing import TypeAlias

from corral.testing.apiserver.answers import Json, bad_request

Predicate: TypeAlias = Callable[[Json], bool]
Labels: TypeAlias = Callable[[dict[str, str]], bool]

_SET_REQUIREMENT = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUALITY = re.compile(r"^(?P<key>[^!=\s]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^=\s]*)$")
_EXISTENCE = re.compile(r"^(?P<not>!?)\s*(?P<key>[^!=,()\s]+)$")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


def selector(labels: str, fields: str, supported_fields: frozenset[str]) -> Predicate:
    requirements = [label_requirement(part) for part in split(labels)]
    wanted = [field_requirement(part, supported_fields) for part in split(fields)]

    def matches(value: Json) -> bool:
        found = value["metadata"].get("labels") or {}
        return all(holds(found) for holds in requirements) and all(holds(value) for holds in wanted)

    return matches


def split(text: str) -> list[str]:
    return [part.strip() for part in _COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip()]


def label_requirement(text: str) -> Labels:
    if found := _SET_REQUIREMENT.match(text):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALITY.match(text):
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTENCE.match(text):
        key, absent = found["key"], bool(found["not"])
        return lambda labels: (key not in labels) is absent
    raise bad_request(f"unable to parse requirement: {text!r} is not a label selector")


def field_requirement(text: str, supported: frozenset[str]) -> Predicate:
    found = _EQUALITY.match(text)
    if found is None:
        raise bad_request(f"invalid selector: {text!r}; can't understand {text!r}")
    name, value, differs = found["key"], found["value"], found["operator"] == "!="
    if name not in supported:
        raise bad_request(f"field label not supported: {name}")
    path = name.split(".")
    return lambda candidate: (text_at(candidate, path) == value) is not differs


def text_at(value: Json, path: list[str]) -> str:
    """The field as a selector sees it: absent is the empty string, booleans are words."""
    found: object = value
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    if found is None:
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def matches_label_selector(wanted: Json, labels: dict[str, str]) -> bool:
    """The structured form that PodDisruptionBudgets and workloads hold in their spec."""
    equal = all(labels.get(key) == value for key, value in (wanted.get("matchLabels") or {}).items())
    return equal and all(expression_holds(each, labels) for each in wanted.get("matchExpressions") or ())


def expression_holds(expression: Json, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise bad_request(f"{other!r} is not a valid label selector operator")
