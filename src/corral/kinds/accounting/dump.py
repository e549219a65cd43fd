"""The dump of the database before a newer slurmdbd converts it: a volume for such files, and the Job that writes one.

The volume is made with the first dump and stays as long as the Accounting does; the Job goes when slurmdbd is newer.
"""

from corral.kinds import names
from corral.kinds.accounting.configuration import CA_FILE, Storage
from corral.kinds.accounting.spec import Accounting
from corral.kinds.parts import KeyRef
from corral.kinds.parts import Volume as Persistence
from corral.kinds.workloads import KEYS, KEYS_FOLDER, UNPRIVILEGED, mounted, script, unprivileged_pod
from corral.kube.meta import ObjectMeta
from corral.kube.models.batch_v1 import Job, JobSpec
from corral.kube.models.core_v1 import (
    Container,
    EnvVar,
    KeyToPath,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PodTemplateSpec,
    ProjectedVolumeSource,
    SecretProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
    VolumeResourceRequirements,
)

COMPONENT = "mariadb-dump"
DUMPS, DUMPS_FOLDER = "dumps", "/dumps"
PASSWORD_FILE = "password"  # noqa: S105 - the name of a file, not a secret
ATTEMPTS_MAX = 4
KEYS_MODE = 0o440


def claim(accounting: Accounting) -> PersistentVolumeClaim | None:
    """None where the user has one."""
    wanted = accounting.spec.dumps
    if wanted.existing_claim:
        return None
    name = names.dumps_name(accounting.metadata.name)
    return PersistentVolumeClaim(metadata=_metadata(accounting, name), spec=claim_spec(wanted))


def claim_spec(persistence: Persistence) -> PersistentVolumeClaimSpec:
    return PersistentVolumeClaimSpec(
        access_modes=persistence.access_modes,
        storage_class_name=persistence.storage_class_name or None,
        resources=VolumeResourceRequirements(requests={"storage": persistence.size}),
    )


def job(accounting: Accounting, version: str, storage: Storage, password: KeyRef) -> Job:
    """Writes `DATABASE-VERSION.sql.gz`: what the slurmdbd of this version can read."""
    container = Container(
        name=COMPONENT,
        image=names.MARIADB_IMAGE,
        command=script("mariadb-dump-run"),
        env=(
            EnvVar(name="DUMP_NAME", value=f"{storage.database}-{version}"),
            EnvVar(name="DUMP_HOST", value=storage.host),
            EnvVar(name="DUMP_PORT", value=str(storage.port)),
            EnvVar(name="DUMP_USER", value=storage.username),
            EnvVar(name="DUMP_DATABASE", value=storage.database),
        ),
        security_context=UNPRIVILEGED,
        termination_message_policy="FallbackToLogsOnError",
        volume_mounts=(mounted(KEYS, KEYS_FOLDER), VolumeMount(name=DUMPS, mount_path=DUMPS_FOLDER)),
    )
    ca = accounting.spec.storage.ca_key_ref if accounting.spec.storage else None
    files = [(password, PASSWORD_FILE), *([(ca, CA_FILE)] if ca else [])]
    keys = tuple(
        VolumeProjection(secret=SecretProjection(name=ref.name, items=(KeyToPath(key=ref.key, path=path),)))
        for ref, path in files
    )
    name = accounting.metadata.name
    claimed = accounting.spec.dumps.existing_claim or names.dumps_name(name)
    pod = unprivileged_pod(
        names.MYSQL_UID,
        container,
        Volume(name=KEYS, projected=ProjectedVolumeSource(default_mode=KEYS_MODE, sources=keys)),
        Volume(name=DUMPS, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claimed)),
        writable={"tmp": "/tmp"},  # noqa: S108 - a folder of the pod's own
        grace_period_s=5,
        restart_policy="Never",
    )
    template = PodTemplateSpec(metadata=ObjectMeta(labels=names.labels(COMPONENT, name)), spec=pod)
    return Job(
        metadata=_metadata(accounting, names.dump_name(name, version)),
        spec=JobSpec(template=template, backoff_limit=ATTEMPTS_MAX - 1),
    )


def _metadata(accounting: Accounting, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, labels=names.labels(COMPONENT, accounting.metadata.name))
