"""What an Accounting is made of: a database of its own (unless it has one), and slurmdbd. Pure.

    database    Secret with a generated password (made once), Service, StatefulSet with its data on a volume
    slurmdbd    Secret with slurmdbd.conf, Service with an address of its own, StatefulSet

The Services are ordinary ones: a headless Service has no name while its pod is not ready, and Slurm asks for names that
do not resolve ten times, a second apart. Pods are replaced when what they read at their start changes: the digest in
their annotation is keyed with the cluster's key, so that nobody can try passwords against it.
"""

import hashlib
import hmac
from collections.abc import Mapping

import msgspec

from corral.kinds import names, overrides, versions
from corral.kinds.accounting.configuration import CA_FILE, FILE
from corral.kinds.accounting.dump import claim_spec
from corral.kinds.accounting.spec import Accounting, ManagedDatabase
from corral.kinds.identity import Identity, known_in
from corral.kinds.keys import slurm_key_file
from corral.kinds.parts import KeyRef, PodTemplate
from corral.kinds.parts import Volume as Persistence
from corral.kinds.workloads import (
    CONFIG,
    CONFIG_DIGEST,
    CONFIG_FOLDER,
    KEYS,
    KEYS_FOLDER,
    UNPRIVILEGED,
    answers_on,
    mounted,
    script,
    unprivileged_pod,
)
from corral.kube.meta import EMPTY, ObjectMeta
from corral.kube.models.apps_v1 import StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec
from corral.kube.models.core_v1 import (
    ConfigMapProjection,
    Container,
    ContainerPort,
    EnvVar,
    ExecAction,
    KeyToPath,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ProjectedVolumeSource,
    Secret,
    SecretProjection,
    SecretVolumeSource,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from corral.kube.models.meta_v1 import LabelSelector

SLURMDBD, MARIADB = "slurmdbd", "mariadb"
PASSWORD_KEY = "password"  # noqa: S105 - the name of a key, not a secret
DATABASE, DATABASE_USER = "slurm_acct_db", "slurm"
DATA = "data"
KEYS_MODE = 0o440


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Where slurmdbd's keys are: in Secrets, and public ones (`jwks`) in a ConfigMap."""

    slurm: KeyRef
    jwt: KeyRef
    ca: KeyRef | None = None
    jwks: KeyRef | None = None


class People(msgspec.Struct, frozen=True):
    """Of which cluster slurmdbd knows the people, or it could not tell who asks it for something."""

    cluster: str
    identity: Identity


def password_secret(accounting: Accounting, password: bytes) -> Secret:
    return Secret(metadata=_metadata(MARIADB, accounting), data={PASSWORD_KEY: password}, type="Opaque")


def database_service(accounting: Accounting) -> Service:
    return _service(MARIADB, accounting, names.MYSQL_PORT)


def database(accounting: Accounting, password: bytes) -> StatefulSet:
    """Raises BadOverride."""
    managed = accounting.spec.managed or ManagedDatabase()
    container = Container(
        name=MARIADB,
        image=names.MARIADB_IMAGE,
        command=script("mariadb-run"),
        env=(EnvVar(name="MARIADB_DATABASE", value=DATABASE), EnvVar(name="MARIADB_USER", value=DATABASE_USER)),
        termination_message_policy="FallbackToLogsOnError",
        ports=(ContainerPort(name="mysql", container_port=names.MYSQL_PORT, protocol="TCP"),),
        # No liveness probe: a database that is slow to answer is not mended by killing it.
        readiness_probe=_healthy(period_s=2, failures_max=3),
        security_context=UNPRIVILEGED,
        volume_mounts=(mounted(KEYS, KEYS_FOLDER), VolumeMount(name=DATA, mount_path="/var/lib/mysql")),
    )
    source = SecretVolumeSource(secret_name=names.database_name(accounting.metadata.name), default_mode=KEYS_MODE)
    pod = unprivileged_pod(
        names.MYSQL_UID,
        container,
        Volume(name=KEYS, secret=source),
        writable={"run": "/run/mysqld", "tmp": "/tmp"},  # noqa: S108 - folders of the pod's own
        grace_period_s=60,
    )
    template = _template(MARIADB, accounting, pod, digest(password), managed.template, managed.mariadb)
    return _stateful_set(MARIADB, accounting, template, managed.persistence)


def conf_secret(accounting: Accounting, conf: str) -> Secret:
    return Secret(metadata=_metadata(SLURMDBD, accounting), data={FILE: conf.encode()}, type="Opaque")


def slurmdbd_service(accounting: Accounting) -> Service:
    return overrides.service(_service(SLURMDBD, accounting, names.SLURMDBD_PORT), accounting.spec.service)


def slurmdbd(accounting: Accounting, keys: Keys, config_digest: str, people: People | None = None) -> StatefulSet:
    """Raises BadOverride."""
    container = Container(
        name=SLURMDBD,
        image=names.slurm_image(accounting.spec.version),
        command=script("slurmdbd-run"),
        termination_message_policy="FallbackToLogsOnError",
        ports=(ContainerPort(name=SLURMDBD, container_port=names.SLURMDBD_PORT, protocol="TCP"),),
        readiness_probe=answers_on(names.SLURMDBD_PORT, period_s=1, failures_max=5),
        security_context=UNPRIVILEGED,
        volume_mounts=(mounted(CONFIG, CONFIG_FOLDER), mounted(KEYS, KEYS_FOLDER)),
    )
    conf = SecretVolumeSource(secret_name=names.accounting_name(accounting.metadata.name), default_mode=KEYS_MODE)
    pod = unprivileged_pod(
        names.SLURM_UID,
        container,
        Volume(name=CONFIG, secret=conf),
        Volume(name=KEYS, projected=ProjectedVolumeSource(default_mode=KEYS_MODE, sources=_projected(keys))),
        writable={"etc-slurm": "/etc/slurm", "run": "/run/slurmdbd", "tmp": "/tmp"},  # noqa: S108 - the pod's own
        grace_period_s=30,
    )
    theirs, daemon = accounting.spec.template, accounting.spec.slurmdbd
    if people is not None:
        pod = known_in(pod, people.cluster, people.identity, container=SLURMDBD, theirs=daemon)
    at_version = {versions.LABEL: accounting.spec.version}
    template = _template(SLURMDBD, accounting, pod, config_digest, theirs, daemon, at_version)
    return _stateful_set(SLURMDBD, accounting, template, None)


def digest(key: bytes, *texts: bytes) -> str:
    """Tells one state of secrets from another, and nothing to anyone who has not got `key`."""
    keyed = hmac.new(key, digestmod=hashlib.sha256)
    for text in texts:
        keyed.update(len(text).to_bytes(8, "big") + text)
    return keyed.hexdigest()[:16]


def _projected(keys: Keys) -> tuple[VolumeProjection, ...]:
    files = [
        (keys.slurm, slurm_key_file(keys.slurm)),
        (keys.jwt, names.JWT_KEY),
        *([(keys.ca, CA_FILE)] if keys.ca else []),
    ]
    found = [
        VolumeProjection(secret=SecretProjection(name=ref.name, items=(KeyToPath(key=ref.key, path=path),)))
        for ref, path in files
    ]
    if keys.jwks is not None:
        items = (KeyToPath(key=keys.jwks.key, path=names.JWKS),)
        found.append(VolumeProjection(config_map=ConfigMapProjection(name=keys.jwks.name, items=items)))
    return tuple(found)


def _healthy(*, period_s: int, failures_max: int) -> Probe:
    command = ExecAction(command=("/usr/libexec/corral/mariadb-health",))
    return Probe(
        exec=command, period_seconds=period_s, failure_threshold=failures_max, timeout_seconds=5, success_threshold=1
    )


def _template(
    component: str,
    accounting: Accounting,
    pod: PodSpec,
    config_digest: str,
    theirs: PodTemplate,
    daemon: Mapping[str, object],
    labels: Mapping[str, str] = EMPTY,
) -> PodTemplateSpec:
    ours_labels = {**_labels(component, accounting), **labels}
    metadata = ObjectMeta(labels=ours_labels, annotations={CONFIG_DIGEST: config_digest})
    ours = PodTemplateSpec(metadata=metadata, spec=pod)
    field = "spec.managed" if component == MARIADB else "spec"
    found: PodTemplateSpec = overrides.pod_template(ours, theirs, container=component, daemon=daemon, field=field)
    return found


def _stateful_set(
    component: str, accounting: Accounting, template: PodTemplateSpec, persistence: Persistence | None
) -> StatefulSet:
    metadata = _metadata(component, accounting)
    if persistence is not None and persistence.existing_claim and template.spec is not None:
        claimed = PersistentVolumeClaimVolumeSource(claim_name=persistence.existing_claim)
        volumes = (*template.spec.volumes, Volume(name=DATA, persistent_volume_claim=claimed))
        template = msgspec.structs.replace(template, spec=msgspec.structs.replace(template.spec, volumes=volumes))
    makes_claim = persistence is not None and not persistence.existing_claim
    spec = StatefulSetSpec(
        replicas=1,
        # In order, a pod that never becomes ready is never replaced, not even by a template that would mend it.
        pod_management_policy="Parallel",
        service_name=metadata.name,
        selector=LabelSelector(match_labels=_labels(component, accounting)),
        template=template,
        persistent_volume_claim_retention_policy=StatefulSetPersistentVolumeClaimRetentionPolicy(
            when_deleted="Retain", when_scaled="Retain"
        ),
        volume_claim_templates=(_claim(persistence),) if persistence is not None and makes_claim else (),
    )
    return StatefulSet(metadata=metadata, spec=spec)


def _claim(persistence: Persistence) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(metadata=ObjectMeta(name=DATA), spec=claim_spec(persistence))


def _service(component: str, accounting: Accounting, port: int) -> Service:
    only = ServicePort(name=component, port=port, target_port=port, protocol="TCP")
    # Whoever connects too early waits at the port or is refused and tries again; a probe's period would cost more.
    spec = ServiceSpec(
        ports=(only,), selector=_labels(component, accounting), type="ClusterIP", publish_not_ready_addresses=True
    )
    return Service(metadata=_metadata(component, accounting), spec=spec)


def _labels(component: str, accounting: Accounting) -> Mapping[str, str]:
    return names.labels(component, accounting.metadata.name)


def _metadata(component: str, accounting: Accounting) -> ObjectMeta:
    name = accounting.metadata.name
    called = names.database_name(name) if component == MARIADB else names.accounting_name(name)
    return ObjectMeta(name=called, labels=_labels(component, accounting))
