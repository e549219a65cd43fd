"""The example cluster: applied, waited for, and used for a first job over all its workers."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from corral.install.manifests import Document, as_object, prefixed
from corral.install.operator import MANAGER
from corral.install.waiting import cannot_start, not_ready, until, without_node
from corral.kinds import names
from corral.kinds.accounting.spec import AccountingSpec
from corral.kinds.controller.objects import COMPONENT
from corral.kube.client import Client, Selector
from corral.kube.errors import Unreachable
from corral.kube.models.core_v1 import Pod
from corral.kube.unstructured import Unstructured, untyped
from corral.local.errors import LocalError
from corral.local.progress import Step

READY_WITHIN_S = 600.0  # images may have to be pulled, and a first MariaDB makes its tables
JOB_S_MAX = 120.0

SLURM_IMAGE = names.slurm_image(AccountingSpec().version)
IMAGES = (names.CORRAL_IMAGE, SLURM_IMAGE, names.MARIADB_IMAGE)
"""All that the operator and the example run; the operator's own comes first."""

_CONTAINERS: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "Accounting": {("slurmdbd",): SLURM_IMAGE, ("managed", "mariadb"): names.MARIADB_IMAGE},
    "Controller": {("slurmctld",): SLURM_IMAGE},
    "RestApi": {("slurmrestd",): SLURM_IMAGE},
    "NodeSet": {("slurmd",): SLURM_IMAGE},
    "LoginSet": {("login",): SLURM_IMAGE, ("sackd",): SLURM_IMAGE},
}
"""Where in a spec a container may name its image, and the one that it has when it does not."""


class FirstJob(msgspec.Struct, frozen=True):
    """What was typed in which pod of which cluster, and what came out; and where people go on."""

    cluster: str
    pod: str
    login: str  # what follows `kubectl exec -it` for a user's shell
    transcript: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(f"$ {command}\n{output}" for command, output in self.transcript)


def with_images(documents: Iterable[Document], prefix: str) -> tuple[Document, ...]:
    """Every container says where its image comes from; without a prefix nothing needs to be said."""
    return tuple(_with_images(document, prefix) for document in documents) if prefix else tuple(documents)


def without_home(documents: Iterable[Document]) -> tuple[Document, ...]:
    """For a cluster whose volumes one node at a time writes to: nobody's /home outlives their pod."""
    return tuple(
        {**document, "spec": {key: value for key, value in document["spec"].items() if key != "home"}}
        for document in documents
    )


def workers(documents: Iterable[Document]) -> int:
    return sum(document["spec"].get("replicas", 1) for document in documents if document["kind"] == "NodeSet")


def controller(documents: Iterable[Document]) -> str:
    return next(str(document["metadata"]["name"]) for document in documents if document["kind"] == "Controller")


def login(documents: Iterable[Document]) -> str:
    """What follows `kubectl exec -it` for a shell of the example's first user."""
    of_kind = {str(document["kind"]): document for document in documents}
    deployment = names.login_name(of_kind["LoginSet"]["metadata"]["name"])
    return f"deploy/{deployment} -- su - {of_kind['Controller']['spec']['identity']['users'][0]['name']}"


async def apply(client: Client, documents: Iterable[Document], namespace: str, step: Step) -> None:
    """Return when every object of the example is Ready."""
    objects = [as_object(document, namespace) for document in documents]
    for obj in objects:
        step.say(f"applying {obj.resource.kind} {obj.metadata.name}")
        await client.apply(obj, field_manager=MANAGER, force=True)
    await until("the example cluster is ready", lambda: _missing(client, objects, namespace), READY_WITHIN_S, step)


async def first_job(client: Client, documents: Iterable[Document], namespace: str, step: Step) -> FirstJob:
    """One task on every worker, asked for where Slurm's commands are."""
    example = tuple(documents)
    cluster = controller(example)
    job = FirstJob(cluster, f"{names.controller_name(cluster)}-0", login(example))
    for command in (f"srun -N{workers(example)} hostname", "sinfo"):
        step.say(command)
        said = await _run(client, job, namespace, command)
        job = msgspec.structs.replace(job, transcript=(*job.transcript, (command, said)))
    return job


async def _run(client: Client, job: FirstJob, namespace: str, command: str) -> str:
    words = tuple(command.split())
    try:
        answer = await client.exec(job.pod, namespace, words, container=COMPONENT, run_s_max=JOB_S_MAX)
    except Unreachable as error:
        hint = f"what of Slurm works and what does not: corral test {job.cluster} -n {namespace}"
        raise LocalError(f"`{command}`: {error}; {hint}") from error
    if answer.exit_code != 0:
        said = answer.stderr.decode(errors="replace").strip() or "no output"
        raise LocalError(f"`{command}` in pod {namespace}/{job.pod} ended with exit code {answer.exit_code}: {said}")
    return answer.stdout.decode(errors="replace").rstrip("\n")


async def _missing(client: Client, objects: Iterable[Unstructured], namespace: str) -> str:
    for obj in objects:
        if said := not_ready(await client.get(untyped(obj.resource), obj.metadata.name, namespace)):
            ours = Selector(namespace=namespace, labels="app.kubernetes.io/managed-by=corral")
            pods = (await client.list(Pod, ours)).items
            if why := cannot_start(pods):
                raise LocalError(why)
            return "; ".join(filter(None, (said, without_node(pods))))
    return ""


def _with_images(document: Document, prefix: str) -> Document:
    spec: Mapping[str, Any] = document["spec"]
    for path, image in _CONTAINERS.get(document["kind"], {}).items():
        spec = _with_image(spec, path, prefixed(image, prefix))
    return {**document, "spec": spec}


def _with_image(spec: Mapping[str, Any], path: tuple[str, ...], image: str) -> Mapping[str, Any]:
    """An image that somebody chose stays."""
    if not path:
        return {"image": image, **spec}
    return {**spec, path[0]: _with_image(spec.get(path[0]) or {}, path[1:], image)}
