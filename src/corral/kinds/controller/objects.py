"""The objects of one Controller: services, keys, files, the stateful set of slurmctld. Pure; one object, one function.

The configuration is mounted from a fixed number of ConfigMaps, most of them optional and usually absent, so that more
or larger files never change the pod. Nothing about the configuration is in the pod's template either: a change of it
must not restart slurmctld. What must, is marked there (`RESTART`).
"""

import hashlib
from collections.abc import Iterator, Mapping

from corral.kinds import endpoints, names, overrides, versions
from corral.kinds.controller.files import CONFIG_DIR, DIGEST_FILE, KEYS_DIR, STATE_DIR, Files
from corral.kinds.controller.spec import Controller
from corral.kinds.identity import known_in
from corral.kinds.keys import jwt_key_of, slurm_key_file, slurm_key_of
from corral.kinds.parts import GROUP
from corral.kinds.workloads import DAEMON_RESOURCES
from corral.kube.meta import EMPTY, ObjectMeta
from corral.kube.models.apps_v1 import (
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
)
from corral.kube.models.core_v1 import (
    Capabilities,
    ConfigMap,
    ConfigMapProjection,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    HostAlias,
    HTTPGetAction,
    KeyToPath,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    PodDNSConfig,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ProjectedVolumeSource,
    SeccompProfile,
    Secret,
    SecretProjection,
    SecurityContext,
    Service,
    ServicePort,
    ServiceSpec,
    TCPSocketAction,
    Volume,
    VolumeMount,
    VolumeProjection,
    VolumeResourceRequirements,
)
from corral.kube.models.meta_v1 import LabelSelector

COMPONENT = "slurmctld"
RESTART = f"{GROUP}/restart"  # on ConfigMap and pod template: the configuration that needed a restart, or none
KEYS = f"{GROUP}/keys"  # on the pod template: which plain slurm key the pod was started with
DELIVERED = f"{GROUP}/config"  # on the pod: changing it makes kubelet look at the mounted files at once

CONFIG_MAPS_MAX = 4
CONFIG_MAP_BYTES_MAX = 900 * 1024  # the server holds 1 MiB, all names and annotations included

# An empty state waits for slurmdbd, which waits for its database: a first start may take minutes.
START_S_MAX = 900
GRACE_S = 60


def slurmctld_labels(controller: Controller) -> Mapping[str, str]:
    name = controller.metadata.name
    return names.labels(COMPONENT, name, cluster=name)


def service(controller: Controller) -> Service:
    """An ordinary one: a name that does not resolve costs every daemon 10 s and more.

    Also before it is ready: slurmctld itself is addressed by this name, by its own pod too.
    """
    labels, port = slurmctld_labels(controller), endpoints.slurmctld(controller).port
    ours = Service(
        metadata=ObjectMeta(name=names.controller_name(controller.metadata.name), labels=labels),
        spec=ServiceSpec(
            selector=labels,
            publish_not_ready_addresses=True,
            ports=(
                ServicePort(
                    name=COMPONENT,
                    port=port,
                    protocol="TCP",
                    target_port=port,
                ),
            ),
        ),
    )
    return overrides.service(ours, controller.spec.service)


def workers_service(controller: Controller) -> Service:
    """Headless: every worker of every NodeSet is found by its host name."""
    name = controller.metadata.name
    labels = names.labels("slurmd", name, cluster=name)
    selector = {"app.kubernetes.io/name": "slurmd", names.CLUSTER_LABEL: labels[names.CLUSTER_LABEL]}
    return Service(
        metadata=ObjectMeta(name=names.workers_name(name), labels=labels),
        spec=ServiceSpec(
            cluster_ip="None",
            selector=selector,
            publish_not_ready_addresses=True,
            ports=(ServicePort(name="slurmd", port=names.SLURMD_PORT, protocol="TCP", target_port=names.SLURMD_PORT),),
        ),
    )


def key_secret(
    name: str, key: str, value: bytes, controller: Controller, *, annotations: Mapping[str, str] = EMPTY
) -> Secret:
    metadata = ObjectMeta(name=name, labels=slurmctld_labels(controller), annotations=annotations)
    return Secret(metadata=metadata, data={key: value})


