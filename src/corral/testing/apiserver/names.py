"""Which names, labels and annotations the server accepts."""

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from corral.kube.errors import Cause
from corral.testing.apiserver.answers import Json

NameRule: TypeAlias = Literal["subdomain", "label", "service", "path"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

ANNOTATIONS_BYTES_MAX: Final = 256 * 1024


ALPHANUMERIC_ENDS: Final = "must start and end with an alphanumeric character"
DNS_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
SAID: Final[dict[NameRule, tuple[re.Pattern[str], int, str]]] = {
    "subdomain": (
        _SUBDOMAIN,
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
        + ALPHANUMERIC_ENDS,
    ),
    "label": (
        _LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        + ALPHANUMERIC_ENDS,
    ),
    "service": (
        _SERVICE,
        63,
        DNS_1035,
    ),
    "path": (re.compile(r"(?!\.{1,2}$)[^/%]+"), 253, "may not contain '/' or '%', nor be '.' or '..'"),
}
NAME_PART: Final = "name part must consist of alphanumeric characters, '-', '_' or '.', and " + ALPHANUMERIC_ENDS
VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
    + ALPHANUMERIC_ENDS
)


def name_causes(name: str, rule: NameRule) -> Iterator[Cause]:
    pattern, length_max, sentence = SAID[rule]
    if len(name) > length_max:
        yield Cause("metadata.name", f'Invalid value: "{name}": must be no more than {length_max} characters')
    if not pattern.fullmatch(name):
        yield Cause("metadata.name", f'Invalid value: "{name}": {sentence}')


def label_causes(labels: Json) -> Iterator[Cause]:
    for key, value in labels.items():
        if not qualified(key):
            yield Cause("metadata.labels", f'Invalid value: "{key}": {NAME_PART}')
        if not isinstance(value, str) or len(value) > 63:
            yield Cause("metadata.labels", f'Invalid value: "{value}": must be no more than 63 characters')
        elif not _LABEL_VALUE.fullmatch(value):
            yield Cause("metadata.labels", f'Invalid value: "{value}": {VALUE}')


def annotation_causes(annotations: Json) -> Iterator[Cause]:
    for key in annotations:
        if not qualified(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key}": {NAME_PART}')
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_BYTES_MAX:
        message = f"Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes"
        yield Cause("metadata.annotations", message, "FieldValueTooLong")


def qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (_SUBDOMAIN.fullmatch(prefix) and len(prefix) <= 253):
        return False
    return len(name) <= 63 and bool(_QUALIFIED_NAME.fullmatch(name))
