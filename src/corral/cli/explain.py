"""`corral explain`: why an object is as it is: its conditions, what is waited for, what comes next, the last events."""

import asyncio
from datetime import UTC, datetime

import click
import msgspec

from corral.cli.loading import kind_named
from corral.cli.options import Cluster, Kinds, Output, cluster_options, kinds_option, output_option
from corral.cli.output import age, say_json
from corral.engine.plan import as_data, summary_lines
from corral.engine.questions import Explanation, explain
from corral.engine.store import Key
from corral.kube.meta import ref


@click.command("explain")
@click.argument("kind")
@click.argument("name")
@output_option
@cluster_options
@kinds_option
def explain_command(kind: str, name: str, output: Output, cluster: Cluster, kinds: Kinds) -> None:
    """Say why an object is as it is, what holds it up, and what happens next."""
    entry = kind_named(kinds, kind)
    key = Key(cluster.namespace if entry.kind.resource.namespaced else "", name)

    async def ask() -> Explanation:
        async with cluster.client() as client:
            return await explain(client, entry.build(), key)

    found = asyncio.run(ask())
    if output == "json":
        say_json("Explanation", _data(found))
    else:
        click.echo("\n".join(_lines(found, datetime.now(UTC))))


def _lines(found: Explanation, now: datetime) -> list[str]:
    lines = [str(ref(found.object)), "", "Conditions"]
    lines += [
        f"  {c.type}={c.status} for {age(c.last_transition_time, now)}: {c.message or c.reason} ({c.reason})"
        for c in found.conditions
    ] or ["  none: no controller has looked at it yet (is `corral run` there?)"]
    lines += ["", "Next"]
    lines += [f"  {line}" for line in summary_lines(found.plan)]
    lines += ["", "Events"]
    lines += [
        f"  {age(e.last_seen, now)} ago  {e.type}  {e.reason}  {e.note}"
        + (f"  ({e.count} times)" if e.count > 1 else "")
        for e in found.events
    ] or ["  none"]
    return lines


def _data(found: Explanation) -> dict[str, object]:
    return {
        "about": msgspec.to_builtins(ref(found.object)),
        "conditions": msgspec.to_builtins(found.conditions),
        "plan": as_data(found.plan),
        "events": msgspec.to_builtins(found.events),
    }
