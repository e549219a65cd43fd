"""Comparing what is rendered with a file that people read. CORRAL_GOLDEN=write makes the files; then read the diff."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from corral.kube.codec import encode
from corral.kube.meta import Object


def as_yaml(objects: Iterable[Object]) -> str:
    return yaml.safe_dump_all([msgspec.json.decode(encode(obj)) for obj in objects], sort_keys=True, width=120)


def assert_golden(path: Path, text: str) -> None:
    if os.environ.get("CORRAL_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
