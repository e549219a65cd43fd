"""Every key of every file, per version: what `scripts/slurm_keys.py` found in the manual pages and asked the daemons.

The tables are data (`keys/24.11.json`); this file only reads them, and adds what neither source says: which lists of
options are complete, so that a word that is not in them is a mistake.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

VERSIONS: Final = ("24.11", "26.05")


class Type(Enum):
    TEXT = "text"
    YES_NO = "yesno"
    TRUE_FALSE = "truefalse"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT = "float"


class Key(msgspec.Struct, frozen=True):
    """What a version says of a key. `options` are those that its manual lists, in the manual's order."""

    type: Type
    options: tuple[str, ...] = ()
    repeats: bool = False
    defunct: bool = False
    undocumented: bool = False


class FileTable(msgspec.Struct, frozen=True):
    """The keys that stand alone on a line, and the records by their first key."""

    settings: Mapping[str, Key]
    records: Mapping[str, Mapping[str, Key]]

    @property
    def record_names(self) -> Mapping[str, str]:
        return {name.lower(): name for name in self.records}


class KeyTable(msgspec.Struct, frozen=True):
    version: str
    package: str
    plugins: Mapping[str, tuple[str, ...]]
    files: Mapping[str, FileTable]


class UnknownVersionError(ValueError):
    """A Slurm that there is no table for."""


@cache
def key_table(version: str) -> KeyTable:
    if version not in VERSIONS:
        raise UnknownVersionError(f"Slurm {version}: expected one of {', '.join(VERSIONS)}")
    text = (files("corral.slurm.config") / "keys" / f"{version}.json").read_bytes()
    return msgspec.json.decode(text, type=KeyTable)


def find(keys: Mapping[str, Key], name: str) -> tuple[str, Key] | None:
    """The key in its proper spelling; Slurm reads keys in any case."""
    if name in keys:
        return name, keys[name]
    return next(((known, key) for known, key in keys.items() if known.lower() == name.lower()), None)


def nearest(word: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    """The known word that was probably meant, or nothing."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[close[0]] if close else ""


# Keys whose value is one of the manual's options, or a list of them; the daemon refuses anything else. The words beside
# a key are taken by the daemon though its manual does not list them.
ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "EnforcePartLimits": ("YES", "NO", "ALL", "ANY"),
    "SlurmctldDebug": (),
    "SlurmdDebug": (),
    "SlurmctldSyslogDebug": (),
    "SlurmdSyslogDebug": (),
    "PriorityUsageResetPeriod": (),
    "DebugLevel": (),
    "DebugLevelSyslog": (),
    "CgroupPlugin": (),
}
SOME_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "AccountingStorageEnforce": ("0", "1", "2", "3"),
    "DebugFlags": (),
    "PreemptMode": (),
    "PrologFlags": (),
    "SelectTypeParameters": ("CR_Memory", "CR_Core_Memory", "OTHER_CONS_TRES"),
}
# Lists of options where the daemon ignores what it does not know, without a word: worth a warning.
OPTION_LISTS: Final = frozenset(
    {
        "AuthAltParameters",
        "AuthInfo",
        "CommunicationParameters",
        "DependencyParameters",
        "JobAcctGatherParams",
        "LaunchParameters",
        "MetricsParameters",
        "PreemptParameters",
        "PriorityFlags",
        "PrivateData",
        "SchedulerParameters",
        "SlurmctldParameters",
        "SlurmdParameters",
        "TaskPluginParam",
        "TopologyParam",
    }
)
# Written as kind/name, one or several; the daemon that needs the plugin does not start without it.
PLUGIN_KEYS: Final[Mapping[str, str]] = {
    "AccountingStorageType": "accounting_storage",
    "AuthAltTypes": "auth",
    "AuthType": "auth",
    "CliFilterPlugins": "cli_filter",
    "CredType": "cred",
    "HashPlugin": "hash",
    "JobAcctGatherType": "jobacct_gather",
    "JobCompType": "jobcomp",
    "JobContainerType": "job_container",
    "MCSPlugin": "mcs",
    "MetricsType": "metrics",
    "NamespaceType": "namespace",
    "PreemptType": "preempt",
    "PriorityType": "priority",
    "ProctrackType": "proctrack",
    "SchedulerType": "sched",
    "SelectType": "select",
    "StorageType": "accounting_storage",
    "SwitchType": "switch",
    "TaskPlugin": "task",
    "TLSType": "tls",
    "TopologyPlugin": "topology",
}
