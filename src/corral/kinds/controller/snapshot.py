"""What one look at a Controller has found, and what may be asked of slurmctld. Frozen values."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from corral.engine import is_controlled_by
from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.people import Seen
from corral.kinds.controller.spec import Controller, DaemonsStatus
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.meta import EMPTY, Object
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret


class FreshKeys(msgspec.Struct, frozen=True):
    """Random bytes for keys that do not exist yet; drawn when observing, since a plan draws nothing."""

    slurm: bytes
    jwt: bytes

    def __repr__(self) -> str:
        return "FreshKeys(...)"


class KeptKeys(msgspec.Struct, frozen=True):
    """Key files as pods still have them although their Secret is gone; by name."""

    files: Mapping[str, bytes] = EMPTY

    def __repr__(self) -> str:
        return f"KeptKeys({', '.join(self.files)})"


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """How many slurmd have started with the running configuration, by slurmctld's records. Names: the first few."""

    yes: int = 0
    no: int = 0
    unknown: int = 0
    no_names: tuple[str, ...] = ()
    unknown_names: tuple[str, ...] = ()


class Revival(msgspec.Struct, frozen=True, kw_only=True):
    """slurmctld came back on a state that was there, which may lack its last seconds.

    `at`: when it did. `loaded`: when the running process read the state; a reconfigure starts another one.
    `holding`: nodes with jobs from before it, by when their slurmd started: that is when it registered.
    `lost`: jobs that slurmdbd has begun records of and slurmctld does not know; None: slurmdbd did not say.
    """

    at: datetime
    loaded: datetime
    holding: Mapping[str, datetime] = EMPTY
    lost: tuple[str, ...] | None = None


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """slurmctld began with an empty state, `at` this moment: it is new, or the volume with its state is.

    `known`: the nodes that it has heard of since. `lost`: as of a Revival.
    """

    at: datetime
    known: frozenset[str] = frozenset()
    lost: tuple[str, ...] | None = None


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmctld said of itself. `digest` is empty when it has not taken any configuration yet.

    `keys`: the digests of the key files it has loaded, by name. `keys_since`: when it did.
    `revival`: None when it began with an empty state. `beginning`: None when it did not, or that is long ago.
    """

    digest: str
    version: str
    up: bool
    as_of: datetime
    keys: Mapping[str, str] = EMPTY
    keys_since: datetime | None = None
    slurmd: Taken = Taken()
    revival: Revival | None = None
    beginning: Beginning | None = None


class KeyFact(msgspec.Struct, frozen=True, kw_only=True):
    """What one daemon's pod said: digests of its mounted key files, and whether the daemon started after they came."""

    files: Mapping[str, str]
    loaded: bool
    since: datetime


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon besides slurmctld that holds keys. `said` None: it has not been asked, or did not answer."""

    pod: Pod
    daemon: str
    said: KeyFact | None = None

    @property
    def name(self) -> str:
        return f"{self.daemon} in pod {self.pod.metadata.name}"


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that hold resources: all of the cluster, or of some partitions."""

    count: int
    some: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: Controller
    now: datetime
    people: Seen = Seen()
    nodesets: tuple[NodeSet, ...] = ()
    accounting: Accounting | None = None
    config_maps: Mapping[str, ConfigMap] = EMPTY  # of those referred to: what exists
    secrets: Mapping[str, Secret] = EMPTY
    children: tuple[Object, ...] = ()  # ours, and whatever stands under a name that we want
    pod: Pod | None = None
    monitors_exist: bool = False  # whether the cluster has the kind ServiceMonitor
    running: Running | None = None  # None: unknown
    holders: tuple[Holder, ...] = ()  # running pods that hold keys of this cluster, slurmctld's own apart
    jobs: Jobs | None = None  # None: not asked, or no answer
    fresh_keys: FreshKeys = FreshKeys(b"", b"")
    kept_keys: KeptKeys = KeptKeys()  # asked for only when a Secret is gone


class ApplyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Make the slurmctld of this pod take the mounted configuration and keys, in place.

    `digest`: of the configuration; empty to stay with the one that runs. `keys`: key files that must have arrived.
    """

    pod: str
    digest: str = ""
    keys: Mapping[str, str] = EMPTY


class HoldJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Let no job start until slurmctld has read its configuration anew; fails when one runs. Empty: all partitions."""

    pod: str
    partitions: tuple[str, ...] = ()


class RegisterAnew(msgspec.Struct, frozen=True, kw_only=True):
    """Make the slurmd of these pods tell slurmctld which jobs they have."""

    pods: tuple[str, ...]


class CloseRecords(msgspec.Struct, frozen=True, kw_only=True):
    """End, in slurmdbd, the records of jobs that slurmctld does not know."""

    pod: str


def pod_name(controller: Controller) -> str:
    return f"{names.controller_name(controller.metadata.name)}-0"


def is_ready(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def slurmdbd(accounting: Accounting) -> DaemonsStatus:
    """Whether it runs as desired, as its Accounting says."""
    status = accounting.status
    ready = next((c.status for c in status.conditions if c.type == "Ready"), "Unknown")
    if status.observed_generation != accounting.metadata.generation or ready == "Unknown":
        return DaemonsStatus(unknown=1)
    return DaemonsStatus(yes=1) if ready == "True" else DaemonsStatus(no=1)


def own_config_maps(snapshot: Snapshot) -> tuple[ConfigMap, ...]:
    return tuple(
        child
        for child in snapshot.children
        if isinstance(child, ConfigMap) and is_controlled_by(child, snapshot.object)
    )


def current(snapshot: Snapshot) -> Mapping[str, str]:
    """The files that were put into the ConfigMaps last, with their digest; empty before the first time."""
    return {file: text for one in own_config_maps(snapshot) for file, text in one.data.items()}


def some(words: Iterable[str], shown_max: int = 5) -> str:
    found = list(words)
    more = f" and {len(found) - shown_max} more" if len(found) > shown_max else ""
    return ", ".join(found[:shown_max]) + more
