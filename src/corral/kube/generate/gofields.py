"""Reads from Kubernetes' Go sources what its OpenAPI leaves out, and writes `go_fields.json`.

    python -m corral.kube.generate.gofields \\
        $(go list -m -f '{{.Dir}}' k8s.io/api k8s.io/apimachinery k8s.io/apiextensions-apiserver)

Two facts about a field: `zero` (a plain field with `omitempty`: absent means 0, "" or false; a pointer would tell
absent from zero) and `null` (a slice or map without `omitempty`: the server may write null). Run once per Kubernetes
version. A field that is missing from the file is treated as a pointer, so an old file loses comfort and never data.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

TARGET = Path(__file__).parent / "go_fields.json"

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r'^\t(?:\w+ +)?(?P<type>[*\[\]\w.]+) +`[^`]*json:"(?P<name>[^",]*)(?P<options>[^"]*)"', re.MULTILINE
)


class GoFields(msgspec.Struct, frozen=True, omit_defaults=True):
    zero: tuple[str, ...] = ()
    null: tuple[str, ...] = ()


class _GoField(msgspec.Struct, frozen=True):
    type: str
    name: str
    options: str


def read_checked_in() -> Mapping[str, GoFields]:
    """By the name of the schema, such as `io.k8s.api.core.v1.PodSpec`."""
    return msgspec.json.decode(TARGET.read_bytes(), type=dict[str, GoFields])


def facts_of_package(source: str) -> dict[str, GoFields]:
    structs = {name: tuple(_fields(body)) for name, body in _STRUCT.findall(source)}
    return {name: facts for name in structs if (facts := _facts(tuple(_flattened(name, structs)))) != GoFields()}


def _fields(body: str) -> Iterator[_GoField]:
    for match in _FIELD.finditer(body):
        yield _GoField(match["type"], match["name"], match["options"])


def _flattened(name: str, structs: Mapping[str, tuple[_GoField, ...]]) -> Iterator[_GoField]:
    """Embedded structs of the same package count as their fields, as they do in JSON."""
    for field in structs.get(name, ()):
        if "inline" in field.options or not field.name:
            yield from _flattened(field.type.lstrip("*"), structs)
        else:
            yield field


def _facts(fields: tuple[_GoField, ...]) -> GoFields:
    plain = (field for field in fields if not field.type.startswith(("*", "[", "map")))
    several = (field for field in fields if field.type.startswith(("[", "map")))
    return GoFields(
        zero=tuple(sorted({field.name for field in plain if "omitempty" in field.options})),
        null=tuple(sorted({field.name for field in several if "omitempty" not in field.options})),
    )


def _packages(module: Path) -> Iterator[tuple[str, Path]]:
    """Each v1 types.go with the prefix that its types have in OpenAPI."""
    prefix = {"api": "io.k8s.api", "apimachinery": "io.k8s.apimachinery"}.get(module.name.partition("@")[0])
    for file in sorted(module.glob("**/v*/types*.go")):
        package = ".".join(file.parent.relative_to(module).parts)
        yield f"{prefix or 'io.k8s.apiextensions-apiserver'}.{package}", file


def main() -> None:
    found: dict[str, GoFields] = {}
    for module in sys.argv[1:]:
        for prefix, file in _packages(Path(module)):
            if prefix.endswith(".v1") and ".examples." not in prefix:
                facts = facts_of_package(file.read_text())
                found |= {f"{prefix}.{name}": fact for name, fact in facts.items() if not name.endswith("List")}
    TARGET.write_bytes(msgspec.json.format(msgspec.json.encode(found, order="sorted"), indent=1) + b"\n")


if __name__ == "__main__":
    main()
