"""`corral status`: every object of every kind with its Ready condition; what needs attention comes last."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from random import SystemRandom

import click
import msgspec

from corral.cli.errors import CHANGES, Failure
from corral.cli.explain import operator_now
from corral.cli.facts import Fact
from corral.cli.loading import kind_named
from corral.cli.options import Cluster, Kinds, Output, cluster_options, duration_option, kinds_option, output_option
from corral.cli.output import NO_OBJECTS, age, say_json, table
from corral.cli.rows import Board, Row, after, board_of, news, row_of
from corral.engine.questions import conditions_of
from corral.engine.registry import KindController
from corral.kube import watch
from corral.kube.client import Client, Selector
from corral.kube.errors import NotFound
from corral.kube.meta import Object


@click.command("status", short_help="All objects, and whether they are ready; --wait waits")
@click.argument("kind", required=False)
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces.")
@click.option("--wait", is_flag=True, help="Wait until all are ready; print what is missing whenever that changes.")
@duration_option("--timeout", default="5m", help="How long --wait waits at most.")
@output_option
@cluster_options
@kinds_option
def status_command(
    kind: str | None,
    name: str | None,
    all_namespaces: bool,
    wait: bool,
    timeout: float,
    output: Output,
    cluster: Cluster,
    kinds: Kinds,
) -> None:
    """Show every object, those of a KIND, or one (KIND NAME), and whether it is ready.

    Exit code: 0; with --wait 0 all are ready, 1 not in time, or a person must act; 2 an error.
    """
    chosen = (kind_named(kinds, kind),) if kind else kinds
    namespace = "" if all_namespaces else cluster.namespace
    started = time.monotonic()

    def tell(line: str) -> None:
        click.echo(f"{time.monotonic() - started:5.1f} s  {line}", err=True)

    async def ask() -> tuple[tuple[Row, ...], Fact | None]:
        async with cluster.client() as client:
            rows = await rows_now(client, chosen, namespace, name or "")
            if wait and not board_of(rows).is_settled:
                rows = await rows_when_settled(client, chosen, namespace, name or "", within_s=timeout, tell=tell)
            return rows, None if all(row.ready for row in rows) else await operator_now(client, datetime.now(UTC))

    rows, operator = asyncio.run(ask())
    if name and not rows:
        raise Failure(f"there is no {chosen[0].kind.resource.kind} {namespace}/{name}")
    if output == "json":
        say_json("StatusList", {"items": msgspec.to_builtins(rows)})
    else:
        click.echo("\n".join(lines(rows, operator, datetime.now(UTC), cluster.flags)))
    if wait and not all(row.ready for row in rows):
        raise click.exceptions.Exit(CHANGES)


async def rows_now(client: Client, kinds: Iterable[KindController], namespace: str, name: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for entry in kinds:
        with contextlib.suppress(NotFound):  # its definition is not installed, so there are none
            rows += [row_of(obj) for obj in await conditions_of(client, entry.build(), namespace)]
    return tuple(row for row in rows if not name or row.name == name)


async def rows_when_settled(
    client: Client,
    kinds: Iterable[KindController],
    namespace: str,
    name: str,
    *,
    within_s: float,
    tell: Callable[[str], None],
) -> tuple[Row, ...]:
    """Follow the objects until nothing is to be waited for, or the time is up; the last known rows."""
    board = Board()
    served = [entry.kind for entry in kinds if await client.served(entry.kind.resource)]
    where = Selector(namespace=namespace, fields=f"metadata.name={name}" if name else "")
    complete: set[str] = set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s), aclosing(_events(client, served, where)) as events:
            async for kind, event in events:
                before, board = board, after(board, kind, event)
                for line in news(before, board):
                    tell(line)
                complete |= {kind} if isinstance(event, watch.InitDone) else set()
                if len(complete) == len(served) and board.is_settled:
                    break
    order = {kind.resource.kind: number for number, kind in enumerate(served)}
    return tuple(sorted(board.rows.values(), key=lambda row: (order[row.kind], row.namespace, row.name)))


async def _events(
    client: Client, kinds: Iterable[type[Object]], where: Selector
) -> AsyncGenerator[tuple[str, watch.Event[Object]], None]:
    """The watches of all kinds, as one stream."""
    told: asyncio.Queue[tuple[str, watch.Event[Object]]] = asyncio.Queue()
    server = watch.Server()

    async def follow(kind: type[Object]) -> None:
        async for event in watch.follow(client, kind, where, server=server, random=SystemRandom()):
            told.put_nowait((kind.resource.kind, event))

    tasks = [asyncio.create_task(follow(kind)) for kind in kinds]
    try:
        while True:
            yield await told.get()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def lines(rows: tuple[Row, ...], operator: Fact | None, now: datetime, flags: str = "") -> list[str]:
    """`operator` is known when something is not ready; one that is missing is the first thing to know then."""
    if not rows:
        return [NO_OBJECTS]
    head = ("NAMESPACE", "KIND", "NAME", "READY", "STATUS", "AGE")
    shown = {True: "True", False: "False", None: "Unknown"}
    told = [table(head, ((r.namespace, r.kind, r.name, shown[r.ready], r.reason, age(r.created, now)) for r in rows))]
    attention = sorted((row for row in rows if not row.ready), key=lambda row: not row.stalled)
    if attention:
        told += ["", "Not ready"]
        told += [f"  {r.kind} {r.namespace}/{r.name}: {r.sentence}" for r in attention]
        if operator is not None and operator.well is False:
            told += ["", str(operator)]
        first = attention[0]
        told += ["", f"Why: corral explain {first.kind.lower()} {first.name} -n {first.namespace}{flags}"]
    return told
