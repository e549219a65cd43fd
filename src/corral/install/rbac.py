"""What the operator may do, derived from what its controllers declare. Pure.

    the kind itself     read; write its status; hold its deletion back where the controller has a finalizer
    what it owns        read and write
    what it watches     read

What no declaration tells stands in ACTS: writes to objects of others, programs run in pods, events. The Lease is
granted in the operator's own namespace only. Nothing else is granted.
"""

from collections.abc import Iterable, Iterator

import msgspec

from corral.engine.controller import AnyController
from corral.engine.definitions import Definition
from corral.engine.manager import LeaseAddress
from corral.kinds.wukong.api.kubevirt import VirtualMachineInstance
from corral.kinds.wukong.power import INSTANCES
from corral.kube.crd import crd_of
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.authorization_v1 import SubjectAccessReview
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import PersistentVolumeClaim, Pod
from corral.kube.models.events_v1 import Event
from corral.kube.models.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject

NAMESPACE = "corral-system"
NAME = "corral"  # of the service account, the role and the binding
API_GROUP = "rbac.authorization.k8s.io"

READ = frozenset({"get", "list", "watch"})
OWN = READ | {"create", "patch", "delete"}  # an apply is a patch, and a create where there was nothing
EDIT = OWN | {"update", "deletecollection"}


class Grant(msgspec.Struct, frozen=True):
    group: str
    resource: str  # a plural, and a subresource behind a slash
    verbs: frozenset[str]


def grant(resource: Resource, verbs: Iterable[str], subresource: str = "") -> Grant:
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Grant(resource.group, name, frozenset(verbs))


ACTS = (
    grant(Pod.resource, ("patch",)),  # an annotation makes kubelet renew mounted files at once
    grant(Pod.resource, ("patch",), "status"),  # what Slurm says of a worker, as conditions of its pod
    # To ask slurmctld and to deliver files. Over a WebSocket exec is a `get` until Kubernetes 1.34, later a `create`.
    grant(Pod.resource, ("get", "create"), "exec"),
    grant(Pod.resource, ("get",), "log"),  # why a database or slurmdbd is not ready
    # Of /home, which is nobody's child and stays; and of workers, whose retention policy says when they go.
    grant(PersistentVolumeClaim.resource, ("create", "delete")),
    grant(Event.resource, ("create", "patch")),  # a patch counts what is repeated
    # A guest whose disks are snapshot one by one; actions of KubeVirt are updates.
    grant(INSTANCES, ("update",), "freeze"),
    grant(INSTANCES, ("update",), "unfreeze"),
    grant(SubjectAccessReview.resource, ("create",)),  # whether a disk of another namespace may be copied
    grant(VirtualMachineInstance.resource, ("delete",)),  # of a deleted Wukong, let loose when its machine was deleted
)


def granted(controllers: Iterable[AnyController]) -> tuple[Grant, ...]:
    """Everything in the whole cluster, one Grant a resource, in a stable order."""
    declared = [each for controller in controllers for each in declared_by(controller)]
    return merged((*declared, *ACTS))


def declared_by(controller: AnyController) -> Iterator[Grant]:
    own = controller.kind.resource
    yield grant(own, ("patch",), "status")
    yield grant(
        own, ("update",), "finalizers"
    )  # asked for by servers that guard blockOwnerDeletion in owner references
    if controller.finalizer_name:
        yield grant(own, ("patch",))
    for watch in controller.watched:
        yield grant(watch.kind.resource, OWN if watch.owned else READ)
        if watch.optional:
            yield grant(Definition.resource, ("list", "watch"))  # tells when the kind comes to be served


