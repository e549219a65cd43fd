"""Asks the API server whether disks of a namespace may be copied to another one."""

from corral.kinds.wukong.api.cdi import DataVolume, Elsewhere
from corral.kinds.wukong.clones import ACCOUNT, forbidden_text
from corral.kube.client import Client
from corral.kube.errors import Forbidden
from corral.kube.models.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec


class Reviews:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def why_not(self, source: Elsewhere, namespace: str) -> str:
        """Why the disk may not be copied to the namespace; empty if it may."""
        kind = DataVolume.resource
        attributes = ResourceAttributes(
            group=kind.group,
            resource=kind.plural,
            subresource="source",
            verb="create",
            namespace=source.namespace,
            name=source.name,
        )
        asked = SubjectAccessReviewSpec(
            user=f"system:serviceaccount:{namespace}:{ACCOUNT}",
            groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
            resource_attributes=attributes,
        )
        try:
            answer = await self._client.create(SubjectAccessReview(spec=asked), field_manager="corral-wukong")
        except Forbidden as error:
            return f"whether {source.name} of namespace {source.namespace} may be copied cannot be asked: {error}"
        return "" if answer.status.allowed else forbidden_text(source, namespace)
