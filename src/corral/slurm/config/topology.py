"""topology.yaml (26.05): several named topologies, one of which is the cluster's default."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from corral.slurm.config.findings import Finding
from corral.slurm.config.keys import nearest
from corral.slurm.hostlist import HostlistError, expand

KINDS: Final = ("tree", "block", "flat", "ring", "torus3d")
# Kind to its list, to the keys of one entry; the first one names it.
_LISTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "tree": ("switches", ("switch", "children", "nodes")),
    "block": ("blocks", ("block", "nodes")),
    "ring": ("rings", ("ring", "nodes")),
    "torus3d": (
        "toruses",
        ("name", "dims", "nodes", "regions", "anchor", "placements", "anchor_seed", "anchor_spacing"),
    ),
}
_OTHER_KEYS: Final = {"tree": (), "block": ("block_sizes",), "ring": (), "torus3d": ("alpha_step_rank",)}


def write(topologies: Sequence[Mapping[str, Any]]) -> str:
    """In the order given; the same values give the same bytes."""
    return yaml.safe_dump([dict(topology) for topology in topologies], sort_keys=False, default_flow_style=False)


def lint(text: str) -> tuple[Finding, ...]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return (Finding(mark.line + 1 if mark else 0, "", f"is no YAML: {getattr(error, 'problem', error)}"),)
    if not isinstance(root, yaml.SequenceNode) or not root.value:
        return (Finding(1, "", "expected a list of topologies, each beginning with `- topology: NAME`"),)
    findings = [finding for node in root.value for finding in _topology(node)]
    return tuple(sorted((*findings, *_whole(root))))


def _topology(node: yaml.Node) -> Iterator[Finding]:
    keys = _mapping(node)
    yield from _unknown(keys, ("topology", "cluster_default", *KINDS), "of a topology")
    if "topology" not in keys:
        yield Finding(_line(node), "topology", "is missing: a topology needs a name")
    kinds = [kind for kind in KINDS if kind in keys]
    if len(kinds) != 1:
        yield Finding(_line(node), "", f"expected exactly one of {', '.join(KINDS)}, got {', '.join(kinds) or 'none'}")
    for kind in kinds:
        if kind in _LISTS:
            yield from _kind(kind, keys[kind])


def _kind(kind: str, node: yaml.Node) -> Iterator[Finding]:
    keys = _mapping(node)
    plural, entry_keys = _LISTS[kind]
    yield from _unknown(keys, (plural, *_OTHER_KEYS[kind]), f"of a {kind}")
    entries = keys.get(plural)
    if not isinstance(entries, yaml.SequenceNode):
        yield Finding(_line(node), plural, f"expected a list under {kind}")
        return
    names: set[str] = set()
    for entry in entries.value:
        inner = _mapping(entry)
        yield from _unknown(inner, entry_keys, f"of a {entry_keys[0]}")
        yield from _entry(entry, inner, entry_keys[0], names)


def _entry(entry: yaml.Node, keys: Mapping[str, yaml.Node], name_key: str, names: set[str]) -> Iterator[Finding]:
    name = keys.get(name_key)
    if name is None:
        yield Finding(_line(entry), name_key, "is missing")
    elif name.value in names:
        yield Finding(_line(name), name_key, f"{name.value} is defined twice")
    else:
        names.add(name.value)
    for key in ("nodes", "children"):
        node = keys.get(key)
        if isinstance(node, yaml.ScalarNode):
            try:
                expand(node.value)
            except HostlistError as error:
                yield Finding(_line(node), key, str(error))


def _whole(root: yaml.SequenceNode) -> Iterator[Finding]:
    names: set[str] = set()
    defaults = 0
    for node in root.value:
        keys = _mapping(node)
        name = keys.get("topology")
        if name is not None and name.value in names:
            yield Finding(_line(name), "topology", f"{name.value} is defined twice")
        elif name is not None:
            names.add(name.value)
        default = keys.get("cluster_default")
        defaults += default is not None and str(default.value).lower() in ("true", "yes", "on")
    if defaults > 1:
        yield Finding(0, "cluster_default", "is true more than once: expected one default")


def _unknown(keys: Mapping[str, yaml.Node], known: tuple[str, ...], where: str) -> Iterator[Finding]:
    for key, node in keys.items():
        if key not in known:
            guess = nearest(key, known)
            yield Finding(_line(node), key, f"is no key {where}{f': did you mean {guess}?' if guess else ''}")


def _mapping(node: yaml.Node) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