def merged(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    verbs: dict[tuple[str, str], frozenset[str]] = {}
    for each in grants:
        place = (each.group, each.resource)
        verbs[place] = verbs.get(place, frozenset()) | each.verbs
    return tuple(Grant(group, resource, verbs[group, resource]) for group, resource in sorted(verbs))


def operator_objects(controllers: Iterable[AnyController]) -> tuple[Object, ...]:
    """The operator's rights: in the whole cluster, and for the Lease in its own namespace."""
    rules = _rules(granted(controllers))
    here = ObjectMeta(name=NAME, namespace=NAMESPACE)
    account = (Subject(kind="ServiceAccount", name=NAME, namespace=NAMESPACE),)
    return (
        ClusterRole(metadata=ObjectMeta(name=NAME), rules=rules),
        ClusterRoleBinding(
            metadata=ObjectMeta(name=NAME),
            role_ref=RoleRef(api_group=API_GROUP, kind="ClusterRole", name=NAME),
            subjects=account,
        ),
        Role(metadata=here, rules=_lease_rules()),
        RoleBinding(metadata=here, role_ref=RoleRef(api_group=API_GROUP, kind="Role", name=NAME), subjects=account),
    )


def namespaced_objects(controllers: Iterable[AnyController], namespace: str) -> tuple[Object, ...]:
    """The rights of an operator that runs in one namespace and for it alone: beyond it, only reading what has none."""
    builders = tuple(controllers)
    wide = {
        (watch.kind.resource.group, watch.kind.resource.plural)
        for controller in builders
        for watch in controller.watched
        if not watch.kind.resource.namespaced
    } | {(kind.resource.group, kind.resource.plural) for kind in (Definition, SubjectAccessReview)}
    grants = granted(builders)
    inside = [each for each in grants if (each.group, each.resource) not in wide]
    beyond = [each for each in grants if (each.group, each.resource) in wide]
    here, name = ObjectMeta(name=NAME, namespace=namespace), f"{NAME}-{namespace}"
    account = (Subject(kind="ServiceAccount", name=NAME, namespace=namespace),)
    return (
        ClusterRole(metadata=ObjectMeta(name=name), rules=_rules(beyond)),
        ClusterRoleBinding(
            metadata=ObjectMeta(name=name),
            role_ref=RoleRef(api_group=API_GROUP, kind="ClusterRole", name=name),
            subjects=account,
        ),
        Role(metadata=here, rules=(*_rules(inside), *_lease_rules())),
        RoleBinding(metadata=here, role_ref=RoleRef(api_group=API_GROUP, kind="Role", name=NAME), subjects=account),
    )


def people_objects(kinds: Iterable[type[Object]]) -> tuple[Object, ...]:
    """For people: who may view or edit a namespace may do so with our kinds in it. Kinds of the cluster are admins'."""
    ours = tuple(kinds)
    view = [grant(kind.resource, READ) for kind in ours]
    edit = [grant(kind.resource, EDIT) for kind in ours if kind.resource.namespaced]
    scale = [grant(kind.resource, ("get", "update", "patch"), "scale") for kind in ours if _scales(kind)]
    return _people("view", ("view",), view), _people("edit", ("edit", "admin"), (*edit, *scale))


def _people(name: str, roles: tuple[str, ...], grants: Iterable[Grant]) -> ClusterRole:
    labels = {f"{API_GROUP}/aggregate-to-{role}": "true" for role in roles}
    return ClusterRole(metadata=ObjectMeta(name=f"{NAME}-{name}", labels=labels), rules=_rules(merged(grants)))


def _scales(kind: type[Object]) -> bool:
    served = [version.subresources for version in crd_of(kind).spec.versions]
    return any(subresources is not None and subresources.scale is not None for subresources in served)


def _lease_rules() -> tuple[PolicyRule, ...]:
    """A name cannot be asked for when something is made."""
    lease, address = Lease.resource, LeaseAddress(NAMESPACE)
    return (
        *_rules((grant(lease, ("create",)),)),
        PolicyRule(
            api_groups=(lease.group,), resources=(lease.plural,), resource_names=(address.name,), verbs=("get", "patch")
        ),
    )


def _rules(grants: Iterable[Grant]) -> tuple[PolicyRule, ...]:
    """What may be done alike in one group is one rule."""
    resources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in grants:
        resources.setdefault((each.group, tuple(sorted(each.verbs))), []).append(each.resource)
    return tuple(
        PolicyRule(api_groups=(group,), resources=tuple(names), verbs=verbs)
        for (group, verbs), names in sorted(resources.items())
    )
