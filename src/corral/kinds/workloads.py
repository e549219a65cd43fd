"""What the pods of our daemons have in common: no privileges, no token of Kubernetes, small writable places."""

import hashlib
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from corral.engine import NOTHING, Plan, Wait
from corral.kube.meta import ref
from corral.kube.models.apps_v1 import Deployment
from corral.kube.models.core_v1 import (
    Capabilities,
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    Pod,
    PodSecurityContext,
    PodSpec,
    Probe,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    TCPSocketAction,
    Volume,
    VolumeMount,
)

CONFIG_FOLDER = "/etc/corral/config"
KEYS_FOLDER = "/etc/corral/keys"
CONFIG_DIGEST = "corral.dev/config"  # annotation of pods: another value, and the pods are replaced
CONFIG, KEYS = "config", "keys"  # names of volumes

# As the Pod Security Standard "restricted" wants it.
UNPRIVILEGED = SecurityContext(
    allow_privilege_escalation=False,
    capabilities=Capabilities(drop=("ALL",)),
    read_only_root_filesystem=True,
    run_as_non_root=True,
)

# The whole cluster hangs on these daemons: a pod that asks for nothing is starved and evicted before all others.
DAEMON_RESOURCES = ResourceRequirements(requests={"cpu": "100m", "memory": "64Mi"})


def unprivileged_pod(
    uid: int,
    container: Container,
    *volumes: Volume,
    writable: Mapping[str, str],
    grace_period_s: int,
    restart_policy: str = "",
) -> PodSpec:
    """A pod of one daemon that runs as `uid`. `writable`: folders that it may write to and that go with it, by name."""
    folders = tuple(VolumeMount(name=name, mount_path=path) for name, path in writable.items())
    mounts = (*container.volume_mounts, *folders)
    return PodSpec(
        containers=(replace(container, volume_mounts=mounts, resources=DAEMON_RESOURCES),),
        volumes=(*volumes, *(Volume(name=name, empty_dir=EmptyDirVolumeSource()) for name in writable)),
        security_context=PodSecurityContext(
            run_as_user=uid,
            run_as_group=uid,
            run_as_non_root=True,
            fs_group=uid,
            fs_group_change_policy="OnRootMismatch",
            seccomp_profile=SeccompProfile(type="RuntimeDefault"),
        ),
        automount_service_account_token=False,
        enable_service_links=False,
        termination_grace_period_seconds=grace_period_s,
        restart_policy=restart_policy,
    )


def script(name: str) -> tuple[str, ...]:
    """What a container of our images runs: tini reaps and passes signals on."""
    return ("/usr/bin/tini", "-g", "--", f"/usr/libexec/corral/{name}")


def answers_on(port: int, *, period_s: int, failures_max: int) -> Probe:
    return Probe(
        tcp_socket=TCPSocketAction(port=port),
        period_seconds=period_s,
        failure_threshold=failures_max,
        timeout_seconds=2,
        success_threshold=1,
    )


def container_trouble(pod: Pod) -> str:
    """Why the container does not run: its own last words if it has ended, else what kubelet says."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting, ended = status.state.waiting, status.state.terminated or status.last_state.terminated
        if ended is not None and ended.message.strip():
            return f": it ended with exit code {ended.exit_code}: {ended.message.strip().splitlines()[-1]}"
        if waiting is not None and waiting.reason:
            return f": {waiting.reason}" + (f", {waiting.message}" if waiting.message else "")
    return ""


def availability(deployment: Deployment | None, wanted: int, pods: Iterable[Pod] = ()) -> Plan:
    """Whether what runs is what is asked for; the Deployment's own changes bring us back."""
    if deployment is None:
        return NOTHING
    status = deployment.status
    current = min(status.updated_replicas, status.available_replicas)
    if status.observed_generation >= deployment.metadata.generation and current >= wanted:
        return NOTHING
    trouble = next((f"; {ref(pod)}{told}" for pod in pods if (told := container_trouble(pod))), "")
    message = f"{current} of {wanted} replicas of {ref(deployment)} are up to date and available{trouble}"
    return Plan(waits=(Wait(reason="NotAvailable", message=message, on=ref(deployment)),))


def replicas(deployment: Deployment | None) -> tuple[int, int]:
    """How many there are, and how many of them are ready."""
    return (deployment.status.replicas, deployment.status.ready_replicas) if deployment else (0, 0)


def selector_text(labels: Mapping[str, str]) -> str:
    """As the scale subresource wants it."""
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def config_map_volume(config_map: str) -> Volume:
    return Volume(name=CONFIG, config_map=ConfigMapVolumeSource(name=config_map, default_mode=0o444))


def mounted(volume: str, folder: str) -> VolumeMount:
    return VolumeMount(name=volume, mount_path=folder, read_only=True)


def text_digest(text: str) -> str:
    """For what is no secret."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
