"""The Accounting's controller: what is looked at, and what brings it back. The decision is in `plan`."""

import secrets
from collections.abc import Callable, Iterable, Mapping

import msgspec

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader, conditions, verdict
from corral.engine.controller import generation_changed
from corral.engine.status import SUSPENDED
from corral.kinds import keys, names
from corral.kinds.accounting.plan import (
    Snapshot,
    complaint,
    generated_password,
    installed,
    is_ready,
    is_struggling,
    plan,
    slurmdbd_set,
)
from corral.kinds.accounting.spec import Accounting, AccountingStatus
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kube.client import Client
from corral.kube.errors import KubeError
from corral.kube.logs import LogOptions
from corral.kube.meta import Object, ref
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.batch_v1 import Job
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret, Service
from corral.kube.selection import Selector

PASSWORD_BYTES = 24
LINES_READ = 40
MADE_BY_US = Selector(labels="app.kubernetes.io/managed-by=corral")


def random_password() -> bytes:
    """Letters, digits, dashes and underscores: no file or shell reads them otherwise."""
    return secrets.token_urlsafe(PASSWORD_BYTES).encode()


class AccountingReconciler:
    def __init__(self, new_password: Callable[[], bytes] = random_password) -> None:
        self._new_password = new_password
        self._client: Client | None = None

    def use(self, client: Client) -> None:
        self._client = client

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        accounting = read.get(Accounting, key.name, key.namespace)
        if accounting is None:
            return None
        controllers = read.by_index(SlurmController, "accounting", (key.namespace, key.name))
        referred = [read.get(Secret, name, key.namespace) for name in _secret_names(accounting, controllers)]
        seen = Snapshot(
            object=accounting,
            now=read.now,
            controllers=controllers,
            secrets={secret.metadata.name: secret for secret in referred if secret is not None},
            config_maps={one.metadata.name: one for one in _public_keys(controllers, read)},
            children=_children(accounting, read),
            pods=_pods(accounting, read),
        )
        seen = msgspec.structs.replace(seen, last_words=await self._last_words(seen))
        return seen if generated_password(seen) else msgspec.structs.replace(seen, fresh_password=self._new_password())

    async def _last_words(self, seen: Snapshot) -> Mapping[str, str]:
        """Of those that run and are not ready; nothing where the log cannot be read."""
        found: dict[str, str] = {}
        hidden = [
            value for secret in (*seen.secrets.values(), *_secrets(seen.children)) for value in secret.data.values()
        ]
        for name, pod in seen.pods.items():
            if self._client is not None and is_struggling(pod):
                lines = self._client.logs(name, pod.metadata.namespace, LogOptions(tail_lines=LINES_READ))
                try:
                    found[name] = complaint([line async for line in lines], hidden)
                except KubeError:
                    continue
        return found

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> AccountingStatus:
        accounting = snapshot.object
        message = "slurmdbd runs elsewhere" if accounting.spec.external else "slurmdbd and its database are up"
        said = SUSPENDED if accounting.spec.suspend else verdict(outcome, ready_message=message)
        slurmdbd = slurmdbd_set(snapshot)
        runs = slurmdbd is not None and is_ready(slurmdbd)
        return AccountingStatus(
            observed_generation=accounting.metadata.generation,
            conditions=conditions(accounting, accounting.status.conditions, said, snapshot.now),
            slurm_version=installed(snapshot) if runs else accounting.status.slurm_version,
            controllers=tuple(controller.metadata.name for controller in snapshot.controllers),
        )


def _children(accounting: Accounting, read: Reader) -> tuple[Object, ...]:
    """Ours, and whatever stands under a name that ours should have."""
    name, namespace = accounting.metadata.name, accounting.metadata.namespace
    kinds: tuple[type[Object], ...] = (Secret, Service, StatefulSet)
    more: tuple[type[Object], ...] = (Job, PersistentVolumeClaim)
    owned = [child for kind in kinds + more for child in read.owned(kind, accounting)]
    taken = (names.database_name(name), names.accounting_name(name))
    there = [read.get(kind, one, namespace) for kind in kinds for one in taken]
    return tuple({ref(obj): obj for obj in (*owned, *there) if obj is not None}.values())


def _public_keys(controllers: Iterable[SlurmController], read: Reader) -> Iterable[ConfigMap]:
    for controller in controllers:
        given = controller.spec.jwks_key_ref
        found = read.get(ConfigMap, given.name, controller.metadata.namespace) if given else None
        if found is not None:
            yield found


