"""`corral plan`: what would happen, and why; the same decision that the operator would make."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from corral.cli.errors import CHANGES, STUCK, Failure
from corral.cli.loading import kind_named, manifests_in
from corral.cli.options import Cluster, Kinds, Output, cluster_options, kinds_option, output_option
from corral.cli.output import NO_OBJECTS, diff_lines, file_diffs, say_json, styled_diff
from corral.engine.actions import Apply, about
from corral.engine.controller import AnyController
from corral.engine.plan import Plan, as_data, summary_lines
from corral.engine.questions import Change, conditions_of, dry_run, plan_object
from corral.engine.registry import KindController
from corral.engine.store import Key
from corral.kube.client import Client
from corral.kube.errors import NotFound
from corral.kube.meta import Object, ObjectRef, ref


class Question(msgspec.Struct, frozen=True):
    """`what` is a manifest, or the key of an object that is in the cluster; `beside` is what its file holds besides."""

    about: ObjectRef
    controller: AnyController
    what: Key | Object
    beside: tuple[Object, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    about: ObjectRef
    plan: Plan
    changes: tuple[Change, ...]


@click.command("plan", short_help="What would be done about objects or a manifest, and why")
@click.argument("kind", required=False)
@click.argument("name", required=False)
@click.option("-f", "--file", type=click.Path(path_type=Path), help="A manifest: what would happen if it were applied?")
@click.option(
    "--diff", is_flag=True, help="Try the plan on the server (dry run) and show what changes, field by field."
)
@output_option
@cluster_options
@kinds_option
def plan_command(
    kind: str | None, name: str | None, file: Path | None, diff: bool, output: Output, cluster: Cluster, kinds: Kinds
) -> None:
    """Show what Corral would do about every object, those of a KIND, one (KIND NAME), or a manifest (-f FILE), and why.

    Nothing is changed. Exit code: 0 nothing to do, 1 changes, 2 an error, 3 stuck: a person must act first.
    """
    if file is not None and kind is not None:
        raise click.UsageError("give either KIND NAME or -f FILE, not both")
    asked = _about_manifests(file, kinds, cluster) if file is not None else None
    chosen = (kind_named(kinds, kind),) if kind else kinds

    async def ask() -> tuple[Answer, ...]:
        async with cluster.client() as client:
            questions = asked or await _about_objects(client, chosen, name, cluster.namespace)
            return tuple([await _answer(client, question, diff=diff) for question in questions])

    answers = asyncio.run(ask())
    _say(answers, output, diff=diff)
    if any(wait.stalled for answer in answers for wait in answer.plan.waits):
        raise click.exceptions.Exit(STUCK)
    if any(not answer.plan.is_empty for answer in answers):
        raise click.exceptions.Exit(CHANGES)


def _about_manifests(file: Path, kinds: Kinds, cluster: Cluster) -> tuple[Question, ...]:
    manifests = manifests_in(file, kinds, cluster.namespace)
    beside = tuple(found.object for found in manifests)
    return tuple(Question(ref(found.object), found.entry.build(), found.object, beside) for found in manifests)


async def _about_objects(
    client: Client, kinds: Iterable[KindController], name: str | None, namespace: str
) -> tuple[Question, ...]:
    questions: list[Question] = []
    for entry in kinds:
        controller, resource = entry.build(), entry.kind.resource
        names = (name,) if name else await _names(client, controller, namespace)
        within = namespace if resource.namespaced else ""
        questions += [Question(ObjectRef(resource.kind, within, n), controller, Key(within, n)) for n in names]
    return tuple(questions)


async def _names(client: Client, controller: AnyController, namespace: str) -> tuple[str, ...]:
    try:
        return tuple(obj.metadata.name for obj in await conditions_of(client, controller, namespace))
    except NotFound:  # its definition is not installed, so there are none
        return ()


async def _answer(client: Client, question: Question, *, diff: bool) -> Answer:
    planned = await plan_object(client, question.controller, question.what, beside=question.beside)
    if planned.snapshot is None:
        raise Failure(f"there is no {question.about}; see what a manifest would do with: corral plan -f FILE")
    tried = planned.plan if diff else _changed_objects(planned.plan)
    return Answer(question.about, planned.plan, await dry_run(client, question.controller, tried))


def _changed_objects(plan: Plan) -> Plan:
    """What has files that a person wants to see the difference of: objects that are there and get another content."""
    changed = [action for action in plan.actions if isinstance(action, Apply) and action.over is not None]
    return Plan(actions=tuple(changed))


def _say(answers: tuple[Answer, ...], output: Output, *, diff: bool) -> None:
    if output == "json":
        say_json("PlanList", {"items": [_data(answer, diff=diff) for answer in answers]})
        return
    if not answers:
        click.echo(NO_OBJECTS)
    for answer in answers:
        click.echo(f"{answer.about}")
        for line in summary_lines(answer.plan):
            click.echo(f"  {line}")
        shown = map(diff_lines, answer.changes) if diff else (d for c in answer.changes for d in file_diffs(c))
        for line in (line for one in shown for line in one):
            click.echo(styled_diff(line) if diff else f"    {styled_diff(line)}")


def _data(answer: Answer, *, diff: bool) -> dict[str, object]:
    """Without `diff` only a part of the plan was tried, so there are no `changes` to be told as if they were all."""
    files = ["\n".join(found) for change in answer.changes for found in file_diffs(change)]
    changes = {"changes": [_change_data(change) for change in answer.changes]} if diff else {}
    return {"about": msgspec.to_builtins(answer.about), **as_data(answer.plan), "files": files, **changes}


def _change_data(change: Change) -> dict[str, object]:
    return {
        "about": msgspec.to_builtins(about(change.action)),
        "before": change.before,
        "after": change.after,
        "refused": change.refused,
        "untried": change.untried,
    }
