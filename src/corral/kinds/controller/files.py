"""The files that slurmctld reads, from the Controller, its NodeSets, its Accounting and what it refers to. Pure.

    slurm.conf    ours, then the user's extra lines by the rule of `corral.slurm.config.merge`
    cgroup.conf   no cgroups, or cgroup v2 where jobs are to be confined, unless a referenced ConfigMap brings the file
    the rest      the keys of the referenced ConfigMaps: files beside slurm.conf, and scripts

The same values give the same bytes. What a daemon would refuse is found here, with its line and reason; such files are
never delivered. Workers get theirs from slurmctld (configless), so only the controller's pod mounts any of this.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from corral.kinds import endpoints, names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.parts import Ref
from corral.kube.meta import EMPTY
from corral.kube.models.core_v1 import ConfigMap
from corral.slurm.config.findings import Finding
from corral.slurm.config.keys import VERSIONS, key_table
from corral.slurm.config.lint import Names, errors, lint, names_of
from corral.slurm.config.merge import merge
from corral.slurm.config.text import Line, Section, UnwritableError, parse, record, setting, write

DIGEST_FILE = "corral-digest"
DIGEST_LENGTH = 16
NODES_MAX = 4096  # of Slurm's MaxNodeCount; lowering it drops nodes, so it does not follow the replicas
RESERVED = frozenset(
    {"slurm.conf", "slurmdbd.conf", DIGEST_FILE, names.SLURM_KEY, names.JWT_KEY, names.SLURM_JWKS, names.JWKS}
)
NO_CGROUPS = "CgroupPlugin=disabled\n"
# Cores are not among it: the workers of a machine know nothing of each other, and all would take the first ones.
CGROUPS = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nConstrainRAMSpace=yes\nConstrainDevices=yes\n"
CONFIG_DIR = "/etc/slurm"
KEYS_DIR = "/etc/corral/keys"  # where the Secrets are mounted
STATE_DIR = "/var/spool/slurmctld"  # a volume, whose own folder may be open to all; the state is in one below it


class Files(msgspec.Struct, frozen=True):
    """All files by name, and what is wrong with them: sentences that name the field, the line and the reason."""

    content: Mapping[str, str]
    errors: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        encoded = msgspec.json.encode(dict(self.content), order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:DIGEST_LENGTH]


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """What the files are made from. Every referenced ConfigMap is there."""

    controller: Controller
    nodesets: tuple[NodeSet, ...] = ()
    accounting: Accounting | None = None
    config_maps: Mapping[str, ConfigMap] = EMPTY


def cluster_name(controller: Controller) -> str:
    meta = controller.metadata
    return controller.spec.cluster_name or names.fitted(f"{meta.namespace}_{meta.name}", length_max=40)


def references(controller: Controller) -> tuple[Ref, ...]:
    """Every ConfigMap that the files come from, each once, in the order of the manifest."""
    spec = controller.spec
    every = (
        *spec.config_file_refs,
        *spec.prolog_script_refs,
        *spec.epilog_script_refs,
        *spec.prolog_slurmctld_script_refs,
        *spec.epilog_slurmctld_script_refs,
    )
    return tuple({ref.name: ref for ref in every}.values())


def rendered(sources: Sources) -> Files:
    referenced, problems = _referenced(sources)
    content = {"cgroup.conf": CGROUPS if sources.controller.spec.confine_jobs else NO_CGROUPS, **referenced}
    version, extra = sources.controller.spec.version, sources.controller.spec.extra_conf
    ours, bad_partitions = _sections(sources, parse(extra).lines)
    problems += bad_partitions
    try:
        merged = merge("slurm.conf", ours, extra, version, files=frozenset(content))
        problems += [f"spec.extraConf: {finding}" for finding in merged.refused]
        text = write(merged.sections)
        problems += _extra_errors(extra, write(ours), version, frozenset(content))
    except UnwritableError as error:
        return Files(content, (*problems, f"slurm.conf: {error}"))
    if not problems:
        problems += [f"slurm.conf: {f}" for f in errors(lint("slurm.conf", text, version, known=_files(content)))]
    problems += _lint_others(content, version)
    return Files({"slurm.conf": text, **content}, tuple(problems))


def _sections(sources: Sources, extra: tuple[Line, ...]) -> tuple[tuple[Section, ...], list[str]]:
    nodes, problems = _nodes(sources.nodesets, extra)
    return (
        Section("general", tuple(_general(sources.controller))),
        Section("plugins and parameters", tuple(_plugins(sources.controller))),
        Section("accounting", tuple(_accounting(sources.accounting, confined=sources.controller.spec.confine_jobs))),
        Section("prolog and epilog", tuple(_scripts(sources))),
        Section("nodes and partitions", tuple(nodes)),
    ), problems


def _general(controller: Controller) -> Iterator[Line]:
    yield setting("ClusterName", cluster_name(controller))
    yield setting("SlurmctldHost", endpoints.slurmctld_host(controller))
    yield setting("SlurmctldPort", endpoints.slurmctld(controller).port)
    yield setting("SlurmdPort", names.SLURMD_PORT)
    yield setting("SlurmUser", "slurm")
    yield setting("SlurmdUser", "root")
    yield setting("StateSaveLocation", f"{STATE_DIR}/saved")
    yield setting("SlurmdSpoolDir", "/var/spool/slurmd")
    yield setting("SlurmctldPidFile", "/run/slurmctld/slurmctld.pid")
    yield setting("SlurmdPidFile", "/run/slurmd.pid")
    yield setting("SlurmctldDebug", "verbose")
    yield setting("SlurmdDebug", "verbose")
    yield setting("MaxNodeCount", NODES_MAX)
    yield setting("TreeWidth", 128)
    yield setting("ReturnToService", 2)
    yield setting("SlurmdTimeout", 60)


def _plugins(controller: Controller) -> Iterator[Line]:
    # 24.11 does not document reconfig_on_restart and ignores it.
    restarted = ("reconfig_on_restart",) if controller.spec.version != "24.11" else ()
    yield setting("AuthType", "auth/slurm")
    yield setting("CredType", "cred/slurm")
    yield setting("AuthInfo", "use_client_ids,cred_expire=120")
    yield setting("AuthAltTypes", "auth/jwt")
    public = f",jwks={KEYS_DIR}/{names.JWKS}" if controller.spec.jwks_key_ref else ""
    yield setting("AuthAltParameters", f"jwt_key={KEYS_DIR}/{names.JWT_KEY}{public}")
    yield setting("SlurmctldParameters", ",".join(("enable_configless", *restarted, "idle_on_node_suspend")))
    confined = controller.spec.confine_jobs
    yield setting("ProctrackType", "proctrack/cgroup" if confined else "proctrack/linuxproc")
    yield setting("TaskPlugin", "task/cgroup" if confined else "task/none")
    yield setting("SelectType", "select/cons_tres")
    yield setting("SelectTypeParameters", "CR_CPU_Memory")
    yield setting("DefMemPerCPU", 100)  # without it every job takes all the memory of its nodes
    yield setting("MpiDefault", "none")
    yield setting("MailProg", "/bin/true")  # the image has no mailer; Slurm complains about one that is not there
    if controller.spec.metrics.enabled and controller.spec.version != "24.11":
        yield setting("MetricsType", "metrics/openmetrics")


def _accounting(accounting: Accounting | None, *, confined: bool) -> Iterator[Line]:
    if accounting is None:
        return
    at = endpoints.slurmdbd(accounting)
    yield setting("AccountingStorageType", "accounting_storage/slurmdbd")
    yield setting("AccountingStorageHost", at.host)
    yield setting("AccountingStoragePort", at.port)
    yield setting("JobAcctGatherType", "jobacct_gather/cgroup" if confined else "jobacct_gather/linux")
    yield setting("JobAcctGatherFrequency", 10)


def _scripts(sources: Sources) -> Iterator[Line]:
    """Workers find a bare name beside their configuration; slurmctld wants a path."""
    spec = sources.controller.spec
    for key, refs, folder in (
        ("Prolog", spec.prolog_script_refs, ""),
        ("Epilog", spec.epilog_script_refs, ""),
        ("PrologSlurmctld", spec.prolog_slurmctld_script_refs, f"{CONFIG_DIR}/"),
        ("EpilogSlurmctld", spec.epilog_slurmctld_script_refs, f"{CONFIG_DIR}/"),
    ):
        scripts = {script for ref in refs for script in sources.config_maps[ref.name].data}
        for script in sorted(scripts):
            yield setting(key, f"{folder}{script}")


def _nodes(nodesets: tuple[NodeSet, ...], extra: tuple[Line, ...]) -> tuple[list[Line], list[str]]:
    """Workers register with their NodeSet's name as a feature; partitions are made of such features."""
    lines: list[Line] = []
    partitions: list[Line] = []
    problems: list[str] = []
    for nodeset in sorted(nodesets, key=lambda one: one.metadata.name):
        name = nodeset.metadata.name
        lines.append(record(NodeSet=name, Feature=name))
        if nodeset.spec.partition.enabled:
            document = parse(f"PartitionName={name} Nodes={name} {_partition_words(nodeset)}")
            problems += [f"NodeSet {name}, spec.partition.config: {fault.reason}" for fault in document.faults]
            partitions += [Line(line.settings) for line in document.lines]
    theirs = [line for line in extra if not line.include and line.first.key.lower() == "partitionname"]
    if not any(line.first.value == "all" for line in theirs):
        has_default = any((line.get("Default") or "").upper() == "YES" for line in (*partitions, *theirs))
        partitions.append(record(PartitionName="all", Nodes="ALL", Default="NO" if has_default else "YES"))
    return [*_gres_types(nodesets), *lines, *partitions], problems