class TooLarge(ValueError):
    """The files do not fit into the ConfigMaps that the pod mounts."""


def config_maps(controller: Controller, files: Files, restart: str) -> tuple[ConfigMap, ...]:
    """The files, in as few ConfigMaps as hold them; the digest is in the first, which is always there."""
    name, labels = names.config_name(controller.metadata.name), slurmctld_labels(controller)
    annotations = {RESTART: restart} if restart else {}
    return tuple(
        ConfigMap(metadata=ObjectMeta(name=chunk_name(name, number), labels=labels, annotations=annotations), data=data)
        for number, data in enumerate(_chunks(files))
    )


def chunk_name(config: str, number: int) -> str:
    return names.fitted(f"{config}-{number}") if number else config


def _chunks(files: Files) -> tuple[dict[str, str], ...]:
    chunks: list[dict[str, str]] = [{DIGEST_FILE: files.digest}]
    sizes = [0]
    # slurm.conf first, so that people find it in the first; then by name.
    for file, text in sorted(files.content.items(), key=lambda item: (item[0] != "slurm.conf", item[0])):
        size = len(text.encode()) + len(file)
        if size > CONFIG_MAP_BYTES_MAX:
            raise TooLarge(f"{file} has {size} bytes: expected at most {CONFIG_MAP_BYTES_MAX}")
        place = next((n for n, used in enumerate(sizes) if used + size <= CONFIG_MAP_BYTES_MAX), len(chunks))
        if place == len(chunks):
            chunks.append({})
            sizes.append(0)
        chunks[place][file] = text
        sizes[place] += size
    if len(chunks) > CONFIG_MAPS_MAX:
        total = sum(sizes)
        raise TooLarge(f"all files have {total} bytes: expected at most {CONFIG_MAPS_MAX * CONFIG_MAP_BYTES_MAX}")
    return tuple(chunks)


def stateful_set(controller: Controller, restart: str, plain_key: bytes) -> StatefulSet:
    """`plain_key`: a slurm key of the user's own that is no set, or empty. All other keys are loaded in place."""
    name, labels = names.controller_name(controller.metadata.name), slurmctld_labels(controller)
    marks = {RESTART: restart} if restart else {}
    if plain_key:
        marks[KEYS] = hashlib.sha256(plain_key).hexdigest()[:16]
    claims = () if controller.spec.persistence.existing_claim else (_claim(controller),)
    at_version = {**labels, versions.LABEL: controller.spec.version}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=at_version, annotations=marks), spec=_pod(controller))
    return StatefulSet(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=StatefulSetSpec(
            replicas=1,
            # In order, a pod that never becomes ready is never replaced, not even by a template that would mend it.
            pod_management_policy="Parallel",
            service_name=name,
            selector=LabelSelector(match_labels=labels),
            persistent_volume_claim_retention_policy=StatefulSetPersistentVolumeClaimRetentionPolicy(
                when_deleted="Retain", when_scaled="Retain"
            ),
            template=overrides.pod_template(
                template, controller.spec.template, container=COMPONENT, daemon=controller.spec.slurmctld
            ),
            volume_claim_templates=claims,
        ),
    )


def _pod(controller: Controller) -> PodSpec:
    pod = PodSpec(
        automount_service_account_token=False,
        enable_service_links=False,
        dns_config=PodDNSConfig(searches=(endpoints.workers_domain(controller),)),
        # An srun here would come through the Service with the node's address, where it cannot be called back.
        host_aliases=(HostAlias(ip="127.0.0.1", hostnames=(endpoints.slurmctld(controller).host,)),),
        termination_grace_period_seconds=GRACE_S,
        security_context=PodSecurityContext(
            run_as_user=names.SLURM_UID,
            run_as_group=names.SLURM_UID,
            run_as_non_root=True,
            fs_group=names.SLURM_UID,
            fs_group_change_policy="OnRootMismatch",
            seccomp_profile=SeccompProfile(type="RuntimeDefault"),
        ),
        containers=(_slurmctld(controller),),
        volumes=tuple(_volumes(controller)),
    )
    spec = controller.spec
    return known_in(pod, controller.metadata.name, spec.identity, container=COMPONENT, theirs=spec.slurmctld)


