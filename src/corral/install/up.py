"""What `corral up` does once there is a Kubernetes: the operator, the example cluster, a first job; and `down` its end.

Each step may be repeated at any time: what is there already is left as it is.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from corral.install import operator, quickstart, removal
from corral.install.manifests import Document, prefixed, read_deploy, read_quickstart, with_operator_image
from corral.install.rbac import NAMESPACE
from corral.install.storage import default_classes, is_for_many
from corral.kube import Client, Credentials, HttpTransport
from corral.kube.models.storage_v1 import StorageClass
from corral.local.errors import LocalError
from corral.local.progress import Progress

OPERATOR, EXAMPLE, JOB = "Corral", "Slurm cluster", "First job"
STEPS = (OPERATOR, EXAMPLE, JOB)
DOWN_STEPS = (EXAMPLE, OPERATOR)


class Fitted(msgspec.Struct, frozen=True):
    """The example as a cluster of somebody else can run it, and what had to be left out of it."""

    documents: tuple[Document, ...]
    left_out: str = ""


def bring_up(credentials: Credentials, progress: Progress, *, image_key: str) -> quickstart.FirstJob:
    """Into a cluster of our own. `image_key` tells images of one name apart, for operators that run already."""
    deploy = with_operator_image(read_deploy(), key=image_key)
    return asyncio.run(_bring_up(credentials, progress, deploy, read_quickstart()))


def bring_up_elsewhere(
    credentials: Credentials, progress: Progress, example: Fitted, *, image_prefix: str
) -> quickstart.FirstJob:
    """Into somebody's cluster. `progress` must plan STEPS."""
    deploy = with_operator_image(read_deploy(), prefix=image_prefix)
    return asyncio.run(
        _bring_up(credentials, progress, deploy, quickstart.with_images(example.documents, image_prefix))
    )


def bring_down(credentials: Credentials, progress: Progress) -> tuple[str, ...]:
    """The claims that stay. `progress` must plan DOWN_STEPS."""
    return asyncio.run(_bring_down(credentials, progress))


def look(credentials: Credentials) -> Fitted:
    """Ask somebody's cluster what it can run, before anything is changed. Raises LocalError where the answer is no."""
    return asyncio.run(_look(credentials))


def fitted(
    example: Iterable[Document], classes: Iterable[StorageClass], strangers: Iterable[str], namespace: str
) -> Fitted:
    """`strangers` are objects that bear the names of the example's and are somebody's own. Pure."""
    documents = tuple(example)
    if taken := ", ".join(strangers):
        raise LocalError(f"namespace {namespace} has {taken}, not applied by `corral up`: choose another namespace")
    default = default_classes(classes)
    if not default:
        raise LocalError(
            "the cluster has no default StorageClass, and Slurm keeps its state on volumes: "
            "mark one (`corral check --pre` says how)"
        )
    if is_for_many(default[0]) is False:
        name = default[0].metadata.name
        why = f"StorageClass {name} makes volumes for one node at a time: the example has no shared /home"
        return Fitted(quickstart.without_home(documents), why)
    return Fitted(documents)


def image_references(image_prefix: str = "") -> tuple[str, ...]:
    return tuple(prefixed(image, image_prefix) for image in quickstart.IMAGES)


async def _look(credentials: Credentials) -> Fitted:
    example, namespace = read_quickstart(), credentials.namespace
    async with Client(HttpTransport(credentials, component="up")) as client:
        there = await removal.present(client, example, namespace)
        classes = (await client.list(StorageClass)).items
    strangers = [f"{obj.resource.kind} {obj.metadata.name}" for obj in there if not removal.is_ours(obj)]
    return fitted(example, classes, strangers, namespace)


async def _bring_up(
    credentials: Credentials, progress: Progress, deploy: tuple[Document, ...], example: tuple[Document, ...]
) -> quickstart.FirstJob:
    namespace = credentials.namespace
    async with Client(HttpTransport(credentials, component="up")) as client:
        with progress.step(OPERATOR) as step:
            await operator.install(client, deploy, step)
            step.note(f"in namespace {NAMESPACE}")
        with progress.step(EXAMPLE) as step:
            await quickstart.apply(client, example, namespace, step)
            step.note(_counted(document["kind"] for document in example))
        with progress.step(JOB) as step:
            return await quickstart.first_job(client, example, namespace, step)


async def _bring_down(credentials: Credentials, progress: Progress) -> tuple[str, ...]:
    async with Client(HttpTransport(credentials, component="down")) as client:
        with progress.step(EXAMPLE) as step:
            await removal.remove_example(client, read_quickstart(), credentials.namespace, step)
        with progress.step(OPERATOR) as step:
            await removal.remove_operator(client, read_deploy(), step)
        return await removal.kept_claims(client, credentials.namespace)


def _counted(kinds: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(kinds))
