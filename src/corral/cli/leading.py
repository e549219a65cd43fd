"""Which Lease an operator runs for, and who has it now.

One that a person starts runs for the very Lease of one that is installed: of both only one ever writes.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from corral.cli.errors import Failure
from corral.cli.facts import is_held
from corral.engine import LeaseAddress
from corral.install.operator import MANAGER
from corral.install.rbac import NAME, NAMESPACE
from corral.kube.client import Client
from corral.kube.errors import AlreadyExists, Forbidden, NotFound
from corral.kube.meta import ObjectMeta
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import Namespace


def address(chosen: str | None, pod_namespace: str) -> LeaseAddress:
    """`pod_namespace` is empty outside of a cluster."""
    return LeaseAddress(chosen or pod_namespace or NAMESPACE)


async def prepare(client: Client, lease: LeaseAddress, now: datetime, tell: Callable[[str], None]) -> None:
    """For a person's operator: a place for the Lease where nothing is installed yet, and a word if another leads."""
    await _ensure_namespace(client, lease.namespace)
    with suppress(NotFound):
        held = await client.get(Lease, lease.name, lease.namespace)
        if is_held(held, now):
            tell(standing_by(held))


def standing_by(lease: Lease) -> str:
    where = f"Lease {lease.metadata.namespace}/{lease.metadata.name}"
    scale = f"kubectl scale deployment {NAME} -n {NAMESPACE} --replicas 0"
    aside = f"; to stop it: {scale}" if lease.metadata.namespace == NAMESPACE else ""
    return f"{lease.spec.holder_identity} leads ({where}): this operator stands by until that one stops{aside}"


async def _ensure_namespace(client: Client, name: str) -> None:
    try:
        await client.get(Namespace, name)
    except Forbidden:
        return  # whoever may not look at namespaces may still have a Lease in one
    except NotFound:
        if name != NAMESPACE:
            raise Failure(f"there is no namespace {name} for the Lease: create it, or choose another one") from None
        await _make_namespace(client, name)


async def _make_namespace(client: Client, name: str) -> None:
    try:
        with suppress(AlreadyExists):
            await client.create(Namespace(metadata=ObjectMeta(name=name)), field_manager=MANAGER)
    except Forbidden as error:
        raise Failure(
            f"the operator's Lease needs namespace {name}, which does not exist, and you may not create it ({error}): "
            "have Corral installed, or choose another namespace with --lease-namespace"
        ) from error
