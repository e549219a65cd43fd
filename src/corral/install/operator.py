"""Put the operator into a cluster and wait until it works: definitions first, then the rest, then its pods."""

from collections.abc import Iterable

import msgspec

from corral.install.manifests import Document, as_object
from corral.install.rbac import NAME, NAMESPACE
from corral.install.waiting import cannot_start, keeps_failing, newest, not_rolled_out, until
from corral.kube.client import Client, Selector
from corral.kube.definitions import define
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import Pod
from corral.local.errors import LocalError
from corral.local.progress import Step

MANAGER = "corral-up"
SERVED_WITHIN_S = 60.0
RUNNING_WITHIN_S = 300.0  # an image may have to be pulled
PODS = Selector(namespace=NAMESPACE, labels=f"app.kubernetes.io/name={NAME}")


async def install(client: Client, documents: Iterable[Document], step: Step) -> None:
    """Applied twice it changes nothing."""
    everything = tuple(documents)
    definitions = [document for document in everything if document["kind"] == "CustomResourceDefinition"]
    step.say("defining the kinds")
    await define(
        client,
        (msgspec.convert(definition, CustomResourceDefinition) for definition in definitions),
        field_manager=MANAGER,
        within_s=SERVED_WITHIN_S,
    )
    for document in everything:
        if document not in definitions:
            obj = as_object(document)
            step.say(f"applying {obj.resource.kind} {obj.metadata.name}")
            await client.apply(obj, field_manager=MANAGER, force=True)
    await until("the operator is ready", lambda: _missing(client), RUNNING_WITHIN_S, step)


async def _missing(client: Client) -> str:
    deployment = await client.get(Deployment, NAME, NAMESPACE)
    said = not_rolled_out(deployment)
    if said and deployment.status.updated_replicas:
        pods = newest((await client.list(Pod, PODS)).items)  # one of an earlier template says nothing about this one
        if why := cannot_start(pods) or keeps_failing(pods):
            raise LocalError(why)
    return said
