"""What the server accepts and then does not serve is told with the server's own reason."""

import pytest

from corral.kube.crd import crd_of, kind
from corral.kube.definitions import NotServed, define
from corral.kube.meta import Object
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.selection import Precondition
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster


@kind(group="test.corral.dev", version="v1", plural="firsts", short_names=("wanted",))
class First(Object, frozen=True, kw_only=True):
    """Has the name."""


@kind(group="test.corral.dev", version="v1", plural="wanted")
class Second(Object, frozen=True, kw_only=True):
    """Wants it too."""


async def test_a_kind_whose_name_is_taken_is_told_with_the_servers_reason(corral_cluster: Cluster) -> None:
    async with corral_cluster.client() as client:
        await define(client, [crd_of(First)], field_manager="test")
        with pytest.raises(NotServed, match=r"define CustomResourceDefinition wanted.*NamesAccepted is False"):
            await define(client, [crd_of(Second)], field_manager="test", within_s=2)
        for own in (First, Second):
            name = own.resource.plural_and_group
            await client.delete(CustomResourceDefinition, name, precondition=Precondition())
