"""A bill of materials: every Debian and Python package of an image with its version, as CycloneDX JSON.

It has no times and no random ids: the same packages give the same bytes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias, cast
from urllib.parse import quote

Component: TypeAlias = Mapping[str, str]


def bill(image: str, *packages: Iterable[Component]) -> bytes:
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image}},
        "components": sorted(chain(*packages), key=lambda component: component["purl"]),
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def components(written: bytes) -> tuple[Component, ...]:
    """Those of a bill that was written before."""
    return tuple(cast("list[Component]", json.loads(written)["components"]))


def debian_packages(status: str, suite: str) -> Iterator[Component]:
    """`status` is the text of /var/lib/dpkg/status."""
    for package in installed(status):
        name, version, architecture = (package[field] for field in ("Package", "Version", "Architecture"))
        purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={architecture}&distro={suite}"
        yield _component(name, version, purl)


def python_packages(records: Iterable[str]) -> Iterator[Component]:
    """`records` are the texts of METADATA files."""
    for record in records:
        fields = _fields(record.partition("\n\n")[0])
        name, version = fields["Name"], fields["Version"]
        yield _component(name, version, f"pkg:pypi/{name.lower().replace('_', '-')}@{quote(version, safe='')}")


def installed(status: str) -> Iterator[Mapping[str, str]]:
    """The fields of each installed package; those that go on over several lines, by their first."""
    for paragraph in status.split("\n\n"):
        fields = _fields(paragraph)
        if fields.get("Status", "").endswith(" installed"):
            yield fields


def _fields(paragraph: str) -> Mapping[str, str]:
    lines = (line for line in paragraph.splitlines() if line and not line[0].isspace())
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _component(name: str, version: str, purl: str) -> Component:
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
