"""Comparing what is rendered with a file that people read. CORRAL_GOLDEN=write makes the files; then read the diff."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from corral.kube.codec import encode
from corral.kube.meta import Object


class _Readable(yaml.SafeDumper):
    """Texts of several lines are written as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def as_yaml(objects: Iterable[Object]) -> str:
    plain = [msgspec.json.decode(encode(obj)) for obj in objects]
    return str(yaml.dump_all(plain, Dumper=_Readable, sort_keys=True, width=120))


def assert_golden(path: Path, text: str) -> None:
    if os.environ.get("CORRAL_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
