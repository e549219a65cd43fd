"""What a worker's slurmd says of itself when it registers: one line of Slurm's words. Pure.

    Feature=gpu CPUs=2 RealMemory=960 Weight=10

CPUs and memory are those of the container, because slurmd itself sees the whole machine; words of `spec.extraConf` win
over ours. A word there may ask the Kubernetes node below the worker, by a label or an annotation in braces:

    Features={node.kubernetes.io/instance-type} Gres=gpu:{nvidia.com/gpu.count} Topology=default:{example.com/rack}

Which node that is, nobody knows before the pod is scheduled. So the pod is made with the braces in its line, the filled
line is written to it as an annotation once it has a node, and its slurmd does not start before that. What a node does
not say leaves out the word, or the part of it between commas. A worker is made anew when its node says something else
later.

slurmctld keeps what a node registered with first. A record that has other CPUs or another memory than its worker now
says is therefore forgotten before the worker's slurmd starts; one that was missed then costs the worker a replacement.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache

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


def said_by(pod: Pod) -> str:
    """The line that its slurmd registers with; with braces while it waits to be told what is in them."""
    return pod.metadata.annotations.get(names.NODE_CONF) or line_of(pod)


def is_otherwise(pod: Pod, machine: Node | None) -> bool:
    """Whether its Kubernetes node no longer says what it registered with."""
    given = pod.metadata.annotations.get(names.NODE_CONF)
    return given is not None and machine is not None and given != filled(line_of(pod), machine)


def is_registered_wrong(line: str, node: slurm.Node) -> bool:
    """Whether slurmctld has other CPUs or another memory on record than the worker says."""
    cpus, memory_mb = _numbers(line)
    return _differ(cpus, node.cpus) or _differ(memory_mb, node.memory_mb)


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


@lru_cache(maxsize=1024)  # thousands of workers register with a handful of lines
def _numbers(line: str) -> tuple[int, int]:
    """CPUs and memory that slurmctld keeps; 0 where the line does not have them, or sockets and threads make them."""
    words = {_key(word): _value(word) for word in line.split()}
    is_laid_out = bool(words.keys() & (_LAYOUT - {"cpus"}))
    return 0 if is_laid_out else _number(words.get("cpus", "")), _number(words.get("realmemory", ""))


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
