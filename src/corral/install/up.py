"""What `corral up` does once there is a Kubernetes: the operator, the example cluster, a first job.

Each step may be repeated at any time: what is there already is left as it is.
"""

import asyncio
from collections.abc import Iterable

from corral.install import operator, quickstart
from corral.install.manifests import prefixed, read_deploy, read_quickstart, with_operator_image
from corral.install.rbac import NAMESPACE
from corral.kube import Client, Credentials, HttpTransport
from corral.local.progress import Progress

OPERATOR, EXAMPLE, JOB = "Corral", "Slurm cluster", "First job"
STEPS = (OPERATOR, EXAMPLE, JOB)


def bring_up(
    credentials: Credentials, progress: Progress, *, image_prefix: str = "", image_key: str = ""
) -> quickstart.FirstJob:
    """`progress` must plan STEPS. `image_key` tells images of one name apart, for operators that run already."""
    return asyncio.run(_bring_up(credentials, progress, image_prefix, image_key))


def image_references(image_prefix: str = "") -> tuple[str, ...]:
    return tuple(prefixed(image, image_prefix) for image in quickstart.IMAGES)


async def _bring_up(
    credentials: Credentials, progress: Progress, image_prefix: str, image_key: str
) -> quickstart.FirstJob:
    deploy = with_operator_image(read_deploy(), prefix=image_prefix, key=image_key)
    example = quickstart.with_images(read_quickstart(), image_prefix)
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


def _counted(kinds: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(kinds))
