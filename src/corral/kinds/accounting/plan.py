"""The Accounting's decision. Pure.

The database and slurmdbd are planned apart, so that the one is made while the other still waits for its keys. What
cannot be decided yet (a key is missing, an extra line is refused) is left as it is: what runs goes on.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from corral.engine import NOTHING, Once, Plan, Wait, children
from corral.engine.actions import is_controlled_by
from corral.kinds import keys as key_places
from corral.kinds import names, versions
from corral.kinds.accounting import dump, render
from corral.kinds.accounting.configuration import ConfRefused, Storage, slurmdbd_conf
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller
from corral.kinds.identity import NOBODY
from corral.kinds.overrides import BadOverride
from corral.kinds.parts import KeyRef
from corral.kinds.telling import trouble
from corral.kinds.workloads import container_trouble
from corral.kube.meta import EMPTY, Object, ObjectRef, ref
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.batch_v1 import Job
from corral.kube.models.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret

LOOK_AGAIN_S = 10.0
# Told after the database, which takes longer: in a cluster that is being made these are over in a moment, and a status
# that turns for a moment helps nobody.
_MADE_MEANWHILE = frozenset({"SecretMissing", "PasswordMissing"})
COMPLAINT_CHARS_MAX = 300
_COMPLAINT = re.compile(r"\b(error|fatal)\b", re.IGNORECASE)
_AGAIN = "Trying again in"  # follows every complaint about the database, and says nothing of its own
_TIME = re.compile(r"^(\[[0-9T:. -]+\]|[0-9-]+ +[0-9:]+ \d+) *")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`children`: ours, and whatever stands under a name that ours should have. `secrets`, `config_maps`: what is
    referred to."""

    object: Accounting
    now: datetime
    controllers: tuple[Controller, ...] = ()
    secrets: Mapping[str, Secret] = EMPTY
    config_maps: Mapping[str, ConfigMap] = EMPTY
    children: tuple[Object, ...] = ()
    pods: Mapping[str, Pod] = EMPTY  # of the StatefulSets, by name
    last_words: Mapping[str, str] = EMPTY  # what a pod that runs and is not ready complained of last
    fresh_password: bytes = b""

    def __repr__(self) -> str:
        return f"<Snapshot of {ref(self.object)}>"


