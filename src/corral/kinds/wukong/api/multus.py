"""k8s.cni.cncf.io/v1: NetworkAttachmentDefinition. Its whole configuration is one string of JSON."""

from typing import ClassVar

from corral.kube.meta import Model, Object, Resource


class AttachmentSpec(Model, frozen=True, kw_only=True):
    config: str = ""


class NetworkAttachmentDefinition(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(
        "k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions", True
    )

    spec: AttachmentSpec = AttachmentSpec()
