"""When a changed key takes effect: by reconfigure, by a restart of which daemon, or only with no job left.

Since 23.11 `scontrol reconfigure` starts slurmctld and slurmd anew in place, so nearly all keys take effect by it and
jobs go on. EXCEPTIONS is the whole list of what does not, each with its reason; what is not in it is RECONFIGURE.
Sources: the manual pages ("changes to TCP listening settings will require a daemon restart", AuthType, SwitchType) and
what both versions did when it was tried. Never tried, so taken as the dearer class: SelectType, PluginDir, the users,
the process-id files, the containers.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class Effect(IntEnum):
    """In the order of what they cost; of several changes the dearest decides."""

    RECONFIGURE = 0
    RESTART_SLURMD = 1
    RESTART_SLURMCTLD = 2
    RESTART_SLURMDBD = 3
    RESTART_ALL = 4
    DRAIN = 5

    def __str__(self) -> str:
        return _WORDS[self]


_WORDS: Final = {
    Effect.RECONFIGURE: "reconfigure",
    Effect.RESTART_SLURMD: "restart slurmd",
    Effect.RESTART_SLURMCTLD: "restart slurmctld",
    Effect.RESTART_SLURMDBD: "restart slurmdbd",
    Effect.RESTART_ALL: "restart all daemons",
    Effect.DRAIN: "drain all jobs, then restart all daemons",
}

_LISTENS: Final = "it is where the daemon listens"
EXCEPTIONS: Final[Mapping[str, Mapping[str, tuple[Effect, str]]]] = {
    "slurm.conf": {
        "AuthType": (Effect.DRAIN, "daemons with the old and the new value do not understand each other"),
        "ClusterName": (Effect.DRAIN, "the saved state belongs to the old name, and slurmctld refuses to start on it"),
        "CommunicationParameters": (Effect.RESTART_ALL, "it changes how every daemon listens"),
        "CredType": (Effect.DRAIN, "credentials of running steps are no longer understood"),
        "JobContainerType": (Effect.RESTART_SLURMD, "slurmd prepares its namespaces when it starts"),
        "NamespaceType": (Effect.RESTART_SLURMD, "slurmd prepares its namespaces when it starts"),
        "PluginDir": (Effect.RESTART_ALL, "plugins are loaded once"),
        "SelectType": (Effect.DRAIN, "running jobs are recorded in the terms of the old plugin"),
        "SlurmUser": (Effect.RESTART_SLURMCTLD, "a running daemon cannot become another user"),
        "SlurmctldHost": (Effect.RESTART_SLURMCTLD, _LISTENS),
        "SlurmctldPidFile": (Effect.RESTART_SLURMCTLD, "the file is made when the daemon starts"),
        "SlurmctldPort": (Effect.RESTART_ALL, "reconfigure knocks at the new port while slurmctld listens at the old"),
        "SlurmdPidFile": (Effect.RESTART_SLURMD, "the file is made when the daemon starts"),
        "SlurmdPort": (Effect.DRAIN, "steps in flight end nowhere until every slurmd has registered with the new port"),
        "SlurmdSpoolDir": (Effect.DRAIN, "running steps are known by files in the old folder"),
        "SlurmdUser": (Effect.RESTART_SLURMD, "a running daemon cannot become another user"),
        "StateSaveLocation": (
            Effect.RESTART_SLURMCTLD,
            "the state is read when slurmctld starts; move the files first",
        ),
        "SwitchType": (Effect.DRAIN, "records of running jobs may be lost"),
        "TLSType": (Effect.DRAIN, "daemons with the old and the new value do not understand each other"),
    },
    "cgroup.conf": {
        "CgroupPlugin": (Effect.DRAIN, "running steps live in groups that the other plugin does not know"),
        "CgroupMountpoint": (Effect.DRAIN, "running steps live in groups under the old folder"),
    },
}
# A record that goes takes its jobs with it.
RECORD_GONE: Final[Mapping[str, tuple[Effect, str]]] = {
    "NodeName": (Effect.DRAIN, "jobs on a node that is no longer defined are killed"),
    "PartitionName": (Effect.DRAIN, "jobs of a partition that is no longer defined are cancelled"),
}
_DATABASE: Final = (Effect.RESTART_SLURMDBD, "slurmdbd reads its file when it starts")
_AT_ONCE: Final = (Effect.RECONFIGURE, "")


def effect_of(file: str, key: str) -> tuple[Effect, str]:
    """How a change of this key takes effect, and why if not by reconfigure."""
    if file == "slurmdbd.conf":
        return _DATABASE
    by_lower = {name.lower(): what for name, what in EXCEPTIONS.get(file, {}).items()}
    return by_lower.get(key.lower(), _AT_ONCE)
