"""Names: `clusterIPs` becomes `cluster_ips`, and `io.k8s.api.core.v1.Pod` becomes `Pod` in `core_v1`."""

import keyword
import re

import msgspec

# An acronym may be in the plural (IPs, URLs), and ends before the last capital of a following word (HTTPGet).
_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


_IRREGULAR = {"openAPIV3Schema": "openapi_v3_schema"}


def attribute(wire: str) -> str:
    """The Python name of a field: snake case, acronyms as one word, digits with the word before them."""
    if wire in _IRREGULAR:
        return _IRREGULAR[wire]
    words: list[str] = []
    for word in _WORD.findall(wire):
        if words and word.isdigit():
            words[-1] += word
        else:
            words.append(word.lower())
    name = "_".join(words)
    return f"{name}_" if keyword.iskeyword(name) else name


def renames_to(name: str, wire: str) -> bool:
    """Whether msgspec's own `rename="camel"` makes `wire` of this attribute, so that it need not be written out."""
    (field,) = msgspec.structs.fields(msgspec.defstruct("Probe", [(name, str)], rename="camel"))
    return field.encode_name == wire


def class_name(schema: str) -> str:
    return schema.rpartition(".")[2]


def module(schema: str) -> str:
    """The module of a schema: its API group's first word and its version."""
    path = schema.split(".")[:-1]
    if schema.startswith("io.k8s."):
        return f"{path[-2]}_{path[-1]}"
    return f"{re.sub('[^a-z0-9]', '_', path[0])}_{path[-1]}"
