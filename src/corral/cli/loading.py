"""What a person names becomes what the engine works with: kinds from Python files, objects from manifests."""

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import yaml

from corral.cli.errors import Failure
from corral.engine.registry import KindController, UnknownKind, find
from corral.kinds.registry import KINDS
from corral.kube.meta import Object


class Manifest(msgspec.Struct, frozen=True):
    """One document of a file, decoded into its kind."""

    entry: KindController
    object: Object


def kinds_of(sources: Iterable[str]) -> tuple[KindController, ...]:
    found = [*KINDS]
    for source in sources:
        module = _module(source)
        kinds = getattr(module, "KINDS", None)
        if not isinstance(kinds, tuple) or not all(isinstance(kind, KindController) for kind in kinds):
            raise Failure(f"--load {source}: expected a tuple KINDS of KindController, found {kinds!r}")
        for entry in kinds:
            if entry.kind.resource in {known.kind.resource for known in found}:
                name = entry.kind.resource.plural_and_group
                raise Failure(f"--load {source}: {name} is loaded already; leave this --load out")
            found.append(entry)
    return tuple(found)


def kind_named(kinds: Iterable[KindController], word: str) -> KindController:
    try:
        return find(kinds, word)
    except UnknownKind as unknown:
        raise Failure(f"{unknown}; more kinds come with --load FILE") from unknown


def manifests_in(file: Path, kinds: Iterable[KindController], namespace: str) -> tuple[Manifest, ...]:
    """The objects of the kinds we know, in the file's order; "-" is standard input. Other kinds are an error."""
    return tuple(_manifest(document, file, kinds, namespace) for document in documents_in(file))


def documents_in(file: Path) -> list[dict[str, Any]]:
    """Every document, which has at least an apiVersion and a kind; "-" is standard input."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        documents = [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document is not None]
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise Failure(f"{file} is not YAML: {error}") from error
    if not documents:
        raise Failure(f"{file} contains no object")
    for document in documents:
        if not isinstance(document, dict):
            raise Failure(f"{file}: expected an object with apiVersion and kind, found {type(document).__name__}")
    return documents


def _manifest(document: dict[str, Any], file: Path, kinds: Iterable[KindController], namespace: str) -> Manifest:
    api_version, kind = document.get("apiVersion"), document.get("kind")
    for entry in kinds:
        if (entry.kind.resource.api_version, entry.kind.resource.kind) == (api_version, kind):
            return Manifest(entry, _decoded(document, entry, file, namespace))
    known = ", ".join(sorted(f"{e.kind.resource.api_version} {e.kind.resource.kind}" for e in kinds)) or "none"
    raise Failure(f"{file}: no kind {api_version} {kind} here; known kinds: {known}; more kinds come with --load FILE")


def _decoded(document: dict[str, object], entry: KindController, file: Path, namespace: str) -> Object:
    try:
        obj = msgspec.convert(document, entry.kind)
    except msgspec.ValidationError as error:
        metadata = document.get("metadata")
        name = metadata.get("name", "without a name") if isinstance(metadata, dict) else "without metadata"
        raise Failure(f"{file}: {entry.kind.resource.kind} {name}: {error}") from error
    if not obj.metadata.name:
        raise Failure(f"{file}: {entry.kind.resource.kind}: metadata.name is missing")
    if entry.kind.resource.namespaced and not obj.metadata.namespace:
        placed = msgspec.structs.replace(obj.metadata, namespace=namespace)
        return msgspec.structs.replace(obj, metadata=placed)
    return obj


def _module(source: str) -> ModuleType:
    path = Path(source)
    try:
        if path.suffix != ".py":
            return importlib.import_module(source)
        if not path.is_file():
            raise Failure(f"--load {source}: no such file")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise Failure(f"--load {source}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # msgspec resolves annotations through it
        spec.loader.exec_module(module)
    except ImportError as error:
        raise Failure(f"--load {source}: {error}") from error
    return module
