"""Take away what `corral up --context` has put into a cluster: the example, then Corral itself.

Only what `corral up` applied is touched, and Corral stays as long as anybody uses it. Data stays: claims are named to
the person, who deletes them or does not.
"""

from collections.abc import Iterable

from corral.install.manifests import Document, as_object
from corral.install.operator import MANAGER
from corral.install.rbac import NAMESPACE
from corral.install.waiting import until
from corral.kinds.registry import KINDS
from corral.kube.client import Client, Precondition, Selector
from corral.kube.errors import NotFound
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import PersistentVolumeClaim
from corral.kube.unstructured import Unstructured, untyped
from corral.local.errors import LocalError
from corral.local.progress import Step

GONE_WITHIN_S = 300.0  # workers are drained first
NAMED_MAX = 3
OURS = "app.kubernetes.io/managed-by=corral"


def is_ours(obj: Unstructured) -> bool:
    """Whether `corral up` has applied it, alone or after somebody else."""
    fields = obj.get("metadata", "managedFields", default=())
    return any(entry.get("manager") == MANAGER for entry in fields) if isinstance(fields, tuple) else False


async def present(client: Client, documents: Iterable[Document], namespace: str) -> tuple[Unstructured, ...]:
    """Those of the documents that the cluster has, as they are there."""
    found = []
    for document in documents:
        wanted = as_object(document, namespace)
        try:
            found.append(await client.get(type(wanted), wanted.metadata.name, wanted.metadata.namespace))
        except NotFound:  # the object, or its kind
            continue
    return tuple(found)


async def remove_example(client: Client, documents: Iterable[Document], namespace: str, step: Step) -> None:
    ours = [obj for obj in await present(client, documents, namespace) if is_ours(obj)]
    await _remove(client, reversed(ours), step)
    step.note(f"{len(ours)} objects" if ours else "there was nothing to remove")


async def remove_operator(client: Client, documents: Iterable[Document], step: Step) -> None:
    installed = await present(client, documents, NAMESPACE)
    # What has nothing but a name is owned by nobody; the Deployment tells by whom all of it was installed.
    if strangers := [obj for obj in installed if obj.resource == Deployment.resource and not is_ours(obj)]:
        raise LocalError(
            f"{_named(strangers)} was not applied by `corral up`: remove Corral the way it was installed, "
            "for example with `kubectl delete -k deploy`"
        )
    if users := await still_used(client):
        raise LocalError(
            f"Corral was not removed: that would delete {_named(users)} too; delete what nobody needs, then try again"
        )
    await _remove(client, reversed(installed), step)
    step.note(f"namespace {NAMESPACE}, {len(installed)} objects" if installed else "it was not installed")


async def still_used(client: Client) -> tuple[Unstructured, ...]:
    """Objects of our kinds, in all namespaces."""
    found: list[Unstructured] = []
    for entry in KINDS:
        try:
            found += (await client.list(untyped(entry.kind.resource))).items
        except NotFound:
            continue
    return tuple(found)


async def kept_claims(client: Client, namespace: str) -> tuple[str, ...]:
    claims = (await client.list(PersistentVolumeClaim, Selector(namespace=namespace, labels=OURS))).items
    return tuple(sorted(claim.metadata.name for claim in claims if claim.metadata.deletion_timestamp is None))


async def _remove(client: Client, objects: Iterable[Unstructured], step: Step) -> None:
    """All at once, as `kubectl delete` does; return when they are gone."""
    going = tuple(objects)
    for obj in going:
        step.say(f"deleting {obj.resource.kind} {obj.metadata.name}")
        try:
            alone = Precondition(uid=obj.metadata.uid)
            await client.delete(type(obj), obj.metadata.name, obj.metadata.namespace, precondition=alone)
        except NotFound:
            continue

    async def left() -> str:
        there = [obj for obj in going if await _is_there(client, obj)]
        return f"{_named(there)} is still there; its finalizer may need a running operator" if there else ""

    await until("everything is gone", left, GONE_WITHIN_S, step)


async def _is_there(client: Client, obj: Unstructured) -> bool:
    try:
        found = await client.get(type(obj), obj.metadata.name, obj.metadata.namespace)
    except NotFound:
        return False
    return found.metadata.uid == obj.metadata.uid


def _named(objects: Iterable[Unstructured]) -> str:
    names = [f"{obj.resource.kind} {'/'.join(filter(None, _path(obj)))}" for obj in objects]
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _path(obj: Unstructured) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
