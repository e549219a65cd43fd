"""Take secrets out of texts. Pure: `redactor(values)` knows what is secret, and gives a function from text to text.

What is taken out, each by its own rule:

    known values    every value of every Secret, as it is, as JSON and URLs write it, in hex, in base64 at any offset
    parts of them   of a value with several lines: the lines of a key, and what a Pass= or Token= in it is set to
    known shapes    JWTs, PEM blocks of private keys, `Pass...=` and the like wherever they stand, whoever wrote them;
                    passwords in URLs, in headers, in options, and in environments of containers

Values shorter than SECRET_LENGTH_MIN are not looked for by themselves: they would be found in ordinary words. After
`redactor(values)(text)` no needle of `needles(values)` is in the text, whatever the text was.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

SECRET_LENGTH_MIN = 6
OPAQUE_LINE_LENGTH_MIN = 16
MARK = "[redacted]"
OTHER_MARKS = ("(***)", "<<>>", "\u2588\u2588\u2588")

_WORDS = r"(?:pass|secret|token|private|credential|api[_-]?key)"
_SENSITIVE = rf"[\w.-]{{0,64}}{_WORDS}[\w.-]{{0,64}}"  # bounded: a report may hold lines without an end
_NAMED = re.compile(rf"(?i){_WORDS}")
# Key=value anywhere; "key": value in JSON, which may itself be quoted; key: value only where YAML has its keys, since
# logs are full of colons; --password value; and what a container's environment has: a name, and below it a value.
_KEY = (
    rf"(?:\b{_SENSITIVE}[ \t]*=[ \t]*"
    rf"|\\*[\"']{_SENSITIVE}\\*[\"'][ \t]*:[ \t]*"
    rf"|^[ \t-]*{_SENSITIVE}:[ \t]+"
    rf"|(?<!\S)--{_SENSITIVE}[ \t]+"
    rf"|^[ \t-]*name:[ \t]+[\"']?{_SENSITIVE}[\"']?\n[ \t]+value:[ \t]+)"
)
_QUOTED = re.compile(rf"(?im)(?P<key>{_KEY}\\*[\"'])(?P<value>[^\"'\n\\]+)")
_BARE = re.compile(rf"(?im)(?P<key>{_KEY})(?P<value>[^\s\"',;}}\\]+)")
# A plain value of YAML may have spaces in it.
_LINE = re.compile(rf"(?im)^(?P<key>[ \t-]*{_SENSITIVE}:[ \t]+)(?P<value>[^\s\"'|>{{\[][^\n]*)")
_BLOCK = re.compile(
    rf"(?im)^(?P<key>(?P<indent>[ \t]*){_SENSITIVE}:[ \t]+[|>][-+0-9]*)\n(?:(?:(?P=indent)[ \t]+\S.*)?(?:\n|\Z))+"
)
_IN_URL = re.compile(r"(?P<key>\w://[^/\s:@\"']*:)(?P<value>[^@/\s\"']+)(?=@)")
_HEADER = re.compile(r"(?i)(?P<key>\b(?:bearer|basic)[ \t]+)(?P<value>[\w.~+/-]{16,}=*)")
_PEOPLE = re.compile(r"(?i)[ \t]*passwd:")  # names and numbers of people; no password is in it
# Where a secret is, not what it is: secretName, passwordKeyRef, tokenFile, ...
_PLACE = re.compile(
    r"(?i)(?:name|names|ref|refs|file|path|type|plugin|id|script|generate)[\"']?[ \t]*[=:][ \t]*[\"']?$"
)
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
# Words that follow such a key in ordinary output and are no secret: where something is, whether it is set.
_HARMLESS = re.compile(
    r"(?i)\(?(?:null|none|true|false|yes|no|unset|\d{1,5}|[|>][-+]?|\[redacted\]|[\w.-]*(?:/[\w.-]+)+)\)?",
)


def redactor(values: Iterable[bytes]) -> Callable[[str], str]:
    """The function that takes these values, and everything that looks like a secret, out of a text."""
    known = needles(values)
    mark = _mark(known)
    # The longest first: a value may begin with another.
    pattern = re.compile("|".join(map(re.escape, sorted(known, key=len, reverse=True)))) if known else None

    def redact(text: str) -> str:
        text = _by_shape(text)
        while pattern is not None and pattern.search(text):  # once, unless the mark had to be empty
            text = pattern.sub(mark, text)
        return text

    return redact


def needles(values: Iterable[bytes]) -> frozenset[str]:
    """Every spelling under which one of the values could stand in a text."""
    return frozenset(needle for value in values for part in _parts(value) for needle in _spellings(part))


def _mark(known: frozenset[str]) -> str:
    """One that shares no character with any needle, so that it can neither be nor complete one; else nothing at all."""
    characters = frozenset("".join(known))
    if not any(MARK in needle or _overlaps(needle, MARK) for needle in known):
        return MARK
    return next((mark for mark in OTHER_MARKS if not characters & frozenset(mark)), "")


def _overlaps(needle: str, mark: str) -> bool:
    """Whether the mark could be a part of a needle's occurrence, or the needle a part of the mark."""
    if needle in mark:
        return True
    ends = any(needle.startswith(mark[-length:]) for length in range(1, len(mark)))
    starts = any(needle.endswith(mark[:length]) for length in range(1, len(mark)))
    return ends or starts


