"""`corral explain`: why an object is as it is: what it waits for, what comes next, what was decided, on which facts."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import click
import msgspec

from corral.cli.facts import Fact, fact_of, facts_of, operator_fact, ordered, pods_below, uids_of
from corral.cli.loading import kind_named
from corral.cli.options import Cluster, Kinds, Output, cluster_options, kinds_option, output_option
from corral.cli.output import age, say_json
from corral.cli.rows import row_of
from corral.engine import LeaseAddress
from corral.engine.plan import as_data, summary_lines
from corral.engine.questions import Explanation, SeenEvent, explain, seen_event
from corral.engine.store import Key
from corral.kube.client import Client, Selector
from corral.kube.errors import Forbidden, NotFound
from corral.kube.meta import Condition, Object, ObjectRef, ref
from corral.kube.models.apps_v1 import Deployment, ReplicaSet, StatefulSet
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import Pod
from corral.kube.models.events_v1 import Event

EVENTS_BELOW_MAX = 12
CAUSES_BEFORE = timedelta(minutes=2)
STANDARD = ("Ready", "Reconciling", "Stalled")


class EventBelow(msgspec.Struct, frozen=True):
    about: ObjectRef
    event: SeenEvent


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is told about one object."""

    explanation: Explanation
    facts: tuple[Fact, ...]
    operator: Fact
    below: tuple[EventBelow, ...]  # warnings about what the object made or refers to, the newest last
    now: datetime


@click.command("explain", short_help="Why an object is in its state, and what comes next")
@click.argument("kind")
@click.argument("name")
@output_option
@cluster_options
@kinds_option
def explain_command(kind: str, name: str, output: Output, cluster: Cluster, kinds: Kinds) -> None:
    """Explain the state of an object: what it waits for, what comes next, the facts behind that, the last events.

    Exit code: 0 explained, 2 an error (there is no such object, ...).
    """
    entry = kind_named(kinds, kind)
    key = Key(cluster.namespace if entry.kind.resource.namespaced else "", name)

    async def ask() -> Story:
        async with cluster.client() as client:
            return await story(client, await explain(client, entry.build(), key), datetime.now(UTC))

    told = asyncio.run(ask())
    if output == "json":
        say_json("Explanation", _data(told))
    else:
        click.echo("\n".join(lines(told)))


async def story(client: Client, explanation: Explanation, now: datetime) -> Story:
    namespace = explanation.object.metadata.namespace
    here = Selector(namespace=namespace)
    workloads = [*(await client.list(StatefulSet, here)).items, *(await client.list(Deployment, here)).items]
    replica_sets = (await client.list(ReplicaSet, here)).items
    pods = pods_below(explanation.object, replica_sets, workloads, (await client.list(Pod, here)).items)
    seen = facts_of(explanation.snapshot, now)
    more = [fact for pod in pods if (fact := fact_of(pod, now)) not in seen]
    return Story(
        explanation=explanation,
        facts=ordered((*more, *seen)),
        operator=await operator_now(client, now),
        below=await _warnings_below(client, explanation, pods, {fact.about for fact in (*more, *seen) if fact.well}),
        now=now,
    )


async def operator_now(client: Client, now: datetime) -> Fact:
    """Whether an operator runs, wherever it does."""
    where = Selector(fields=f"metadata.name={LeaseAddress('').name}")
    try:
        return operator_fact((await client.list(Lease, where)).items, now)
    except (Forbidden, NotFound):
        return operator_fact(None, now)


async def _warnings_below(
    client: Client, explanation: Explanation, pods: tuple[Pod, ...], well: set[str]
) -> tuple[EventBelow, ...]:
    """Of what is well there is nothing to warn about, nor of what was over before the object became what it is."""
    about = {uid: where for uid, where in uids_of(explanation.snapshot, pods).items() if str(where) not in well}
    where = Selector(namespace=explanation.object.metadata.namespace or "default", fields="type=Warning")
    events = [event for event in (await client.list(Event, where)).items if event.regarding.uid in about]
    found = [EventBelow(about[event.regarding.uid], seen_event(event)) for event in events]
    return recent(found, _since(explanation.object))


def recent(events: Iterable[EventBelow], since: datetime | None) -> tuple[EventBelow, ...]:
    """The last ones, the newest last; a little before `since` counts too, since causes come before effects."""
    begin = None if since is None else since - CAUSES_BEFORE
    kept = [one for one in events if begin is None or one.event.last_seen is None or one.event.last_seen >= begin]
    return tuple(sorted(kept, key=lambda one: str(one.event.last_seen)))[-EVENTS_BELOW_MAX:]


def _since(obj: Object) -> datetime | None:
    """Since when it is ready, or is not."""
    return next((c.last_transition_time for c in _conditions(obj) if c.type == "Ready"), None)


def lines(told: Story) -> list[str]:
    found, now = told.explanation, told.now
    waits = [
        f"{'a person: ' if wait.stalled else ''}{str(wait).removeprefix('waiting for ')}" for wait in found.plan.waits
    ]
    actions = summary_lines(msgspec.structs.replace(found.plan, waits=()))
    sections = (
        ("Waits for", waits),
        ("Next", actions if found.plan.actions or not waits else ("nothing; waiting for the above",)),
        ("Facts", [*map(str, told.facts), str(told.operator)]),
        ("Conditions", _condition_lines(found.conditions, now)),
        ("Decided last", [_event_line(event, now) for event in found.events] or ["no events"]),
        ("Warnings about these", [_event_line(one.event, now, f"{one.about}  ") for one in told.below]),
    )
    head = _headline(found.object, now)
    return [head, *(line for title, said in sections if said for line in ("", title, *(f"  {one}" for one in said)))]


def _headline(obj: Object, now: datetime) -> str:
    row = row_of(obj)
    since = _since(obj)
    if row.ready is None:
        return f"{ref(obj)}: {row.message}"
    state = "ready" if row.ready else ("stuck" if row.stalled else "not ready")
    return f"{ref(obj)}: {state} for {age(since, now)} ({row.reason})"


def _conditions(obj: Object) -> tuple[Condition, ...]:
    return tuple(getattr(getattr(obj, "status", None), "conditions", ()))


def _condition_lines(conditions: tuple[Condition, ...], now: datetime) -> list[str]:
    """The standard three share one message: it is told once, with the first."""
    said: set[str] = set()
    shown = []
    for condition in conditions:
        repeats = condition.type in STANDARD and condition.message in said
        said.add(condition.message)
        words = "" if repeats else f": {condition.message or condition.reason} ({condition.reason})"
        shown.append(f"{condition.type}={condition.status} for {age(condition.last_transition_time, now)}{words}")
    return shown or ["none: no operator has processed it yet"]


def _event_line(event: SeenEvent, now: datetime, about: str = "") -> str:
    times = f"  ({event.count} times)" if event.count > 1 else ""
    return f"{age(event.last_seen, now)} ago  {about}{event.reason}: {event.note}{times}"


def _data(told: Story) -> dict[str, object]:
    found = told.explanation
    return {
        "about": msgspec.to_builtins(ref(found.object)),
        "conditions": msgspec.to_builtins(found.conditions),
        "plan": as_data(found.plan),
        "facts": msgspec.to_builtins((*told.facts, told.operator)),
        "events": msgspec.to_builtins(found.events),
        "warnings": msgspec.to_builtins(told.below),
    }
