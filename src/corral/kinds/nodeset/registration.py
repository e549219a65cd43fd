"""What a worker's slurmd says of itself when it registers: one line of Slurm's words. Pure.

    Feature=gpu CPUs=2 RealMemory=960 Weight=10

CPUs and memory are those of the container, because slurmd itself sees the whole machine; words of `spec.extraConf` win
over ours. A word there may ask the Kubernetes node below the worker, by a label or an annotation in braces:

    Features={node.kubernetes.io/instance-type} Gres=gpu:{nvidia.com/gpu.count} Topology=default:{example.com/rack}

Which node that is, nobody knows before the pod is scheduled. So the pod is made with the braces in its line, the filled
line is written to it as an annotation once it has a node, and its slurmd does not start before that. What a node does
not say leaves out the word, or the part of it between commas. A worker is made anew when its node says something else
later.

slurmctld keeps what a node registered with first. A record that says otherwise than its worker does now is therefore
forgotten before the worker's slurmd starts. One that was missed then costs the worker a replacement, if it lacks what
the worker brings (CPUs, memory, Gres, features) or sets other memory or cores aside. Weight, topology and more features
people give while it runs; the layout of sockets is what slurmd finds, unless it is told.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import msgspec

from corral.kinds import names
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.models.core_v1 import Container, Node, Pod
from corral.kube.values import parse_quantity
from corral.slurm import values as slurm

CONTAINER = "slurmd"
ENV = "SLURM_NODE_CONF"
MIB = 1024 * 1024
OWN_MEMORY_MB = 64  # slurmd and its step daemons live in the same container as the jobs
CPUS_UNSAID = 1
MEMORY_UNSAID_MB = 1024

_LAYOUT = frozenset({"cpus", "procs", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"})
_FEATURES = frozenset({"feature", "features"})
_ASKED = re.compile(r"\{([^{}]+)\}")
_ASIDE = re.compile(r"\([^()]*\)")  # where it is, as slurmctld adds it; and `(null)`
_COUNT = re.compile(r"(\d+)([kKmMgG]?)")
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_UNFIT = re.compile(r"[^A-Za-z0-9._:/@+-]")  # for a part of a word of Slurm's


def node_conf(nodeset: NodeSet, slurmd: Container) -> str:
    """The line, with whatever it asks of a Kubernetes node still in braces."""
    said = nodeset.spec.extra_conf.split()
    keys = {_key(word) for word in said}
    features = [
        nodeset.metadata.name,
        *(f for word in said if _key(word) in _FEATURES for f in _value(word).split(",")),
    ]
    words = [f"Feature={','.join(dict.fromkeys(f for f in features if f))}"]
    if not keys & _LAYOUT:
        words.append(f"CPUs={cpus(slurmd)}")
    if "realmemory" not in keys:
        words.append(f"RealMemory={memory_mb(slurmd)}")
    return " ".join([*words, *(word for word in said if _key(word) not in _FEATURES)])


def asks_its_machine(line: str) -> bool:
    return "{" in line and _ASKED.search(line) is not None


def filled(line: str, machine: Node) -> str:
    return " ".join(_filled_words(line, {**machine.metadata.labels, **machine.metadata.annotations}))


def line_of(pod: Pod) -> str:
    """As it was made, maybe with braces."""
    for container in pod.spec.containers:
        if container.name == CONTAINER:
            for one in container.env:
                if one.name == ENV:
                    return one.value
    return ""


def given_to(pod: Pod) -> str | None:
    """The filled line, if it was written to the pod."""
    return pod.metadata.annotations.get(names.NODE_CONF)


def said_by(pod: Pod) -> str:
    """The line that its slurmd registers with; with braces while it waits to be told what is in them."""
    return given_to(pod) or line_of(pod)


def is_registered_wrong(line: str, node: slurm.Node) -> bool:
    """Whether what slurmctld has on record is not what the worker brings."""
    is_wrong = _is_wrong(line, node.cpus, node.memory_mb, node.features, node.gres)
    return is_wrong or _is_set_aside_otherwise(line, node.memory_mb, node.memory_aside_mb, node.cores_aside)


@lru_cache(maxsize=1024)
def _is_set_aside_otherwise(line: str, memory_mb: int, memory_aside_mb: int | None, cores_aside: int | None) -> bool:
    """Slurm drops a MemSpecLimit that leaves no memory for jobs; a new registration would not change that."""
    said = _words(line)
    other_memory = memory_aside_mb is not None and 0 < said.memory_aside_mb != memory_aside_mb
    return (other_memory and said.memory_aside_mb < memory_mb) or _differ(said.cores_aside or 0, cores_aside or 0)


@lru_cache(maxsize=1024)  # thousands of workers register with a handful of lines
def _is_wrong(line: str, cpus: int, memory_mb: int, features: tuple[str, ...], gres: str) -> bool:
    said = _words(line)
    is_short = bool(features) and not said.features <= {*features}
    return _differ(said.cpus, cpus) or _differ(said.memory_mb, memory_mb) or is_short or _lacks(line, gres)


def lacks_gres(line: str, node: slurm.Node) -> bool:
    """Slurm drops without a word what its GresTypes do not name, as when a slurmd registers before they do."""
    return _lacks(line, node.gres)


@lru_cache(maxsize=1024)
def _lacks(line: str, gres: str) -> bool:
    on_record = _gres(gres)
    return any(on_record.get(name, 0) < count for name, count in _words(line).gres.items())


def is_of_another(line: str, node: slurm.Node) -> bool:
    """Whether a record was made by a slurmd that said anything else. What Slurm does not tell is not else."""
    said = _words(line)
    return bool(line) and (
        is_registered_wrong(line, node)
        or said.gres != _gres(node.gres)
        or bool(node.features and said.features != {*node.features})
        or bool(said.weight and node.weight and said.weight != node.weight)
        or bool(said.topology and node.topology and said.topology != node.topology)
        or node.memory_aside_mb not in (None, said.memory_aside_mb)
        or (said.cores_aside is not None and node.cores_aside not in (None, said.cores_aside))
        or (node.layout is not None and _is_laid_out_otherwise(said.layout, node.layout))
    )


def _is_laid_out_otherwise(said: slurm.Layout, on_record: slurm.Layout) -> bool:
    """In what the line says of it; 0: not said."""
    words, known = msgspec.structs.astuple(said), msgspec.structs.astuple(on_record)
    return any(_differ(*one) for one in zip(words, known, strict=True))


def cpus(slurmd: Container) -> int:
    amount = _amount(slurmd, "cpu")
    return CPUS_UNSAID if amount is None else max(1, int(amount))


def memory_mb(slurmd: Container) -> int:
    amount = _amount(slurmd, "memory")
    limit_mb = MEMORY_UNSAID_MB if amount is None else int(amount / MIB)
    return max(limit_mb - OWN_MEMORY_MB, limit_mb // 2, 1)


def _filled_words(line: str, says: Mapping[str, str]) -> Iterator[str]:
    for word in line.split():
        key, equals, value = word.partition("=")
        parts = [_filled_part(part, says) for part in value.split(",")]
        if left := [part for part in parts if part]:
            yield f"{key}={','.join(left)}"
        elif not equals:
            yield word


def _filled_part(part: str, says: Mapping[str, str]) -> str:
    """Empty when the node does not say what is asked."""
    if any(not says.get(key) for key in _ASKED.findall(part)):
        return ""
    return _ASKED.sub(lambda asked: _UNFIT.sub("_", says[asked.group(1)]), part)


class _Words(NamedTuple):
    """Of a line. Numbers are 0 where it does not have them; also CPUs, where sockets and threads make them."""

    cpus: int
    memory_mb: int
    weight: int
    features: frozenset[str]
    topology: str
    gres: Mapping[str, int]
    memory_aside_mb: int
    cores_aside: int | None  # None: told by a list of CPUs
    layout: slurm.Layout


@lru_cache(maxsize=1024)
def _words(line: str) -> _Words:
    words = {_key(word): _value(word) for word in line.split()}
    is_laid_out = bool(words.keys() & (_LAYOUT - {"cpus"}))
    return _Words(
        cpus=0 if is_laid_out else _number(words.get("cpus", "")),
        memory_mb=_number(words.get("realmemory", "")),
        weight=_number(words.get("weight", "")),
        features=frozenset(one for key in _FEATURES for one in words.get(key, "").split(",") if one),
        topology=words.get("topology", ""),
        gres=_gres(words.get("gres", "")),
        memory_aside_mb=_number(words.get("memspeclimit", "")),
        cores_aside=None if "cpuspeclist" in words else _number(words.get("corespeccount", "")),
        layout=_layout(words),
    )


def _layout(words: Mapping[str, str]) -> slurm.Layout:
    boards, per_board = (_number(words.get(key, "")) for key in ("boards", "socketsperboard"))
    return slurm.Layout(
        boards=boards,
        sockets=_number(words.get("sockets", "")) or per_board * max(boards, 1),
        cores_per_socket=_number(words.get("corespersocket", "")),
        threads_per_core=_number(words.get("threadspercore", "")),
    )


@lru_cache(maxsize=1024)
def _gres(text: str) -> Mapping[str, int]:
    """How many of each, whatever their types: `gpu:h100:2(S:0-1),shard:8` is 2 and 8."""
    found: dict[str, int] = {}
    for part in _ASIDE.sub("", text).split(","):
        name, *others = part.strip().split(":")
        if name:
            count = _COUNT.fullmatch(others[-1]) if others else None
            number = int(count.group(1)) * _UNITS[count.group(2).lower()] if count else 1
            found[name] = found.get(name, 0) + number
    return found


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _differ(said: int, on_record: int) -> bool:
    """0: not said."""
    return said not in (0, on_record) and on_record != 0


def _amount(slurmd: Container, resource: str) -> Decimal | None:
    asked: Mapping[str, int | str] = {**slurmd.resources.requests, **slurmd.resources.limits}
    return parse_quantity(asked[resource]) if resource in asked else None


def _key(word: str) -> str:
    return word.partition("=")[0].lower()


def _value(word: str) -> str:
    return word.partition("=")[2]
