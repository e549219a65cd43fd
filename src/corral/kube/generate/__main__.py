"""The command: see the package's docstring."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from corral.kube.generate import gofields
from corral.kube.generate.classes import classes
from corral.kube.generate.documents import Schemas, from_crd, from_openapi
from corral.kube.generate.writing import modules

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
PACKAGE_DOC = '"""Kinds and their parts as frozen Structs, generated: one module per API group and version."""\n'

ReadDocument = Callable[[str], Mapping[str, Any]]  # "api/v1" or "apis/apps/v1" -> its OpenAPI document


class Wanted(msgspec.Struct, frozen=True):
    """kinds.toml."""

    served: Mapping[str, tuple[str, ...]]
    files: Mapping[str, tuple[str, ...]] = {}


def generate(wanted: Wanted, read_document: ReadDocument, root: Path) -> dict[str, str]:
    """The text of every module by its file name."""
    schemas = Schemas({}, {})
    for group_version, kinds in wanted.served.items():
        document = read_document(f"apis/{group_version}" if "/" in group_version else f"api/{group_version}")
        schemas |= from_openapi(document, kinds)
    for file, kinds in wanted.files.items():
        schemas |= _from_file(root / file, frozenset(kinds))
    texts = modules(classes(schemas, gofields.read_checked_in()))
    return {"__init__.py": PACKAGE_DOC, **{f"{name}.py": text for name, text in texts.items()}}


def _from_file(file: Path, kinds: frozenset[str]) -> Schemas:
    """Entries are `Kind/version`."""
    schemas = Schemas({}, {})
    manifests = [entry for entry in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if entry]
    for kind, _, version in sorted(entry.partition("/") for entry in kinds):
        found = [entry for entry in manifests if entry["spec"].get("names", {}).get("kind") == kind]
        if not found:
            raise LookupError(f"{file} has no CustomResourceDefinition for the kind {kind}")
        schemas |= from_crd(found[0], version)
    return schemas


def changes(texts: Mapping[str, str], folder: Path) -> dict[str, str | None]:
    """What has to be written (or removed: None) so that the folder holds these texts and nothing else."""
    there = {path.name: path.read_text() for path in folder.glob("*.py")}
    stale: dict[str, str | None] = dict.fromkeys(sorted(there.keys() - texts.keys()))
    return stale | {name: text for name, text in texts.items() if there.get(name) != text}


def apply(changed: Mapping[str, str | None], folder: Path) -> None:
    for name, text in changed.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)


def from_folder(folder: Path) -> ReadDocument:
    """Documents as the Kubernetes repository keeps them under api/openapi-spec/v3."""

    def read(path: str) -> Mapping[str, Any]:
        name = path.replace("/", "__") + "_openapi.json"
        return msgspec.json.decode((folder / name).read_bytes(), type=dict[str, Any])

    return read


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m corral.kube.generate", description="Write corral.kube.models.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("--openapi", type=Path, metavar="FOLDER", help="read documents from files, not from a server")
    arguments = parser.parse_args()
    wanted = msgspec.toml.decode((HERE / "kinds.toml").read_bytes(), type=Wanted)
    changed = changes(generate(wanted, from_folder(arguments.openapi), Path.cwd()), MODELS)
    for name in changed:
        print(f"{'would change' if arguments.check else 'wrote'} models/{name}", file=sys.stderr)  # noqa: T201
    if not arguments.check:
        apply(changed, MODELS)
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
