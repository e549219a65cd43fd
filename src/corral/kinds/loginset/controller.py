"""The LoginSet's controller: what is watched, and how a Snapshot is gathered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from corral.engine import Controller, Key, KindController, Outcome, Plan, Reader
from corral.kinds import keys, names
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.loginset import hostkeys
from corral.kinds.loginset.plan import FreshKeys, Snapshot, plan, report
from corral.kinds.loginset.render import COMPONENT, host_keys_of
from corral.kinds.loginset.spec import LoginSet, LoginSetStatus
from corral.kinds.versions import spec_or_version_changed
from corral.kube.client import Selector
from corral.kube.meta import Object, ObjectRef, ref
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import ConfigMap, Pod, Secret, Service

OWNED: tuple[type[Object], ...] = (Secret, ConfigMap, Service, Deployment)
LOGIN_PODS = Selector(labels=f"app.kubernetes.io/name={COMPONENT},app.kubernetes.io/managed-by=corral")
FreshHostKeys = Callable[[], Awaitable[Mapping[str, bytes]]]
BY_CONTROLLER = "controller"
BY_HOST_KEYS = "host keys"
INSTANCE = "app.kubernetes.io/instance"


class LoginSetReconciler:
    def __init__(self, fresh_host_keys: FreshHostKeys) -> None:
        self._fresh_host_keys = fresh_host_keys

    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        loginset = read.get(LoginSet, key.name, key.namespace)
        if loginset is None:
            return None
        controller = read.get(SlurmController, loginset.spec.controller_ref.name, key.namespace)
        host_keys = read.get(Secret, host_keys_of(loginset), key.namespace)
        fresh = {} if host_keys or loginset.spec.host_keys_ref else await self._fresh_host_keys()
        slurm_key = keys.slurm_key_of(controller).name if controller else ""
        return Snapshot(
            object=loginset,
            now=read.now,
            controller=controller,
            slurm_key=read.get(Secret, slurm_key, key.namespace) if slurm_key else None,
            people=read.get(ConfigMap, names.identity_name(loginset.spec.controller_ref.name), key.namespace),
            host_keys=host_keys,
            fresh_keys=FreshKeys(fresh),
            children=_children(loginset, read),
            deployment=read.get(Deployment, names.login_name(key.name), key.namespace),
            pods=_pods(loginset, read),
        )

    def plan(self, snapshot: Snapshot, /) -> Plan:
        return plan(snapshot)

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> LoginSetStatus:
        return report(snapshot, outcome)


def _children(loginset: LoginSet, read: Reader) -> tuple[Object, ...]:
    """Ours, and whatever stands under a name that ours should have."""
    name, namespace = loginset.metadata.name, loginset.metadata.namespace
    found: dict[ObjectRef, Object] = {}
    for kind in OWNED:
        called = names.host_keys_name(name) if kind is Secret else names.login_name(name)
        here: tuple[Object, ...] = read.owned(kind, loginset)
        there = read.get(kind, called, namespace)
        found |= {ref(obj): obj for obj in (*here, *((there,) if there is not None else ()))}
    return tuple(found.values())


def _pods(loginset: LoginSet, read: Reader) -> tuple[Pod, ...]:
    where = (loginset.metadata.namespace, names.labels(COMPONENT, loginset.metadata.name)[INSTANCE])
    return tuple(sorted(read.by_index(Pod, INSTANCE, where), key=lambda pod: pod.metadata.name))


def _of_pod(pod: Pod, read: Reader) -> Iterable[Key]:
    namespace, instance = pod.metadata.namespace, pod.metadata.labels.get(INSTANCE, "")
    named = (one.metadata.name for one in read.list(LoginSet, namespace))
    return [Key(namespace, name) for name in named if names.labels(COMPONENT, name)[INSTANCE] == instance]


def _instance_of(pod: Pod) -> Iterable[tuple[str, str]]:
    return ((pod.metadata.namespace, pod.metadata.labels.get(INSTANCE, "")),)


def loginsets_of(controller: SlurmController, read: Reader) -> Iterable[Key]:
    return _under(controller.metadata.namespace, controller.metadata.name, read)


def _under(namespace: str, controller: str, read: Reader) -> Iterable[Key]:
    found = read.by_index(LoginSet, BY_CONTROLLER, (namespace, controller))
    return [Key(namespace, loginset.metadata.name) for loginset in found]


def _of_people(people: ConfigMap, read: Reader) -> Iterable[Key]:
    namespace = people.metadata.namespace
    clusters = (one.metadata.name for one in read.list(SlurmController, namespace))
    named = (name for name in clusters if names.identity_name(name) == people.metadata.name)
    return [key for name in named for key in _under(namespace, name, read)]


def _of_secret(secret: Secret, read: Reader) -> Iterable[Key]:
    """The cluster's key, or host keys that a LoginSet refers to."""
    namespace, name = secret.metadata.namespace, secret.metadata.name
    using = [one for one in read.list(SlurmController, namespace) if keys.slurm_key_of(one).name == name]
    referring = read.by_index(LoginSet, BY_HOST_KEYS, (namespace, name))
    by_cluster = [key for one in using for key in loginsets_of(one, read)]
    return [*by_cluster, *(Key(namespace, one.metadata.name) for one in referring)]


def _controller_of(loginset: LoginSet) -> Iterable[tuple[str, str]]:
    return ((loginset.metadata.namespace, loginset.spec.controller_ref.name),)


def _host_keys_given(loginset: LoginSet) -> Iterable[tuple[str, str]]:
    given = loginset.spec.host_keys_ref
    return ((loginset.metadata.namespace, given.name),) if given else ()


async def generated_in_a_thread() -> Mapping[str, bytes]:
    """Some tenths of a second of computing, which must not hold up the others."""
    return await asyncio.to_thread(hostkeys.generate)


def loginset_controller(fresh_host_keys: FreshHostKeys = generated_in_a_thread) -> Controller[LoginSet, Snapshot]:
    return (
        Controller.for_(LoginSet, LoginSetReconciler(fresh_host_keys))
        .owns(Secret)
        .owns(ConfigMap)
        .owns(Service)
        .owns(Deployment)
        .watches(Pod, to=_of_pod, where=LOGIN_PODS)
        .watches(SlurmController, to=loginsets_of, when=spec_or_version_changed)
        .watches(ConfigMap, to=_of_people)
        .watches(Secret, to=_of_secret)
        .indexes(LoginSet, BY_CONTROLLER, _controller_of)
        .indexes(LoginSet, BY_HOST_KEYS, _host_keys_given)
        .indexes(Pod, INSTANCE, _instance_of)
    )


KINDS = (KindController(LoginSet, loginset_controller, ("lss", "sackd")),)