def _parts(value: bytes) -> Iterator[bytes]:
    stripped = value.strip()
    yield from {value, stripped}
    lines = stripped.splitlines()
    if len(lines) < 2:
        return
    for line in lines:
        text = line.strip().decode(errors="replace")
        assigned = _QUOTED.search(text) or _BARE.search(text)
        if assigned is not None and not _is_harmless(assigned):
            yield assigned["value"].encode()
        elif len(text) >= OPAQUE_LINE_LENGTH_MIN and not re.search(r"[\s=]", text.rstrip("=")):
            yield line.strip()


def _spellings(value: bytes) -> Iterator[str]:
    if len(value) < SECRET_LENGTH_MIN:
        return
    yield value.hex()
    yield value.hex().upper()
    for encoded in (base64.b64encode, base64.urlsafe_b64encode):
        yield encoded(value).decode().rstrip("=")
        yield from _inside_base64(value, encoded)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield quote(text, safe="")


def _inside_base64(value: bytes, encoded: Callable[[bytes], bytes]) -> Iterator[str]:
    """What of the value stays the same wherever it stands in something longer that is encoded as a whole."""
    for offset in range(3):
        whole = encoded(b"\0" * offset + value).decode().rstrip("=")
        start = (offset * 8 + 5) // 6  # characters that also hold bits of what stands before
        end = (offset + len(value)) * 8 // 6  # and those after it
        core = whole[start:end]
        if len(core) >= SECRET_LENGTH_MIN:
            yield core


def _by_shape(text: str) -> str:
    text = _PEM.sub(MARK, text)
    text = _JWT.sub(MARK, text)
    for pattern in (_IN_URL, _HEADER):
        text = pattern.sub(rf"\g<key>{MARK}", text)
    if not _NAMED.search(text):
        return text
    text = _BLOCK.sub(_block, text)
    for pattern in (_QUOTED, _LINE, _BARE):
        text = pattern.sub(_assigned, text)
    return text


def _assigned(found: re.Match[str]) -> str:
    return found[0] if _is_harmless(found) else f"{found['key']}{MARK}"


def _block(found: re.Match[str]) -> str:
    """Several lines below a key of YAML."""
    if _PEOPLE.match(found["key"]) or _PLACE.search(found["key"].rstrip("|>-+0123456789")):
        return found[0]
    return f"{found['key']}\n{found['indent']}  {MARK}\n"


def _is_harmless(found: re.Match[str]) -> bool:
    return _HARMLESS.fullmatch(found["value"]) is not None or _PLACE.search(found["key"]) is not None
