"""One document after another: which kind it is of, what becomes of it, and whether what became of it is one of ours."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from corral.kinds.wukong.importing import kubevirt, novasphere
from corral.kinds.wukong.importing.parts import CannotImport, Document, Imported
from corral.kinds.wukong.spec import NAME_MAX, Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.meta import Object

__all__ = ["CannotImport", "Document", "Imported", "imported"]

Kind: TypeAlias = tuple[str, str]

OURS: Mapping[str, type[Object]] = {"Wukong": Wukong, "WukongSnapshot": WukongSnapshot}
PASSED: frozenset[str] = frozenset({"PersistentVolumeClaim", "DataVolume"})  # only read, for the sizes of disks


def imported(documents: Iterable[Document]) -> tuple[Imported, ...]:
    """Raises CannotImport for the first document that nothing can be made of."""
    every = [each for document in documents for each in _items(document)]
    claims = tuple(document for document in every if document.get("kind") in PASSED)
    return tuple(
        _checked(found) for document in every if document.get("kind") not in PASSED for found in _one(document, claims)
    )


def _items(document: Document) -> Iterable[Document]:
    return document.get("items") or () if str(document.get("kind", "")).endswith("List") else (document,)


def _one(document: Document, claims: tuple[Document, ...]) -> Iterable[Imported]:
    group, kind = str(document.get("apiVersion", "")).partition("/")[0], str(document.get("kind", ""))
    match group, kind:
        case novasphere.GROUP, "Wukong":
            return (novasphere.wukong(document),)
        case novasphere.GROUP, "WukongSnapshot":
            return (novasphere.snapshot(document),)
        case kubevirt.GROUP, "VirtualMachine":
            return kubevirt.machine(document, claims)
    known = f"Wukong and WukongSnapshot of {novasphere.GROUP}, VirtualMachine of {kubevirt.GROUP}"
    raise CannotImport(f"{document.get('apiVersion')} {kind} is not known here; known are {known}")


def _checked(found: Imported) -> Imported:
    """What the definition's types say; its rules are the server's, or `corral lint`'s."""
    manifest: dict[str, Any] = dict(found.manifest)
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    if kind in OURS:
        try:
            msgspec.convert(manifest, OURS[kind])
        except msgspec.ValidationError as error:
            raise CannotImport(f"{kind} {name}: {error}") from error
        if kind == "Wukong" and (len(name) > NAME_MAX or "." in name):
            message = f"Wukong {name}: a name has at most {NAME_MAX} characters and no dots; rename it first"
            raise CannotImport(message)
    return found
