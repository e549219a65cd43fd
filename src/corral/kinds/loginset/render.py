"""What a LoginSet is made of: settings, host keys, a Service, a Deployment. Pure; one object, one function.

A pod has two containers. `login` is where people are: sshd and their shells, without the cluster's key. `sackd` has the
key, fetches the configuration and signs for them; what it makes is seen from `login` but cannot be changed there. It is
a sidecar, which ends last: whoever is still in when the pod goes can finish his srun.
Users and their keys are mounted and looked up at every login, so that new people need no new pods.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from corral.kinds import endpoints, names, overrides, versions
from corral.kinds.controller.spec import Controller
from corral.kinds.home import FOLDER as HOME_FOLDER
from corral.kinds.home import with_home
from corral.kinds.identity import AUTHORIZED_KEYS, IDENTITY_FOLDER, known_in
from corral.kinds.keys import slurm_key_file, slurm_key_of
from corral.kinds.loginset.spec import LoginSet
from corral.kinds.loginset.sshd import sshd_config
from corral.kinds.workloads import CONFIG_DIGEST, KEYS, KEYS_FOLDER, UNPRIVILEGED, mounted, script, text_digest
from corral.kube.meta import ObjectMeta
from corral.kube.models.apps_v1 import Deployment, DeploymentSpec, DeploymentStrategy
from corral.kube.models.core_v1 import (
    Capabilities,
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvVar,
    ExecAction,
    KeyToPath,
    PodDNSConfig,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    Probe,
    SeccompProfile,
    Secret,
    SecretVolumeSource,
    SecurityContext,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
)
from corral.kube.models.meta_v1 import LabelSelector

COMPONENT = "login"
SACKD = "sackd"
LOGIN_FOLDER = "/etc/corral/login"
HOST_KEYS_FOLDER = "/etc/corral/ssh"
GRACE_S = 30  # how long people may stay in a pod that is to go

# What sshd needs to become the user who comes in, to give him a terminal and a home, and to lock itself in before that.
SSHD_CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
)
WRITABLE = {"tmp": "/tmp", "var-tmp": "/var/tmp", "run-sshd": "/run/sshd", "log": "/var/log"}  # noqa: S108


def config_map(loginset: LoginSet, controller: Controller) -> ConfigMap:
    data = {
        "sshd_config": _sshd_config(loginset, controller),
        "profile.sh": loginset.spec.profile,
        f"{AUTHORIZED_KEYS}root": loginset.spec.root_ssh_authorized_keys,
    }
    return ConfigMap(metadata=_metadata(loginset), data={name: text for name, text in data.items() if text})


def host_keys_of(loginset: LoginSet) -> str:
    """The Secret: what the LoginSet refers to, else what was generated for it."""
    given = loginset.spec.host_keys_ref
    return given.name if given else names.host_keys_name(loginset.metadata.name)


def host_keys(loginset: LoginSet, fresh: Mapping[str, bytes]) -> Secret:
    metadata = ObjectMeta(name=names.host_keys_name(loginset.metadata.name), labels=labels(loginset))
    return Secret(metadata=metadata, data=fresh, immutable=True)


def service(loginset: LoginSet) -> Service:
    port = ServicePort(name="ssh", port=names.SSH_PORT, target_port=names.SSH_PORT, protocol="TCP")
    ours = Service(
        metadata=_metadata(loginset), spec=ServiceSpec(ports=(port,), selector=selector(loginset), type="ClusterIP")
    )
    return overrides.service(ours, loginset.spec.service)


def deployment(loginset: LoginSet, controller: Controller) -> Deployment:
    """Pods are replaced for other settings of sshd, not for other people. Raises BadOverride."""
    spec = loginset.spec
    at_version = {**labels(loginset), versions.LABEL: version_step(loginset, controller).version}
    marks = {CONFIG_DIGEST: text_digest(_sshd_config(loginset, controller))}
    template = overrides.pod_template(
        PodTemplateSpec(metadata=ObjectMeta(labels=at_version, annotations=marks), spec=_pod(loginset, controller)),
        spec.template,
        container=COMPONENT,
        daemon=spec.login,
    )
    strategy = overrides.overridden(DeploymentStrategy(type="RollingUpdate"), spec.strategy, what="spec.strategy")
    return Deployment(
        metadata=_metadata(loginset),
        spec=DeploymentSpec(
            replicas=spec.replicas,
            selector=LabelSelector(match_labels=selector(loginset)),
            strategy=strategy,
            template=template,
        ),
    )


def version_step(loginset: LoginSet, controller: Controller) -> versions.Step:
    return versions.beside(controller, loginset.spec.version, "login nodes")


def selector(loginset: LoginSet) -> Mapping[str, str]:
    return names.labels(COMPONENT, loginset.metadata.name)


def labels(loginset: LoginSet) -> Mapping[str, str]:
    return names.labels(COMPONENT, loginset.metadata.name, cluster=loginset.spec.controller_ref.name)


def _pod(loginset: LoginSet, controller: Controller) -> PodSpec:
    cluster, image = controller.metadata.name, names.slurm_image(version_step(loginset, controller).version)
    sackd = overrides.overridden(_sackd(controller, image), loginset.spec.sackd, what="spec.sackd")
    pod = PodSpec(
        init_containers=(sackd,),
        containers=(_login(image, _writable(controller)),),
        volumes=_volumes(loginset, controller),
        # Not fs_group: kubelet would give all of /home to that group.
        security_context=PodSecurityContext(seccomp_profile=SeccompProfile(type="RuntimeDefault")),
        dns_config=PodDNSConfig(searches=(endpoints.workers_domain(controller),)),
        automount_service_account_token=False,
        enable_service_links=False,
        termination_grace_period_seconds=GRACE_S,
    )
    known = known_in(pod, cluster, controller.spec.identity, container=COMPONENT, theirs=loginset.spec.login)
    return with_home(known, cluster, controller.spec.home, container=COMPONENT)


def _writable(controller: Controller) -> Mapping[str, str]:
    """Folders that go with the pod, by volume; /home too where the cluster has none to keep."""
    return WRITABLE if controller.spec.home else {**WRITABLE, "home": HOME_FOLDER}


def _login(image: str, writable: Mapping[str, str]) -> Container:
    health = ExecAction(command=("/usr/libexec/corral/login-health",))
    return Container(
        name=COMPONENT,
        image=image,
        command=script("sshd-run"),
        ports=(ContainerPort(name="ssh", container_port=names.SSH_PORT, protocol="TCP"),),
        startup_probe=_asks(health, period_s=1, failures_max=300),
        readiness_probe=_asks(health, period_s=10, failures_max=3),
        liveness_probe=_asks(health, period_s=30, failures_max=6),
        termination_message_policy="FallbackToLogsOnError",
        security_context=SecurityContext(
            run_as_user=0,
            run_as_group=0,
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=Capabilities(drop=("ALL",), add=SSHD_CAPABILITIES),
        ),
        volume_mounts=(
            mounted("settings", LOGIN_FOLDER),
            mounted("identity", IDENTITY_FOLDER),
            mounted("host-keys", HOST_KEYS_FOLDER),
            mounted("run-slurm", "/run/slurm"),  # who could write here could be sackd for the others
            *(VolumeMount(name=name, mount_path=path) for name, path in writable.items()),
        ),
    )


def _sackd(controller: Controller, image: str) -> Container:
    at = endpoints.slurmctld(controller)
    signs = ExecAction(command=("/usr/bin/test", "-S", "/run/slurm/sack.socket"))
    return Container(
        name=SACKD,
        image=image,
        command=script("sackd-run"),
        env=(EnvVar(name="SLURM_CONF_SERVER", value=f"{at.host}:{at.port}"),),
        restart_policy="Always",
        readiness_probe=_asks(signs, period_s=3, failures_max=5),
        termination_message_policy="FallbackToLogsOnError",
        # Group 0 may read the key; the other container has not got it.
        security_context=replace(UNPRIVILEGED, run_as_user=names.SLURM_UID, run_as_group=0),
        volume_mounts=(
            mounted(KEYS, KEYS_FOLDER),
            VolumeMount(name="etc-slurm", mount_path="/etc/slurm"),
            VolumeMount(name="run-slurm", mount_path="/run/slurm"),
        ),
    )


def _asks(command: ExecAction, *, period_s: int, failures_max: int) -> Probe:
    """A program in the container costs more than a connection: it is asked often only until it starts."""
    return Probe(exec=command, period_seconds=period_s, timeout_seconds=10, failure_threshold=failures_max)


def _volumes(loginset: LoginSet, controller: Controller) -> tuple[Volume, ...]:
    key, cluster = slurm_key_of(controller), controller.metadata.name
    items = (KeyToPath(key=key.key, path=slurm_key_file(key)),)
    settings, identity = names.login_name(loginset.metadata.name), names.identity_name(cluster)
    return (
        Volume(name="settings", config_map=ConfigMapVolumeSource(name=settings, default_mode=0o444)),
        Volume(name="identity", config_map=ConfigMapVolumeSource(name=identity, default_mode=0o444, optional=True)),
        Volume(name="host-keys", secret=SecretVolumeSource(secret_name=host_keys_of(loginset), default_mode=0o400)),
        Volume(name=KEYS, secret=SecretVolumeSource(secret_name=key.name, items=items, default_mode=0o440)),
        Volume(name="run-slurm", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="16Mi")),
        Volume(name="etc-slurm", empty_dir=EmptyDirVolumeSource()),
        *(Volume(name=name, empty_dir=EmptyDirVolumeSource()) for name in _writable(controller)),
    )


def _sshd_config(loginset: LoginSet, controller: Controller) -> str:
    directory = controller.spec.identity.ldap is not None
    return sshd_config(loginset.spec.extra_sshd_config, port=names.SSH_PORT, passwords=directory)


def _metadata(loginset: LoginSet) -> ObjectMeta:
    return ObjectMeta(name=names.login_name(loginset.metadata.name), labels=labels(loginset))
