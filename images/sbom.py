"""A bill of materials: every Debian package of an image with its version, as CycloneDX JSON.

It has no times and no random ids: the same packages give the same bytes.
"""

import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote


def bill(image: str, suite: str, status: str) -> bytes:
    """`status` is the text of /var/lib/dpkg/status."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": image}},
        "components": [_component(package, suite) for package in sorted(installed(status), key=_identity)],
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def installed(status: str) -> Iterator[Mapping[str, str]]:
    """The fields of each installed package; those that go on over several lines, by their first."""
    for paragraph in status.split("\n\n"):
        lines = (line for line in paragraph.splitlines() if line and not line[0].isspace())
        fields = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if fields.get("Status", "").endswith(" installed"):
            yield fields


def _identity(package: Mapping[str, str]) -> tuple[str, str]:
    return package["Package"], package["Architecture"]


def _component(package: Mapping[str, str], suite: str) -> Mapping[str, str]:
    name, version, architecture = (package[field] for field in ("Package", "Version", "Architecture"))
    purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={architecture}&distro={suite}"
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}
