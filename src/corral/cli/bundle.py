"""Files by name become one archive: redacted, checked once more, the same bytes for the same content. Pure."""

import gzip
import io
import tarfile
from collections.abc import Callable, Iterable, Mapping

import msgspec

from corral.cli.redaction import needles, redactor


class StillSecret(Exception):
    """A secret was found in what should be free of them. It must not be written."""


class Bundle(msgspec.Struct, frozen=True):
    """`files` are redacted; `changed` says which of them had something in them."""

    files: Mapping[str, str]
    changed: tuple[str, ...]


def bundled(files: Mapping[str, str], secrets: Iterable[bytes]) -> Bundle:
    values = tuple(secrets)
    redact: Callable[[str], str] = redactor(values)
    clean = {redact(name): redact(text) for name, text in files.items()}
    changed = tuple(sorted(name for name, text in files.items() if clean.get(redact(name)) != text))
    known = needles(values)
    for name, text in clean.items():
        if any(needle in text or needle in name for needle in known):
            raise StillSecret(name)
    return Bundle(clean, changed)


def archived(bundle: Bundle, folder: str, at_s: int) -> bytes:
    """A tar.gz with everything in one folder, so that unpacking it leaves no mess."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in sorted(bundle.files.items()):
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), at_s, 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=at_s)
