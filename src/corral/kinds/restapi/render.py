"""What a RestApi is made of: the small slurm.conf that slurmrestd needs, its Deployment, its Service. Pure.

slurmrestd holds no key: it passes the caller's token on. It cannot fetch its configuration from slurmctld, so it gets
one of its own with where slurmctld and slurmdbd are, and nothing else. Without an accounting host in it, the image's
script leaves the accounting half of the API out (24.11 would not start with it).

With `spec.tls` slurmrestd listens in its pod only, and a proxy of the same image speaks TLS for it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from corral.kinds import endpoints, names, overrides, versions
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.files import cluster_name
from corral.kinds.controller.spec import Controller
from corral.kinds.restapi.spec import RestApi, Tls
from corral.kinds.workloads import (
    CONFIG,
    CONFIG_DIGEST,
    CONFIG_FOLDER,
    UNPRIVILEGED,
    answers_on,
    config_map_volume,
    mounted,
    script,
    text_digest,
    unprivileged_pod,
)
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.apps_v1 import Deployment, DeploymentSpec
from corral.kube.models.core_v1 import (
    ConfigMap,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvVar,
    ExecAction,
    PodSpec,
    PodTemplateSpec,
    Probe,
    SecretVolumeSource,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
)
from corral.kube.models.meta_v1 import LabelSelector
from corral.slurm.config.text import setting, write

COMPONENT, PROXY = "slurmrestd", "tls"
TLS, TLS_FOLDER, TLS_MODE = "tls", "/etc/corral/tls", 0o440
PROXY_TMP = "tls-tmp"
SLURM_CONF = "slurm.conf"
# By itself slurmrestd leaves some of its namespaces, which needs privileges; the pod's are its own already.
NO_NAMESPACES = "disable_unshare_sysv,disable_unshare_files"


def slurm_conf(controller: Controller, accounting: Accounting | None) -> str:
    lines = [
        setting("ClusterName", cluster_name(controller)),
        setting("SlurmctldHost", endpoints.slurmctld_host(controller)),
        setting("SlurmctldPort", endpoints.slurmctld(controller).port),
        setting("SlurmUser", "slurm"),
        setting("AuthType", "auth/slurm"),
        setting("CredType", "cred/slurm"),
        setting("AuthAltTypes", "auth/jwt"),
    ]
    if accounting is not None:
        at = endpoints.slurmdbd(accounting)
        lines += [
            setting("AccountingStorageType", "accounting_storage/slurmdbd"),
            setting("AccountingStorageHost", at.host),
            setting("AccountingStoragePort", at.port),
        ]
    return write(lines)


def objects(restapi: RestApi, controller: Controller, accounting: Accounting | None) -> tuple[Object, ...]:
    """In the order in which they are made. Raises BadOverride."""
    conf = slurm_conf(controller, accounting)
    return (
        ConfigMap(metadata=_metadata(restapi), data={SLURM_CONF: conf}),
        service(restapi),
        deployment(restapi, version_step(restapi, controller).version, conf),
    )


def version_step(restapi: RestApi, controller: Controller) -> versions.Step:
    return versions.beside(controller, restapi.spec.version, "slurmrestd")


def service(restapi: RestApi) -> Service:
    port = ServicePort(
        name=COMPONENT,
        port=names.SLURMRESTD_PORT,
        target_port=names.SLURMRESTD_PORT,
        protocol="TCP",
        app_protocol="https" if restapi.spec.tls else "http",
    )
    ours = Service(
        metadata=_metadata(restapi), spec=ServiceSpec(ports=(port,), selector=selector(restapi), type="ClusterIP")
    )
    return overrides.service(ours, restapi.spec.service)


def deployment(restapi: RestApi, version: str, conf: str) -> Deployment:
    pod = unprivileged_pod(
        names.NOBODY_UID,
        _slurmrestd(restapi, version),
        config_map_volume(names.restapi_name(restapi.metadata.name)),
        writable={"tmp": "/tmp"},  # noqa: S108 - a folder of the pod's own
        grace_period_s=10,
    )
    pod = _with_proxy(pod, restapi.spec.tls, version) if restapi.spec.tls else pod
    at_version = {**labels(restapi), versions.LABEL: version}
    metadata = ObjectMeta(labels=at_version, annotations={CONFIG_DIGEST: text_digest(conf)})
    template = overrides.pod_template(
        PodTemplateSpec(metadata=metadata, spec=pod),
        restapi.spec.template,
        container=COMPONENT,
        daemon=restapi.spec.slurmrestd,
    )
    spec = DeploymentSpec(
        replicas=restapi.spec.replicas, selector=LabelSelector(match_labels=selector(restapi)), template=template
    )
    return Deployment(metadata=_metadata(restapi), spec=spec)


def _slurmrestd(restapi: RestApi, version: str) -> Container:
    container = Container(
        name=COMPONENT,
        image=names.slurm_image(version),
        command=script("slurmrestd-run"),
        env=(EnvVar(name="SLURMRESTD_SECURITY", value=NO_NAMESPACES),),
        security_context=UNPRIVILEGED,
        volume_mounts=(mounted(CONFIG, CONFIG_FOLDER),),
    )
    if restapi.spec.tls:
        here = EnvVar(name="SLURMRESTD_LISTEN", value=f"127.0.0.1:{names.SLURMRESTD_INNER_PORT}")
        return replace(container, env=(*container.env, here), readiness_probe=_takes_connections())
    port = names.SLURMRESTD_PORT
    return replace(
        container,
        ports=_ports(),
        readiness_probe=answers_on(port, period_s=1, failures_max=5),
        liveness_probe=answers_on(port, period_s=10, failures_max=6),
    )


def _with_proxy(pod: PodSpec, tls: Tls, version: str) -> PodSpec:
    proxy = Container(
        name=PROXY,
        image=names.slurm_image(version),
        command=script("slurmrestd-tls"),
        security_context=UNPRIVILEGED,
        volume_mounts=(mounted(TLS, TLS_FOLDER), VolumeMount(name=PROXY_TMP, mount_path="/tmp")),  # noqa: S108
        ports=_ports(),
        # It is there as soon as it runs. Each look is a handshake that fails in its log, so they are few.
        liveness_probe=answers_on(names.SLURMRESTD_PORT, period_s=30, failures_max=3),
    )
    certificate = Volume(name=TLS, secret=SecretVolumeSource(secret_name=tls.secret_ref.name, default_mode=TLS_MODE))
    own_tmp = Volume(name=PROXY_TMP, empty_dir=EmptyDirVolumeSource())
    return replace(pod, containers=(*pod.containers, proxy), volumes=(*pod.volumes, certificate, own_tmp))


def _ports() -> tuple[ContainerPort, ...]:
    """Of the container that is reached from outside the pod."""
    return (ContainerPort(name=COMPONENT, container_port=names.SLURMRESTD_PORT, protocol="TCP"),)


def _takes_connections() -> Probe:
    command = ExecAction(command=("/usr/libexec/corral/slurmrestd-health",))
    return Probe(exec=command, period_seconds=3, failure_threshold=5, timeout_seconds=5, success_threshold=1)


def selector(restapi: RestApi) -> Mapping[str, str]:
    return names.labels(COMPONENT, restapi.metadata.name)


def labels(restapi: RestApi) -> Mapping[str, str]:
    return names.labels(COMPONENT, restapi.metadata.name, cluster=restapi.spec.controller_ref.name)


def _metadata(restapi: RestApi) -> ObjectMeta:
    return ObjectMeta(name=names.restapi_name(restapi.metadata.name), labels=labels(restapi))
