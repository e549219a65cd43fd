"""Is this text a value of that type? The answers are those of Slurm's own parser, asked in both versions."""

import re
from collections.abc import Iterable
from typing import Final

from corral.slurm.config.keys import ONE_OF, OPTION_LISTS, PLUGIN_KEYS, SOME_OF, Key, KeyTable, Type, nearest

_LIMITS: Final = {Type.UINT16: 2**16 - 1, Type.UINT32: 2**32 - 1, Type.UINT64: 2**64 - 1}
_NUMBER: Final = re.compile(r"\+?([0-9]+|0[xX][0-9a-fA-F]+)([kK]?)")
_FLOAT: Final = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
_ENDLESS: Final = ("unlimited", "infinite")
_YES_NO: Final = ("yes", "no", "true", "false", "up", "down", "1", "0")
_TIME: Final = re.compile(r"-1|[0-9]+(:[0-9]+){0,2}|[0-9]+-([0-9]+(:[0-9]+){0,2})?")

_TIMES: Final = frozenset({"MaxTime", "DefaultTime"})
# Keys of records whose words are known; a colon and a number may follow (OverSubscribe=FORCE:4).
_RECORD_WORDS: Final = {
    ("PartitionName", "State"): (),
    ("PartitionName", "OverSubscribe"): ("EXCLUSIVE",),
    ("PartitionName", "PreemptMode"): ("GANG",),
    ("NodeName", "State"): ("IDLE", "NORMAL"),
    ("DownNodes", "State"): ("DOWN", "DRAIN", "FAIL", "FAILING"),
}


def wrong_value(name: str, key: Key, value: str, table: KeyTable, record: str = "") -> str:
    """What is wrong, in words that follow the key's name; nothing if nothing is."""
    if record:
        return _wrong_type(key.type, value) or _wrong_in_record(record, name, key, value)
    return _wrong_type(key.type, value) or _wrong_word(name, key, value) or _wrong_plugin(name, value, table)


def doubtful_options(name: str, key: Key, value: str) -> Iterable[str]:
    """What the daemon would ignore without a word."""
    if name not in OPTION_LISTS or not key.options:
        return
    for word in _words(value):
        option = re.split("[=:]", word, maxsplit=1)[0]
        if option and not _among(option, key.options):
            guess = nearest(option, key.options)
            yield f"has no option {option}: {f'did you mean {guess}? ' if guess else ''}Slurm ignores it silently"


def _wrong_type(kind: Type, value: str) -> str:
    if kind in _LIMITS:
        return _wrong_number(kind, value)
    if kind is Type.YES_NO and value.lower() not in _YES_NO:
        return f"is {_shown(value)}: expected yes or no"
    if kind is Type.TRUE_FALSE and value.lower() not in _YES_NO:
        return f"is {_shown(value)}: expected true or false"
    if kind is Type.FLOAT and not _FLOAT.fullmatch(value):
        return f"is {_shown(value)}: expected a number"
    return ""


def _wrong_number(kind: Type, value: str) -> str:
    if value.lower() in _ENDLESS:
        return ""
    found = _NUMBER.fullmatch(value)
    if found is None or (found[2] and kind is Type.UINT16):
        return f"is {_shown(value)}: expected a whole number"
    number = int(found[1], 16 if found[1].lower().startswith("0x") else 10) * (1024 if found[2] else 1)
    return f"is {value}: expected at most {_LIMITS[kind]}" if number > _LIMITS[kind] else ""


def _wrong_word(name: str, key: Key, value: str) -> str:
    allowed = (*key.options, *ONE_OF.get(name, ()), *SOME_OF.get(name, ()))
    if name in ONE_OF and not value.isdigit() and not _among(value, allowed):
        return _expected(value, allowed)
    if name in SOME_OF:
        for word in _words(value):
            if not _among(word.removeprefix("-").removeprefix("+"), allowed):
                return _expected(word, allowed)
    return ""


def _wrong_in_record(record: str, name: str, key: Key, value: str) -> str:
    if name in _TIMES and value.lower() not in _ENDLESS and not _TIME.fullmatch(value):
        return f"is {_shown(value)}: expected minutes, hours:minutes:seconds, days-hours or UNLIMITED"
    if (record, name) in _RECORD_WORDS:
        allowed = (*key.options, *_RECORD_WORDS[record, name])
        for word in _words(value):
            if not _among(word.partition(":")[0], allowed):
                return _expected(word, allowed)
    return ""


def _wrong_plugin(name: str, value: str, table: KeyTable) -> str:
    kind = PLUGIN_KEYS.get(name)
    if kind is None:
        return ""
    built = table.plugins.get(kind, ())
    for word in _words(value):
        plugin = word.removeprefix(f"{kind}/")
        if plugin not in (*built, *_BUILT_IN.get(kind, ())):
            known = tuple(f"{kind}/{each}" for each in (*built, *_BUILT_IN.get(kind, ())))
            return _expected(word, known) + f" (Slurm {table.version} as Debian builds it)"
    return ""


# Words that Slurm takes without a plugin file of that name.
_BUILT_IN: Final = {
    "accounting_storage": ("none",),
    "cred": ("slurm",),
    "job_container": ("none",),
    "jobacct_gather": ("none",),
    "jobcomp": ("none",),
    "mcs": ("none",),
    "namespace": ("none",),
    "preempt": ("none",),
    "switch": ("none",),
    "task": ("none",),
    "topology": ("none", "default"),
}


def _expected(value: str, allowed: tuple[str, ...]) -> str:
    guess = nearest(value, allowed)
    return f"is {_shown(value)}: {f'did you mean {guess}?' if guess else f'expected one of {_listed(allowed)}'}"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(dict.fromkeys(words[:12])) + (", ..." if len(words) > 12 else "")


def _among(word: str, allowed: tuple[str, ...]) -> bool:
    return word.lower() in {each.lower() for each in allowed}


def _words(value: str) -> list[str]:
    return [word for word in value.split(",") if word]


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
