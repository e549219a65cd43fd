"""What a folder of generated files should hold, and the difference to what it holds."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from corral.kube.crd import crd_of, to_yaml
from corral.kube.generate import gofields
from corral.kube.generate.classes import classes
from corral.kube.generate.documents import Schemas, from_crd, from_openapi
from corral.kube.generate.writing import modules
from corral.kube.meta import Object

PACKAGE_DOC = '"""Kinds and their parts as frozen Structs, generated: one module per API group and version."""\n'

Documents = Mapping[str, Mapping[str, Any]]  # by path: `api/v1`, `apis/apps/v1`


class Wanted(msgspec.Struct, frozen=True):
    """kinds.toml: kinds by group and version, and `Kind/version` by file."""

    served: Mapping[str, tuple[str, ...]]
    files: Mapping[str, tuple[str, ...]] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """The documents that are needed."""
        return tuple(map(_path, self.served))


def _path(group_version: str) -> str:
    return f"apis/{group_version}" if "/" in group_version else f"api/{group_version}"


def model_files(wanted: Wanted, documents: Documents, root: Path) -> dict[str, str]:
    """The text of every module by its file name. Files of `wanted` are relative to `root`."""
    schemas = Schemas({}, {})
    for group_version, kinds in wanted.served.items():
        schemas |= from_openapi(documents[_path(group_version)], kinds)
    for file, entries in wanted.files.items():
        schemas |= _from_file(root / file, entries)
    texts = modules(classes(schemas, gofields.read_checked_in()))
    return {"__init__.py": PACKAGE_DOC, **{f"{name}.py": text for name, text in texts.items()}}


def _from_file(file: Path, entries: Iterable[str]) -> Schemas:
    schemas = Schemas({}, {})
    manifests = [entry for entry in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if entry]
    for kind, _, version in (entry.partition("/") for entry in entries):
        found = [entry for entry in manifests if entry["spec"].get("names", {}).get("kind") == kind]
        if not found:
            raise LookupError(f"{file} has no CustomResourceDefinition for the kind {kind}")
        schemas |= from_crd(found[0], version)
    return schemas


def crd_files(kinds: Iterable[type[Object]]) -> dict[str, str]:
    """The CustomResourceDefinition of each kind as YAML, by its file name."""
    return {f"{own.resource.plural_and_group}.yaml": to_yaml(crd_of(own)) for own in kinds}


def changes(texts: Mapping[str, str], folder: Path) -> dict[str, str | None]:
    """What has to be written (or removed: None) so that the folder holds these texts, and no others of their suffix."""
    suffixes = {Path(name).suffix for name in texts}
    there = {path.name: path.read_text() for path in folder.glob("*") if path.suffix in suffixes}
    stale: dict[str, str | None] = dict.fromkeys(sorted(there.keys() - texts.keys()))
    return stale | {name: text for name, text in texts.items() if there.get(name) != text}


def apply(changed: Mapping[str, str | None], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in changed.items():
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
