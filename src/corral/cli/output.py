"""How answers are printed: lines for people, one versioned JSON document for programs, diffs as `diff -u` has them."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import click
import msgspec
import yaml

from corral.engine.actions import about, summary
from corral.engine.questions import Change

JSON_VERSION = "corral.dev/cli/v1"
"""Changes only when a field of `-o json` changes its meaning or goes; new fields may appear."""

NO_OBJECTS = "No objects found. See what a manifest would do with: corral plan -f FILE"


def say_json(kind: str, content: Mapping[str, Any]) -> None:
    document = {"version": JSON_VERSION, "kind": kind, **content}
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=120)


def diff_lines(change: Change) -> tuple[str, ...]:
    """What one action changes on the server, as a unified diff of YAML."""
    where = str(about(change.action))
    if change.untried:
        return (f"! {summary(change.action)}", f"! {change.untried}")
    if change.refused:
        return (f"! {summary(change.action)}", f"! the server would refuse it: {change.refused}")
    before, after = (_lines(state) for state in (change.before, change.after))
    return tuple(difflib.unified_diff(before, after, f"{where} (now)", f"{where} (then)", lineterm=""))


def styled_diff(line: str) -> str:
    colours = {"+": "green", "-": "red", "@": "cyan", "!": "yellow"}
    return click.style(line, fg=colours.get(line[:1]))


def age(since: datetime | None, now: datetime) -> str:
    """As kubectl writes ages: the two largest units below a week, one above."""
    if since is None:
        return "-"
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Columns as wide as their longest cell, as kubectl prints them."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def file_diffs(change: Change) -> tuple[tuple[str, ...], ...]:
    """The texts of several lines that a change has another version of: files, each as its own unified diff."""
    before, after = (dict(_texts(state, "")) for state in (change.before, change.after))
    if change.refused or change.untried or change.before is None or change.after is None:
        return ()
    return tuple(
        tuple(
            difflib.unified_diff(
                before.get(name, "").splitlines(),
                after.get(name, "").splitlines(),
                f"{name} (now)",
                f"{name} (then)",
                lineterm="",
                n=1,
            )
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _texts(value: object, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from _texts(below, str(key))
    elif isinstance(value, str) and "\n" in value.rstrip("\n"):
        yield name, value


class _Dumper(yaml.SafeDumper):
    """Texts of several lines are written as blocks, so that a diff of a file inside an object reads as one."""


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text_node)


def _lines(state: Mapping[str, Any] | None) -> list[str]:
    return [] if state is None else yaml.dump(state, Dumper=_Dumper, sort_keys=True, width=120).splitlines()
