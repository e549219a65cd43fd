"""Is this Kubernetes able to run Corral and Slurm? Facts in, answers out: yes, no or unknown, and what to do. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum

import msgspec

from corral.cli.facts import Fact
from corral.engine.differences import differences, wire
from corral.install.storage import DEFAULT_CLASS, default_classes, is_for_many
from corral.kube.discovery import ServerVersion
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.core_v1 import Node, PersistentVolume
from corral.kube.models.storage_v1 import StorageClass
from corral.local.existing import OLDEST

SKEW_S_MAX = 5.0
DEFINE = "corral crds | kubectl apply --server-side -f -"


class Answer(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """`needed`: without it Corral does not work at all; else something is missing from it. `todo` is for a no."""

    name: str
    answer: Answer
    found: str
    todo: str = ""
    needed: bool = True


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod of ours saw. An image's trouble is empty when it came; `said` is empty when it did not run."""

    node: str = ""
    refused: str = ""  # why there could be no such pod
    late: str = ""  # what it still waited for when the time was up
    images: Mapping[str, str] = msgspec.field(default_factory=dict)
    said: Mapping[str, str] = msgspec.field(default_factory=dict)
    began: datetime | None = None  # made, by the API server's clock
    ended: datetime | None = None  # seen to have ended, by the same clock


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """None: we could not look (most often: may not)."""

    server: ServerVersion
    denied: tuple[str, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    classes: tuple[StorageClass, ...] | None = None
    volumes: tuple[PersistentVolume, ...] | None = None
    definitions: Mapping[str, CustomResourceDefinition] | None = None
    operator: Fact | None = None
    probe: Probe | None = None
    skew_s: float | None = None  # how far our clock is ahead of the API server's


def checks(facts: Facts, wanted: Iterable[CustomResourceDefinition], *, before: bool) -> tuple[Check, ...]:
    """`before`: nothing is installed yet, so that definitions and an operator are not expected."""
    return (
        _version(facts.server),
        _rights(facts.denied),
        _nodes(facts.nodes),
        _default_class(facts.classes),
        _shared_volumes(facts.classes, facts.volumes),
        _definitions(facts.definitions, tuple(wanted), needed=not before),
        *(() if before else (_operator(facts.operator),)),
        *_probed(facts.probe),
        _clocks(facts.skew_s, facts.probe),
    )


def _version(server: ServerVersion) -> Check:
    found = f"{server.number[0]}.{server.number[1]}"
    least = ".".join(map(str, OLDEST))
    answer = Answer.YES if server.number >= OLDEST else Answer.NO
    return Check(
        name="Kubernetes is new enough",
        answer=answer,
        found=f"it is {server.git_version or found}",
        todo=f"upgrade it to {least} or later",
    )


def _rights(denied: tuple[str, ...] | None) -> Check:
    name = "you may install Corral"
    if denied is None:
        return Check(name=name, answer=Answer.UNKNOWN, found="the API server does not say what you may do")
    if not denied:
        return Check(name=name, answer=Answer.YES, found="CRDs, roles, and all rights that the operator gets")
    shown = ", ".join(denied[:5]) + (f" and {len(denied) - 5} more" if len(denied) > 5 else "")
    todo = (
        "ask a cluster administrator for these rights, or to install it: you cannot grant rights that you do not have"
    )
    return Check(name=name, answer=Answer.NO, found=f"you may not {shown}", todo=todo)


def _nodes(nodes: tuple[Node, ...] | None) -> Check:
    name = "nodes are ready"
    if nodes is None:
        return Check(name=name, answer=Answer.UNKNOWN, found="you may not list nodes")
    ready = [node for node in nodes if not node.spec.unschedulable and _is_ready(node)]
    return Check(
        name=name,
        answer=Answer.YES if ready else Answer.NO,
        found=f"{len(ready)} of {len(nodes)} are ready and schedulable",
        todo="see `kubectl get nodes` and `kubectl describe node NAME`",
    )


def _is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def _default_class(classes: tuple[StorageClass, ...] | None) -> Check:
    name = "there is a default StorageClass"
    if classes is None:
        return Check(name=name, answer=Answer.UNKNOWN, found="you may not list StorageClasses")
    default = sorted(one.metadata.name for one in default_classes(classes))
    if len(default) == 1:
        return Check(name=name, answer=Answer.YES, found=default[0])
    named = ", ".join(sorted(one.metadata.name for one in classes)) or "none"
    found = f"{len(default)} are marked as default; classes: {named}"
    mark = f"kubectl annotate storageclass NAME {DEFAULT_CLASS}=true"
    todo = f"mark exactly one ({mark}), or name one in `persistence.storageClassName` of Controller and Accounting"
    return Check(name=name, answer=Answer.NO, found=found, todo=todo)


def _shared_volumes(classes: tuple[StorageClass, ...] | None, volumes: tuple[PersistentVolume, ...] | None) -> Check:
    name = "volumes for many nodes (ReadWriteMany)"
    bound = sorted(v.metadata.name for v in volumes or () if "ReadWriteMany" in v.spec.access_modes)
    shared = sorted(one.metadata.name for one in classes or () if is_for_many(one))
    todo = "login nodes and workers share /home on such a volume (NFS, CephFS); without one, each has its own /home"
    if bound or shared:
        found = f"StorageClass {shared[0]}" if shared else f"PersistentVolume {bound[0]}"
        return Check(name=name, answer=Answer.YES, found=found, needed=False)
    seen = ", ".join(sorted({one.provisioner for one in classes or ()})) or "no provisioner"
    if classes and all(is_for_many(one) is False for one in classes):
        return Check(
            name=name, answer=Answer.NO, found=f"{seen}: volumes for one node at a time", todo=todo, needed=False
        )
    return Check(
        name=name, answer=Answer.UNKNOWN, found=f"{seen}: not known to support ReadWriteMany", todo=todo, needed=False
    )


def _definitions(
    present: Mapping[str, CustomResourceDefinition] | None,
    wanted: tuple[CustomResourceDefinition, ...],
    *,
    needed: bool,
) -> Check:
    name = "Corral's kinds are defined"
    if present is None:
        return Check(name=name, answer=Answer.UNKNOWN, found="you may not list CRDs", needed=needed)
    missing = [one.metadata.name for one in wanted if one.metadata.name not in present]
    old = [one.metadata.name for one in wanted if one.metadata.name in present and _differs(one, present)]
    if not missing and not old:
        return Check(name=name, answer=Answer.YES, found=f"{len(wanted)} kinds, all of this version", needed=needed)
    parts = [f"{len(missing)} missing"] if missing else []
    parts += [f"of another version: {', '.join(old)}"] if old else []
    todo = DEFINE if needed else f"installing Corral adds them; to add only them: {DEFINE}"
    return Check(name=name, answer=Answer.NO, found="; ".join(parts), todo=todo, needed=needed)


def _differs(wanted: CustomResourceDefinition, present: Mapping[str, CustomResourceDefinition]) -> bool:
    other = present[wanted.metadata.name]
    return bool(differences(CustomResourceDefinition, wire(wanted)["spec"], wire(other)["spec"]))


def _operator(operator: Fact | None) -> Check:
    answers = {True: Answer.YES, False: Answer.NO, None: Answer.UNKNOWN}
    known = operator or Fact("Operator", "unknown")
    todo = "kubectl apply -k deploy, or `corral run` on your machine"
    return Check(name="an operator runs", answer=answers[known.well], found=known.state, todo=todo)


NOT_PROBED = "not checked: no pod was started"


def _probed(probe: Probe | None) -> Iterable[Check]:
    names = ("images can be pulled", "pods may run as root here", "jobs can be confined (cgroups)", "names resolve")
    needs = (True, True, False, True)
    if probe is None:
        return [
            Check(name=name, answer=Answer.UNKNOWN, found=NOT_PROBED, todo="leave out --no-probe", needed=needed)
            for name, needed in zip(names, needs, strict=True)
        ]
    return (_images(names[0], probe), _root(names[1], probe), _cgroups(names[2], probe), _resolves(names[3], probe))


def _images(name: str, probe: Probe) -> Check:
    if probe.refused:
        return Check(name=name, answer=Answer.UNKNOWN, found=NOT_PROBED)
    bad = {image: trouble for image, trouble in probe.images.items() if trouble}
    if bad:
        found = "; ".join(f"{image}: {trouble}" for image, trouble in sorted(bad.items()))
        todo = "push the images to a registry that the nodes reach (--image-prefix), or import them into every node"
        return Check(name=name, answer=Answer.NO, found=found, todo=todo)
    if probe.late:
        return Check(name=name, answer=Answer.UNKNOWN, found=probe.late, todo="try again with a longer --timeout")
    return Check(name=name, answer=Answer.YES, found=f"{', '.join(sorted(probe.images))} on {probe.node}")


def _root(name: str, probe: Probe) -> Check:
    if probe.refused:
        todo = "slurmd runs as root in its container; label the namespace: pod-security.kubernetes.io/enforce=baseline"
        return Check(name=name, answer=Answer.NO, found=probe.refused, todo=todo)
    if probe.said.get("uid") == "0":
        return Check(name=name, answer=Answer.YES, found="a pod ran as root, as slurmd does")
    found = probe.late or f"the pod ran as uid {probe.said.get('uid', 'unknown')}"
    return Check(name=name, answer=Answer.UNKNOWN, found=found)


def _cgroups(name: str, probe: Probe) -> Check:
    kind, writable = probe.said.get("cgroup", ""), probe.said.get("cgroup_writable", "")
    if not kind:
        return Check(name=name, answer=Answer.UNKNOWN, found=probe.late or NOT_PROBED, needed=False)
    if kind != "cgroup2fs":
        todo = "boot the nodes with cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
        return Check(name=name, answer=Answer.NO, found=f"{probe.node} has {kind}", todo=todo, needed=False)
    if writable == "yes":
        return Check(name=name, answer=Answer.YES, found=f"cgroup v2, writable, on {probe.node}", needed=False)
    todo = "jobs run, but share the limits of their pod; for limits per job: confineJobs of the Controller (privileged)"
    return Check(name=name, answer=Answer.NO, found=f"cgroup v2, read-only, on {probe.node}", todo=todo, needed=False)


def _resolves(name: str, probe: Probe) -> Check:
    said = probe.said.get("dns", "")
    if not said:
        return Check(name=name, answer=Answer.UNKNOWN, found=probe.late or NOT_PROBED)
    if said == "no":
        todo = "see the cluster's DNS: kubectl get pods -n kube-system -l k8s-app=kube-dns"
        return Check(
            name=name, answer=Answer.NO, found=f"kubernetes.default does not resolve on {probe.node}", todo=todo
        )
    return Check(name=name, answer=Answer.YES, found=f"kubernetes.default is {said}")


def _clocks(skew_s: float | None, probe: Probe | None) -> Check:
    name = "clocks agree"
    skews = {"your clock": skew_s, f"the clock of {probe.node}" if probe else "": _node_skew_s(probe)}
    known = {whose: skew for whose, skew in skews.items() if skew is not None}
    if not known:
        return Check(name=name, answer=Answer.UNKNOWN, found=NOT_PROBED)
    off = {whose: skew for whose, skew in known.items() if abs(skew) > SKEW_S_MAX}
    if off:
        found = ", ".join(f"{whose} is off by {skew:.0f} s" for whose, skew in off.items())
        todo = "run NTP on all machines: Slurm rejects credentials and tokens when clocks differ"
        return Check(name=name, answer=Answer.NO, found=found, todo=todo)
    return Check(name=name, answer=Answer.YES, found=f"within {SKEW_S_MAX:g} s of the API server's: {', '.join(known)}")


def _node_skew_s(probe: Probe | None) -> float | None:
    """How far the node's clock is outside the time in which the pod can have run; 0 if it is within."""
    if probe is None or probe.began is None or probe.ended is None or "time" not in probe.said:
        return None
    told = float(probe.said["time"])
    if told < probe.began.timestamp():
        return told - probe.began.timestamp()
    return max(0.0, told - probe.ended.timestamp())


def has_failed(found: Iterable[Check]) -> bool:
    return any(check.answer is Answer.NO and check.needed for check in found)
