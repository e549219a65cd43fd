"""The manifests that this package carries: deploy/ and the quickstart, read as objects. Pure but for the reading.

In a checkout `deploy` and `quickstart.yaml` beside this file are links to the checkout's own; a wheel holds copies.
What of deploy/ is generated is generated here, not read: where somebody works on a kind, the files may be behind the
code, and an operator without the rights that it needs would not start.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml

from corral.install.generated import generated
from corral.install.policies import BINDING, POLICY
from corral.kinds.registry import KINDS
from corral.kube.meta import Object, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import Namespace, Service, ServiceAccount
from corral.kube.models.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from corral.kube.unstructured import Unstructured, untyped

DEPLOY = Path(__file__).parent / "deploy"
QUICKSTART = Path(__file__).parent / "quickstart.yaml"
IMAGE_KEY = "corral.dev/image-key"  # the same tag with other content is another pod

Document: TypeAlias = Mapping[str, Any]

_BUILT_IN: tuple[type[Object], ...] = (
    Namespace, CustomResourceDefinition, ClusterRole, ClusterRoleBinding, Role, RoleBinding, ServiceAccount, Deployment,
    Service, untyped(POLICY), untyped(BINDING),
)  # fmt: skip


def read_deploy(folder: Path = DEPLOY) -> tuple[Document, ...]:
    """All that `kubectl apply -k` would apply, in its order."""
    return tuple(_kustomized(folder, "", generated(KINDS)))


def read_quickstart(file: Path = QUICKSTART) -> tuple[Document, ...]:
    return tuple(_documents(file.read_text(encoding="utf-8")))


def as_object(document: Document, namespace: str = "") -> Unstructured:
    """`namespace` is for objects that live in one and do not say in which."""
    resource = _resource(document)
    if resource.namespaced and namespace and not document["metadata"].get("namespace"):
        document = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    return untyped(resource)(content=document)


def prefixed(image: str, prefix: str) -> str:
    return f"{prefix.rstrip('/')}/{image}" if prefix else image


def with_operator_image(documents: Iterable[Document], *, prefix: str = "", key: str = "") -> tuple[Document, ...]:
    """The operator's Deployment with its image from elsewhere, and with the image's key if that is known."""
    return tuple(_with_image(each, prefix, key) if each["kind"] == "Deployment" else each for each in documents)


def _with_image(deployment: Document, prefix: str, key: str) -> Document:
    template = deployment["spec"]["template"]
    containers = [{**each, "image": prefixed(each["image"], prefix)} for each in template["spec"]["containers"]]
    metadata = {**template["metadata"], "annotations": {IMAGE_KEY: key}} if key else template["metadata"]
    changed = {**template, "metadata": metadata, "spec": {**template["spec"], "containers": containers}}
    return {**deployment, "spec": {**deployment["spec"], "template": changed}}


def _kustomized(root: Path, folder: str, known: Mapping[str, str]) -> Iterator[Document]:
    """`known` are files that are not read, by their path below `root`."""

    def text(name: str) -> str:
        return known.get(name) or (root / name).read_text(encoding="utf-8")

    (kustomization,) = _documents(text(f"{folder}kustomization.yaml"))
    for entry in kustomization["resources"]:
        name = f"{folder}{entry}"
        yield from _documents(text(name)) if name.endswith(".yaml") else _kustomized(root, f"{name}/", known)


def _documents(text: str) -> Iterator[Document]:
    loaded = yaml.load_all(text, Loader=yaml.CSafeLoader)
    return (cast("Document", document) for document in loaded if document is not None)


def _resource(document: Document) -> Resource:
    named = (document["apiVersion"], document["kind"])
    ours = (entry.kind for entry in KINDS)
    return next(k.resource for k in (*_BUILT_IN, *ours) if (k.resource.api_version, k.resource.kind) == named)
