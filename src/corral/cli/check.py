"""`corral check`: can this Kubernetes run Corral and Slurm? Each check says yes, no or unknown, and what to do."""

import asyncio
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import TypeVar

import click
import msgspec

from corral.cli.checks import Answer, Check, Facts, checks, has_failed
from corral.cli.errors import CHANGES
from corral.cli.explain import operator_now
from corral.cli.options import Cluster, Kinds, Output, cluster_options, duration_option, kinds_option, output_option
from corral.cli.output import say_json
from corral.cli.probe import probe
from corral.engine.controller import AnyController
from corral.install.manifests import prefixed
from corral.install.rbac import NAMESPACE, Grant, grant, granted, merged
from corral.kinds import names
from corral.kube.client import Client
from corral.kube.crd import crd_of
from corral.kube.errors import Forbidden, NotFound
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.authorization_v1 import (
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
)
from corral.kube.models.core_v1 import Namespace, Node, PersistentVolume, ServiceAccount
from corral.kube.models.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from corral.kube.models.storage_v1 import StorageClass
from corral.slurm.config.keys import VERSIONS

T = TypeVar("T")
INSTALLED = (
    CustomResourceDefinition, Namespace, ServiceAccount, Deployment, ClusterRole, ClusterRoleBinding, Role, RoleBinding,
)  # fmt: skip
ASKED_AT_ONCE = 16


@click.command("check", short_help="Whether a Kubernetes can run Corral and Slurm")
@click.option("--pre", is_flag=True, help="Before Corral is installed: CRDs and an operator are not expected.")
@click.option("--no-probe", is_flag=True, help="Start no pod; checks that need one stay unknown.")
@click.option("--slurm-version", type=click.Choice(VERSIONS), default=VERSIONS[-1], show_default=True)
@click.option(
    "--image-prefix", default="", metavar="PREFIX", help="Registry of the images: HOST/PATH before their names."
)
@duration_option("--timeout", default="90s", help="How long to wait for the pod, including image pulls.")
@output_option
@cluster_options
@kinds_option
def check_command(
    pre: bool,
    no_probe: bool,
    slurm_version: str,
    image_prefix: str,
    timeout: float,
    output: Output,
    cluster: Cluster,
    kinds: Kinds,
) -> None:
    """Check whether this Kubernetes can run Corral and Slurm: versions, rights, storage, images, cgroups, clocks.

    A pod is started for a moment in the namespace (-n). Exit code: 0 it can, 1 a requirement is not met, 2 an error.
    """
    plain = (names.slurm_image(slurm_version), names.MARIADB_IMAGE, names.CORRAL_IMAGE)
    images = tuple(prefixed(image, image_prefix) for image in plain)
    controllers = [entry.build() for entry in kinds]

    async def ask() -> Facts:
        async with cluster.client() as client:
            facts = await _facts(client, controllers)
            if no_probe:
                return facts
            seen, skew_s = await probe(client, cluster.namespace, images, timeout)
            return msgspec.structs.replace(facts, probe=seen, skew_s=skew_s)

    found = checks(asyncio.run(ask()), [crd_of(entry.kind) for entry in kinds], before=pre)
    if output == "json":
        say_json("CheckResult", {"items": msgspec.to_builtins(found), "able": not has_failed(found)})
    else:
        click.echo("\n".join(lines(found)))
    if has_failed(found):
        raise click.exceptions.Exit(CHANGES)


def lines(found: Iterable[Check]) -> list[str]:
    found = tuple(found)
    colours = {Answer.YES: "green", Answer.NO: "red", Answer.UNKNOWN: "yellow"}
    width = max(len(check.name) for check in found)
    told = []
    for check in found:
        mark = click.style(f"{check.answer.value:<7}", fg=colours[check.answer])
        aside = "" if check.needed or check.answer is Answer.YES else " (optional)"
        told.append(f"{mark}  {check.name:<{width}}  {check.found}{aside}")
        if check.todo and check.answer is not Answer.YES:
            told.append(f"{'':<7}  {'':<{width}}  -> {check.todo}")
    missing = sum(check.answer is Answer.NO and check.needed for check in found)
    many = "1 requirement is" if missing == 1 else f"{missing} requirements are"
    unseen = sum(check.answer is Answer.UNKNOWN and check.needed for check in found)
    able = f"No requirement is known to be unmet; unknown: {unseen}." if unseen else "Corral can run here."
    return [*told, "", f"{many} not met." if missing else able]


async def _facts(client: Client, controllers: Iterable[AnyController]) -> Facts:
    definitions = await _allowed(client.list(CustomResourceDefinition))
    nodes, classes = await _allowed(client.list(Node)), await _allowed(client.list(StorageClass))
    volumes = await _allowed(client.list(PersistentVolume))
    return Facts(
        server=await client.server_version(),
        denied=await _allowed(denied(client, needed_rights(controllers))),
        nodes=nodes.items if nodes else None,
        classes=classes.items if classes else None,
        volumes=volumes.items if volumes else None,
        definitions={one.metadata.name: one for one in definitions.items} if definitions else None,
        operator=await operator_now(client, datetime.now(UTC)),
    )


async def _allowed(asked: Awaitable[T]) -> T | None:
    try:
        return await asked
    except (Forbidden, NotFound):
        return None


def needed_rights(controllers: Iterable[AnyController]) -> tuple[Grant, ...]:
    """To install: to make its objects, and to have every right that the operator is granted."""
    made = [grant(kind.resource, ("create", "patch")) for kind in INSTALLED]
    return merged((*granted(controllers), *made))


async def denied(client: Client, grants: Iterable[Grant]) -> tuple[str, ...]:
    """Which of the rights we have not got, as `verb resource.group`. Who may do everything is asked once."""
    if await _may(client, "*", "*", "*"):
        return ()
    gate = asyncio.Semaphore(ASKED_AT_ONCE)

    async def missing(one: Grant, verb: str) -> str:
        async with gate:
            allowed = await _may(client, verb, one.group, one.resource)
        return "" if allowed else f"{verb} {one.resource}{f'.{one.group}' if one.group else ''}"

    asked = [missing(one, verb) for one in grants for verb in sorted(one.verbs)]
    return tuple(sorted(filter(None, await asyncio.gather(*asked))))


async def _may(client: Client, verb: str, group: str, resource: str) -> bool:
    plural, _, subresource = resource.partition("/")
    namespaced_here = {Deployment.resource.plural: NAMESPACE, ServiceAccount.resource.plural: NAMESPACE}
    attributes = ResourceAttributes(
        verb=verb,
        group=group,
        resource=plural,
        subresource=subresource,
        namespace=namespaced_here.get(plural, "") if group != "*" and verb == "create" else "",
    )
    question = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    return (await client.create(question, field_manager="corral-check")).status.allowed