def _slurmctld(controller: Controller) -> Container:
    return Container(
        name=COMPONENT,
        image=names.slurm_image(controller.spec.version),
        termination_message_policy="FallbackToLogsOnError",  # so that a condition can say why it ended
        command=("/usr/bin/tini", "-g", "--", "/usr/libexec/corral/slurmctld-run"),
        working_dir="/tmp",  # noqa: S108 - a job submitted in this pod writes its output there, and could not in /
        ports=(ContainerPort(name=COMPONENT, container_port=endpoints.slurmctld(controller).port, protocol="TCP"),),
        startup_probe=_probe(controller, "/livez", period_s=1, failures=START_S_MAX),
        liveness_probe=_probe(controller, "/livez", period_s=10, failures=6),
        readiness_probe=_probe(controller, "/readyz", period_s=5, failures=3),
        resources=DAEMON_RESOURCES,
        security_context=SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=Capabilities(drop=("ALL",)),
        ),
        volume_mounts=(
            VolumeMount(name="config", mount_path="/etc/corral/config", read_only=True),
            VolumeMount(name="keys", mount_path=KEYS_DIR, read_only=True),
            VolumeMount(name="etc-slurm", mount_path=CONFIG_DIR),
            VolumeMount(name="run-slurm", mount_path="/run/slurm"),
            VolumeMount(name="run-slurmctld", mount_path="/run/slurmctld"),
            VolumeMount(name="tmp", mount_path="/tmp"),  # noqa: S108 - a volume of its own
            VolumeMount(name="state", mount_path=STATE_DIR),
        ),
    )


def _probe(controller: Controller, path: str, *, period_s: int, failures: int) -> Probe:
    """26.05 answers HTTP on its port; 24.11 only lets one connect."""
    http = None
    tcp = None
    port = endpoints.slurmctld(controller).port
    if controller.spec.version == "24.11":
        tcp = TCPSocketAction(port=port)
    else:
        http = HTTPGetAction(path=path, port=port)
    return Probe(http_get=http, tcp_socket=tcp, period_seconds=period_s, failure_threshold=failures, timeout_seconds=5)


def _volumes(controller: Controller) -> Iterator[Volume]:
    config = names.config_name(controller.metadata.name)
    maps = (
        ConfigMapProjection(name=chunk_name(config, number), optional=True if number else None)
        for number in range(CONFIG_MAPS_MAX)
    )
    # Executable: scripts are among the files. Writable: copies keep the mode, and slurmctld's trial edits its own.
    projected = ProjectedVolumeSource(default_mode=0o755, sources=tuple(VolumeProjection(config_map=m) for m in maps))
    yield Volume(name="config", projected=projected)
    slurm, jwt = slurm_key_of(controller), jwt_key_of(controller)
    keys = [
        VolumeProjection(secret=SecretProjection(name=at.name, items=(KeyToPath(key=at.key, path=file),)))
        for at, file in ((slurm, slurm_key_file(slurm)), (jwt, names.JWT_KEY))
    ]
    if public := controller.spec.jwks_key_ref:
        items = (KeyToPath(key=public.key, path=names.JWKS),)
        keys.append(VolumeProjection(config_map=ConfigMapProjection(name=public.name, items=items)))
    yield Volume(name="keys", projected=ProjectedVolumeSource(default_mode=0o440, sources=tuple(keys)))
    for name in ("etc-slurm", "run-slurm", "run-slurmctld", "tmp"):
        yield Volume(name=name, empty_dir=EmptyDirVolumeSource())
    claim = controller.spec.persistence.existing_claim
    if claim:
        yield Volume(name="state", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))


def _claim(controller: Controller) -> PersistentVolumeClaim:
    wanted = controller.spec.persistence
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="state"),
        spec=PersistentVolumeClaimSpec(
            access_modes=wanted.access_modes,
            storage_class_name=wanted.storage_class_name or None,
            resources=VolumeResourceRequirements(requests={"storage": wanted.size}),
        ),
    )