class Undecided(Exception):
    """A part cannot be planned now, and why."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(wait.message)
        self.wait = wait


def plan(snapshot: Snapshot) -> Plan:
    accounting = snapshot.object
    if accounting.metadata.deletion_timestamp is not None or accounting.spec.suspend:
        return NOTHING
    if accounting.spec.external is not None:
        return children(accounting, (), snapshot.children)
    desired: list[Object | Once] = []
    waits: list[Wait] = []
    held: set[ObjectRef] = set()
    step = version_step(snapshot)
    for part, refs in (
        (_database, _database_refs(accounting)),
        (_door, _door_refs(accounting)),
        (_dump, _dump_refs(snapshot)),
        (_slurmdbd, _slurmdbd_refs(accounting)),
    ):
        try:
            desired += part(snapshot, step)
        except Undecided as undecided:
            waits.append(undecided.wait)
            held |= refs
        except BadOverride as error:
            waits.append(Wait(reason="BadOverride", message=str(error), stalled=True))
            held |= refs
    made = children(accounting, desired, [child for child in snapshot.children if ref(child) not in held])
    ready = _readiness(snapshot)
    ordered = sorted((*waits, *step.waits, *ready.waits), key=lambda wait: wait.reason in _MADE_MEANWHILE)
    whole = made + msgspec.structs.replace(ready, waits=tuple(ordered))
    return trouble(accounting, accounting.status.conditions, whole) + whole


def version_step(snapshot: Snapshot) -> versions.Step:
    accounting, running = snapshot.object, installed(snapshot)
    name = names.dump_name(accounting.metadata.name, running)
    job = next((c for c in snapshot.children if isinstance(c, Job) and c.metadata.name == name), None)
    return versions.slurmdbd(accounting, running, job, name)


def installed(snapshot: Snapshot) -> str:
    """The version that slurmdbd was told to run last; empty before the first time."""
    accounting = snapshot.object
    found = slurmdbd_set(snapshot)
    told = found.spec.template.metadata.labels.get(versions.LABEL, "") if found is not None else ""
    return told or versions.release(accounting.status.slurm_version)


def slurmdbd_set(snapshot: Snapshot) -> StatefulSet | None:
    name = names.accounting_name(snapshot.object.metadata.name)
    ours = (c for c in snapshot.children if isinstance(c, StatefulSet) and is_controlled_by(c, snapshot.object))
    return next((one for one in ours if one.metadata.name == name), None)


def _database(snapshot: Snapshot, _step: versions.Step) -> tuple[Object | Once, ...]:
    accounting = snapshot.object
    if accounting.spec.storage is not None:
        return ()
    password = generated_password(snapshot) or snapshot.fresh_password
    return (
        Once(render.password_secret(accounting, password)),
        render.database_service(accounting),
        render.database(accounting, password),
    )


def _door(snapshot: Snapshot, _step: versions.Step) -> tuple[Object | Once, ...]:
    """Made before slurmdbd itself: a slurmctld that finds the name need not ask for it ten times."""
    return (render.slurmdbd_service(snapshot.object),)


def _dump(snapshot: Snapshot, step: versions.Step) -> tuple[Object | Once, ...]:
    """Files that were written once stay; the Job is there while slurmdbd waits for it."""
    accounting = snapshot.object
    claim = dump.claim(accounting)
    kept = any(isinstance(child, PersistentVolumeClaim) for child in snapshot.children)  # none of these is pruned
    found: tuple[Object | Once, ...] = (Once(claim),) if claim is not None and (kept or step.dumps) else ()
    if not step.dumps:
        return found
    job = dump.job(accounting, step.version, _storage(snapshot), _password_ref(accounting))
    return (*found, Once(job))


def _slurmdbd(snapshot: Snapshot, step: versions.Step) -> tuple[Object | Once, ...]:
    spec = msgspec.structs.replace(snapshot.object.spec, version=step.version)
    accounting = msgspec.structs.replace(snapshot.object, spec=spec)
    keys = _keys(snapshot)
    slurm_key, jwt_key = _value(snapshot, keys.slurm, "slurm key"), _value(snapshot, keys.jwt, "JWT key")
    authority = _value(snapshot, keys.ca, "database's CA certificate") if keys.ca else b""
    public = _public_keys(snapshot, keys.jwks) if keys.jwks else b""
    try:
        conf = slurmdbd_conf(accounting, _storage(snapshot), has_jwks=bool(public))
    except ConfRefused as error:
        raise Undecided(Wait(reason="ConfigRefused", message=str(error), stalled=True)) from None
    return (
        render.conf_secret(accounting, conf),
        render.slurmdbd(
            accounting, keys, render.digest(slurm_key, jwt_key, authority, conf.encode(), public), _people(snapshot)
        ),
    )


def _people(snapshot: Snapshot) -> render.People | None:
    """Of the cluster that has any. slurmdbd has one list: of several clusters, the first by name counts."""
    clusters = sorted(snapshot.controllers, key=lambda one: (one.spec.identity == NOBODY, one.metadata.name))
    return render.People(clusters[0].metadata.name, clusters[0].spec.identity) if clusters else None


def _keys(snapshot: Snapshot) -> render.Keys:
    spec = snapshot.object.spec
    storage = spec.storage
    oldest_first = sorted(snapshot.controllers, key=_age_and_name)
    public = [given for one in oldest_first if (given := one.spec.jwks_key_ref)]
    return render.Keys(
        slurm=spec.slurm_key_ref or _common(snapshot, "slurmKeyRef", [*map(key_places.slurm_key_of, oldest_first)]),
        jwt=spec.jwt_key_ref or _common(snapshot, "jwtKeyRef", [*map(key_places.jwt_key_of, oldest_first)]),
        ca=storage.ca_key_ref if storage is not None else None,
        jwks=_common(snapshot, "jwksKeyRef", public) if public else None,
    )


def _age_and_name(controller: Controller) -> tuple[float, str]:
    born = controller.metadata.creation_timestamp
    return (born.timestamp() if born else 0.0, controller.metadata.name)


def _common(snapshot: Snapshot, field: str, refs: list[KeyRef]) -> KeyRef:
    """The key of all Controllers that refer to this Accounting, the oldest first: slurmdbd has one."""
    if not refs:
        message = (
            f"waiting for a Controller with accountingRef {ref(snapshot.object)}, to use its key; or set spec.{field}"
        )
        raise Undecided(Wait(reason="NoController", message=message))
    if any(other != refs[0] for other in refs):
        who = ", ".join(controller.metadata.name for controller in snapshot.controllers)
        one = f"{{name: {refs[0].name}, key: {refs[0].key}}}"
        differ = f"the Controllers {who} have different keys, and slurmdbd can use only one"
        message = f"{differ}: set the same {field} in all: {one}"
        raise Undecided(Wait(reason="KeysDiffer", message=message, stalled=True))
    return refs[0]


def _value(snapshot: Snapshot, wanted: KeyRef, what: str) -> bytes:
    namespace, secret = snapshot.object.metadata.namespace, snapshot.secrets.get(wanted.name)
    absent = key_places.missing(wanted, namespace, secret)
    if absent or secret is None:
        on = ObjectRef("Secret", namespace, wanted.name)
        raise Undecided(Wait(reason="SecretMissing", message=f"waiting for the {what}: {absent}", on=on))
    return secret.data[wanted.key]


def _public_keys(snapshot: Snapshot, wanted: KeyRef) -> bytes:
    found = snapshot.config_maps.get(wanted.name)
    text = found.data.get(wanted.key, "") if found else ""
    if not text:
        on = ObjectRef("ConfigMap", snapshot.object.metadata.namespace, wanted.name)
        message = f"waiting for the public keys of RS256 tokens: key {wanted.key!r} in {on}"
        raise Undecided(Wait(reason="ReferenceMissing", message=message, on=on))
    return text.encode()


def _storage(snapshot: Snapshot) -> Storage:
    accounting = snapshot.object
    given = accounting.spec.storage
    if given is None:
        password = generated_password(snapshot)
        if not password:
            on = ObjectRef("Secret", accounting.metadata.namespace, names.database_name(accounting.metadata.name))
            raise Undecided(
                Wait(reason="PasswordMissing", message=f"waiting for {on} with the generated password", on=on)
            )
        return Storage(
            host=f"{names.database_name(accounting.metadata.name)}.{accounting.metadata.namespace}",
            port=names.MYSQL_PORT,
            database=render.DATABASE,
            username=render.DATABASE_USER,
            password=password.decode(),
        )
    password = _value(snapshot, given.password_key_ref, "database's password")
    try:
        text = password.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise ConfRefused("the database's password is not UTF-8 text: set another password") from None
    return Storage(
        host=given.host,
        port=given.port,
        database=given.database,
        username=given.username,
        password=text,
        encrypted=given.ca_key_ref is not None,
    )


def _password_ref(accounting: Accounting) -> KeyRef:
    given = accounting.spec.storage
    if given is not None:
        return given.password_key_ref
    return KeyRef(name=names.database_name(accounting.metadata.name), key=render.PASSWORD_KEY)


def generated_password(snapshot: Snapshot) -> bytes:
    """What is in our own Secret, empty when there is none: what the server has counts, never what we thought of."""
    at = _ref("Secret", snapshot.object, names.database_name(snapshot.object.metadata.name))
    for child in snapshot.children:
        if ref(child) == at and isinstance(child, Secret) and is_controlled_by(child, snapshot.object):
            return child.data.get(render.PASSWORD_KEY, b"")
    return b""


def _readiness(snapshot: Snapshot) -> Plan:
    """The pods, as their StatefulSets tell of them; their changes bring us back. The database is waited for at once."""
    accounting = snapshot.object
    sets = {ref(c): c for c in snapshot.children if isinstance(c, StatefulSet) and is_controlled_by(c, accounting)}
    database = _ref("StatefulSet", accounting, names.database_name(accounting.metadata.name))
    waits = []
    for on, found in ({database: None} | sets if accounting.spec.storage is None else sets).items():
        if found is None or not is_ready(found):
            what, reason = ("the database", "DatabaseNotReady") if on == database else ("slurmdbd", "SlurmdbdNotReady")
            why = _why_not(snapshot, pod_of(found)) if found else ""
            waits.append(Wait(reason=reason, message=f"{what} is not ready yet ({on}){why}", on=on))
    again_s = LOOK_AGAIN_S if any(is_struggling(pod) for pod in snapshot.pods.values()) else None
    return Plan(waits=tuple(sorted(waits, key=lambda wait: wait.reason)), again_after_s=again_s)


def _why_not(snapshot: Snapshot, pod_name: str) -> str:
    pod, words = snapshot.pods.get(pod_name), snapshot.last_words.get(pod_name, "")
    if pod is None:
        return ""
    return container_trouble(pod) or (f": {words}" if words else "")


def pod_of(stateful_set: StatefulSet) -> str:
    return f"{stateful_set.metadata.name}-0"


def is_struggling(pod: Pod) -> bool:
    """Its container runs and is not ready: no event tells why, only what it writes does."""
    return any(status.state.running is not None and not status.ready for status in pod.status.container_statuses)


def complaint(lines: Iterable[str], secrets: Iterable[bytes]) -> str:
    """The last line that complains, without its time, and without what nobody may read."""
    found = [line for line in lines if _COMPLAINT.search(line) and _AGAIN not in line]
    said = _TIME.sub("", found[-1]).strip() if found else ""
    for secret in secrets:
        text = secret.decode(errors="replace").strip()
        said = said.replace(text, "***") if text else said
    return said[:COMPLAINT_CHARS_MAX]


def is_ready(stateful_set: StatefulSet) -> bool:
    status, wanted = stateful_set.status, stateful_set.spec.replicas or 0
    current = status.observed_generation >= stateful_set.metadata.generation and status.updated_replicas >= wanted
    return current and status.ready_replicas >= wanted


def _database_refs(accounting: Accounting) -> frozenset[ObjectRef]:
    name = names.database_name(accounting.metadata.name)
    return frozenset(_ref(kind, accounting, name) for kind in ("Secret", "Service", "StatefulSet"))


def _door_refs(accounting: Accounting) -> frozenset[ObjectRef]:
    return frozenset({_ref("Service", accounting, names.accounting_name(accounting.metadata.name))})


def _dump_refs(snapshot: Snapshot) -> frozenset[ObjectRef]:
    return frozenset(ref(child) for child in snapshot.children if isinstance(child, Job | PersistentVolumeClaim))


def _slurmdbd_refs(accounting: Accounting) -> frozenset[ObjectRef]:
    name = names.accounting_name(accounting.metadata.name)
    return frozenset(_ref(kind, accounting, name) for kind in ("Secret", "StatefulSet"))


def _ref(kind: str, accounting: Accounting, name: str) -> ObjectRef:
    return ObjectRef(kind, accounting.metadata.namespace, name)
