"""What a RestApi is made of: the small slurm.conf that slurmrestd needs, its Deployment, its Service. Pure.

slurmrestd holds no key: it passes the caller's token on. It cannot fetch its configuration from slurmctld, so it gets
one of its own with where slurmctld and slurmdbd are, and nothing else. Without an accounting host in it, the image's
script leaves the accounting half of the API out (24.11 would not start with it).
"""

from collections.abc import Mapping

from corral.kinds import endpoints, names, overrides, versions
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.files import cluster_name
from corral.kinds.controller.spec import Controller
from corral.kinds.restapi.spec import RestApi
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
    EnvVar,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
)
from corral.kube.models.meta_v1 import LabelSelector
from corral.slurm.config.text import setting, write

COMPONENT = "slurmrestd"
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
        app_protocol="http",
    )
    ours = Service(
        metadata=_metadata(restapi), spec=ServiceSpec(ports=(port,), selector=selector(restapi), type="ClusterIP")
    )
    return overrides.service(ours, restapi.spec.service)


def deployment(restapi: RestApi, version: str, conf: str) -> Deployment:
    container = Container(
        name=COMPONENT,
        image=names.slurm_image(version),
        command=script("slurmrestd-run"),
        env=(EnvVar(name="SLURMRESTD_SECURITY", value=NO_NAMESPACES),),
        ports=(ContainerPort(name=COMPONENT, container_port=names.SLURMRESTD_PORT, protocol="TCP"),),
        readiness_probe=answers_on(names.SLURMRESTD_PORT, period_s=1, failures_max=5),
        liveness_probe=answers_on(names.SLURMRESTD_PORT, period_s=10, failures_max=6),
        security_context=UNPRIVILEGED,
        volume_mounts=(mounted(CONFIG, CONFIG_FOLDER),),
    )
    pod = unprivileged_pod(
        names.NOBODY_UID,
        container,
        config_map_volume(names.restapi_name(restapi.metadata.name)),
        writable={"tmp": "/tmp"},  # noqa: S108 - a folder of the pod's own
        grace_period_s=10,
    )
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


def selector(restapi: RestApi) -> Mapping[str, str]:
    return names.labels(COMPONENT, restapi.metadata.name)


def labels(restapi: RestApi) -> Mapping[str, str]:
    return names.labels(COMPONENT, restapi.metadata.name, cluster=restapi.spec.controller_ref.name)


def _metadata(restapi: RestApi) -> ObjectMeta:
    return ObjectMeta(name=names.restapi_name(restapi.metadata.name), labels=labels(restapi))