def _secrets(children: Iterable[Object]) -> Iterable[Secret]:
    return (child for child in children if isinstance(child, Secret))


def _pods(accounting: Accounting, read: Reader) -> Mapping[str, Pod]:
    found = (read.get(Pod, name, accounting.metadata.namespace) for name in _pod_names(accounting))
    return {pod.metadata.name: pod for pod in found if pod is not None}


def _pod_names(accounting: Accounting) -> tuple[str, ...]:
    name = accounting.metadata.name
    return f"{names.database_name(name)}-0", f"{names.accounting_name(name)}-0"


def accounting_of_pod(pod: Pod, read: Reader) -> Iterable[Key]:
    namespace, name = pod.metadata.namespace, pod.metadata.name
    return [Key(namespace, a.metadata.name) for a in read.list(Accounting, namespace) if name in _pod_names(a)]


def _own_secret_names(accounting: Accounting) -> frozenset[str]:
    spec = accounting.spec
    storage = (spec.storage.password_key_ref, spec.storage.ca_key_ref) if spec.storage else ()
    return frozenset(r.name for r in (spec.slurm_key_ref, spec.jwt_key_ref, *storage) if r is not None)


def _key_names(controller: SlurmController) -> frozenset[str]:
    return frozenset((keys.slurm_key_of(controller).name, keys.jwt_key_of(controller).name))


def _secret_names(accounting: Accounting, controllers: Iterable[SlurmController]) -> frozenset[str]:
    return _own_secret_names(accounting).union(*(_key_names(controller) for controller in controllers))


def accountings_with(secret: Secret, read: Reader) -> Iterable[Key]:
    """Those that refer to a Secret, by themselves or by their Controllers."""
    where = (secret.metadata.namespace, secret.metadata.name)
    for accounting in read.by_index(Accounting, "secret", where):
        yield Key(accounting.metadata.namespace, accounting.metadata.name)
    for controller in read.by_index(SlurmController, "key", where):
        yield from accounting_of(controller, read)


def accounting_of(controller: SlurmController, _read: Reader) -> Iterable[Key]:
    return [Key(*place) for place in _accounting_place(controller)]


def _accounting_place(controller: SlurmController) -> Iterable[tuple[str, str]]:
    accounting = controller.spec.accounting_ref
    return ((controller.metadata.namespace, accounting.name),) if accounting else ()


def _key_places(controller: SlurmController) -> Iterable[tuple[str, str]]:
    return [(controller.metadata.namespace, name) for name in sorted(_key_names(controller))]


def accountings_with_public_keys(config_map: ConfigMap, read: Reader) -> Iterable[Key]:
    where = (config_map.metadata.namespace, config_map.metadata.name)
    for controller in read.by_index(SlurmController, "jwks", where):
        yield from accounting_of(controller, read)


def _public_key_places(controller: SlurmController) -> Iterable[tuple[str, str]]:
    given = controller.spec.jwks_key_ref
    return ((controller.metadata.namespace, given.name),) if given else ()


def _secret_places(accounting: Accounting) -> Iterable[tuple[str, str]]:
    """What it refers to, and the names that its own Secrets have: they may be taken, and given free."""
    name = accounting.metadata.name
    own = {names.database_name(name), names.accounting_name(name)}
    return [(accounting.metadata.namespace, secret) for secret in sorted(own | _own_secret_names(accounting))]


def accounting_controller() -> Controller[Accounting, Snapshot]:
    return (
        Controller.for_(Accounting, AccountingReconciler())
        .owns(Secret)
        .owns(Service)
        .owns(StatefulSet)
        .owns(Job, where=MADE_BY_US)
        .owns(PersistentVolumeClaim, where=MADE_BY_US)
        .watches(Pod, to=accounting_of_pod, where=MADE_BY_US)
        .watches(Secret, to=accountings_with)
        .watches(ConfigMap, to=accountings_with_public_keys)
        .watches(SlurmController, to=accounting_of, when=generation_changed)
        .indexes(Accounting, "secret", _secret_places)
        .indexes(SlurmController, "accounting", _accounting_place)
        .indexes(SlurmController, "key", _key_places)
        .indexes(SlurmController, "jwks", _public_key_places)
    )


KINDS = (KindController(Accounting, accounting_controller),)