def _partition_words(nodeset: NodeSet) -> str:
    """The partition of a NodeSet that is being deleted takes no job any more, and starts none."""
    words = nodeset.spec.partition.config
    if nodeset.metadata.deletion_timestamp is None:
        return words
    return " ".join((*(word for word in words.split() if not word.lower().startswith("state=")), "State=INACTIVE"))


def _gres_types(nodesets: Iterable[NodeSet]) -> Iterator[Line]:
    """What the workers bring (`Gres=gpu:h100:2,shard:8`): without this line Slurm drops it without a word."""
    words = (word.partition("=") for nodeset in nodesets for word in nodeset.spec.extra_conf.split())
    brought = (one for key, _, value in words if key.lower() == "gres" for one in value.split(","))
    types = sorted({one.partition(":")[0] for one in brought} - {""})
    if types:
        yield setting("GresTypes", ",".join(types))


def _referenced(sources: Sources) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    problems: list[str] = []
    for ref in references(sources.controller):
        for file, text in sorted(sources.config_maps[ref.name].data.items()):
            if file in RESERVED:
                problems.append(f"ConfigMap {ref.name}: {file} is made by Corral; use spec.extraConf")
            elif file in found:
                problems.append(f"ConfigMap {ref.name}: {file} is in another ConfigMap already")
            else:
                found[file] = text
    return found, problems


def _extra_errors(extra: str, ours: str, version: str, files: frozenset[str]) -> list[str]:
    defined = names_of(ours)
    known = Names(defined.nodes, defined.partitions, defined.node_sets, files)
    found: tuple[Finding, ...] = lint("slurm.conf", extra, version, known=known, whole=False)
    return [f"spec.extraConf: {finding}" for finding in errors(found)]


def _lint_others(content: Mapping[str, str], version: str) -> list[str]:
    """Files that no Slurm has a table for (scripts, job_submit.lua) are the user's own business."""
    tables = frozenset(file for each in VERSIONS for file in key_table(each).files) | {"plugstack.conf"}
    known = _files(content)
    return [
        f"{file}: {finding}"
        for file, text in sorted(content.items())
        if file in tables
        for finding in errors(lint(file, text, version, known=known))
    ]


def _files(content: Mapping[str, str]) -> Names:
    return Names(files=frozenset(content))
