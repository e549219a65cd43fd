"""`corral status`: every object of every kind with its Ready condition; what needs attention comes last."""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from corral.cli.errors import CHANGES
from corral.cli.loading import kind_named
from corral.cli.options import Cluster, Kinds, Output, cluster_options, kinds_option, output_option
from corral.cli.output import age, say_json, table
from corral.engine.questions import conditions_of
from corral.engine.registry import KindController
from corral.kube.errors import NotFound
from corral.kube.meta import Condition, Object, ref

POLL_S = 2.0


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """`ready` is None while no controller has looked at this generation of the object."""

    kind: str
    namespace: str
    name: str
    ready: bool | None
    stalled: bool
    reason: str
    message: str
    created: datetime | None


@click.command("status")
@click.argument("kind", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@click.option("--wait", is_flag=True, help="Wait until all are ready.")
@click.option(
    "--wait-duration", default=300, show_default=True, metavar="SECONDS", help="How long --wait waits at most."
)
@output_option
@cluster_options
@kinds_option
def status_command(
    kind: str | None,
    all_namespaces: bool,
    wait: bool,
    wait_duration: int,
    output: Output,
    cluster: Cluster,
    kinds: Kinds,
) -> None:
    """Show every object and whether it is ready. Exit code with --wait: 0 all ready, 1 not ready in time or stalled."""
    chosen = (kind_named(kinds, kind),) if kind else kinds
    namespace = "" if all_namespaces else cluster.namespace
    rows = asyncio.run(_rows_when_ready(cluster, chosen, namespace, time.monotonic() + (wait_duration if wait else 0)))
    if output == "json":
        say_json("StatusList", {"items": msgspec.to_builtins(rows)})
    else:
        click.echo("\n".join(_lines(rows, datetime.now(UTC))))
    if wait and not all(row.ready for row in rows):
        raise click.exceptions.Exit(CHANGES)


async def _rows_when_ready(
    cluster: Cluster, kinds: Iterable[KindController], namespace: str, until: float
) -> tuple[Row, ...]:
    async with cluster.client() as client:
        while True:
            rows: list[Row] = []
            for entry in kinds:
                try:
                    rows += [row_of(obj) for obj in await conditions_of(client, entry.build(), namespace)]
                except NotFound:
                    continue  # its CRD is not installed, so there are none
            settled = all(row.ready or row.stalled for row in rows)
            if settled or time.monotonic() + POLL_S > until:
                return tuple(rows)
            await asyncio.sleep(POLL_S)


def row_of(obj: Object) -> Row:
    meta = obj.metadata
    status: Any = getattr(obj, "status", None)
    conditions: tuple[Condition, ...] = getattr(status, "conditions", ())
    by_type = {condition.type: condition for condition in conditions}
    seen = getattr(status, "observed_generation", meta.generation) >= meta.generation
    ready, stalled = by_type.get("Ready"), by_type.get("Stalled")
    if ready is None or not seen:
        reason, message = "NotSeenYet", "no controller has looked at this version of it yet"
        return Row(ref(obj).kind, meta.namespace, meta.name, None, False, reason, message, meta.creation_timestamp)
    is_stalled = stalled is not None and stalled.status == "True"
    return Row(
        ref(obj).kind,
        meta.namespace,
        meta.name,
        ready.status == "True",
        is_stalled,
        ready.reason,
        ready.message,
        meta.creation_timestamp,
    )


def _lines(rows: Iterable[Row], now: datetime) -> list[str]:
    rows = tuple(rows)
    if not rows:
        return ["No objects found. See what a manifest would do with: corral plan -f FILE"]
    head = ("NAMESPACE", "KIND", "NAME", "READY", "STATUS", "AGE")
    shown = {True: "True", False: "False", None: "Unknown"}
    lines = [table(head, ((r.namespace, r.kind, r.name, shown[r.ready], r.reason, age(r.created, now)) for r in rows))]
    attention = [row for row in rows if not row.ready]
    if attention:
        lines += ["", "Not ready"]
        lines += [f"  {r.kind} {r.namespace}/{r.name}: {r.message}" for r in attention]
        first = attention[0]
        lines += ["", f"Why: corral explain {first.kind.lower()} {first.name} -n {first.namespace}"]
    return lines
