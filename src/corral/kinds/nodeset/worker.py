"""One worker: its pod, and the line by which its slurmd registers. Pure.

    pod name = host name = Slurm node name, found by every pod of the cluster under the workers' Service
    slurmd fetches its configuration from slurmctld and registers by itself (dynamic node, feature = the NodeSet)
    CPUs and memory that Slurm may give away are those of the container: slurmd itself sees the whole machine

The user's own words win: fields of `spec.slurmd` and `spec.template` over the pod, keys of `spec.extraConf` over ours.
"""

from msgspec.structs import replace

from corral.kinds import endpoints, names, versions
from corral.kinds.controller.spec import Controller
from corral.kinds.home import with_home
from corral.kinds.identity import known_in
from corral.kinds.keys import slurm_key_file, slurm_key_of
from corral.kinds.nodeset.body import GRACE_S
from corral.kinds.nodeset.claims import with_claims
from corral.kinds.nodeset.fitting import bound_to, staying
from corral.kinds.nodeset.registration import CONTAINER, ENV, asks_its_machine, memory_mb, node_conf
from corral.kinds.nodeset.revision import revision_of, version_step
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.workers import Place
from corral.kinds.overrides import pod_template
from corral.kinds.workloads import KEYS, KEYS_FOLDER, mounted, script
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    Container,
    ContainerPort,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EnvVar,
    ExecAction,
    HTTPGetAction,
    KeyToPath,
    Lifecycle,
    LifecycleHandler,
    ObjectFieldSelector,
    Pod,
    PodDNSConfig,
    PodSpec,
    PodTemplateSpec,
    Probe,
    SecretVolumeSource,
    SecurityContext,
    TCPSocketAction,
    Volume,
    VolumeMount,
)

MACHINE, MACHINE_FOLDER = "machine", "/etc/corral/machine"  # what the Kubernetes node below says, once it is known
HTTP_SINCE = "26.05"  # slurmd answers /readyz


_FROM_ITS_MACHINE = Volume(
    name=MACHINE,
    downward_api=DownwardAPIVolumeSource(
        items=(
            DownwardAPIVolumeFile(
                path="node-conf",
                field_ref=ObjectFieldSelector(field_path=f"metadata.annotations['{names.NODE_CONF}']"),
            ),
        )
    ),
)


def worker_pod(nodeset: NodeSet, controller: Controller, place: Place) -> Pod:
    return placed(pod_of_nobody(nodeset, controller), nodeset, place)


def placed(nobody: Pod, nodeset: NodeSet, place: Place, *, stays: bool = True) -> Pod:
    """The worker of this place, from the pod that all of them are.

    `stays`: no taint drives it out. The scheduler would put such a pod onto nodes that drive others out; so where there
    are any it is not said before the worker has a node (see `registering`), unless we ourselves say which.
    """
    metadata = replace(nobody.metadata, name=place.name)
    spec = with_claims(replace(nobody.spec, hostname=place.name), nodeset, place.name)
    if stays or place.machine:
        spec = replace(spec, tolerations=staying(spec.tolerations))
    if place.machine:
        metadata = replace(metadata, annotations={**metadata.annotations, names.MACHINE: place.machine})
    if place.pinned:
        metadata = replace(metadata, annotations={**metadata.annotations, names.PINNED: place.pinned})
    bound = place.machine or place.pinned
    return Pod(metadata=metadata, spec=bound_to(spec, bound) if bound else spec)


def pod_of_nobody(nodeset: NodeSet, controller: Controller) -> Pod:
    """As all workers are, wherever they are; also Kubernetes nodes are chosen by it. Raises BadOverride."""
    spec, cluster = nodeset.spec, controller.metadata.name
    version = version_step(nodeset, controller).version
    template = PodTemplateSpec(
        metadata=ObjectMeta(
            labels={
                **names.labels(CONTAINER, nodeset.metadata.name, cluster=cluster),
                names.NODESET_LABEL: names.worker_stem(nodeset.metadata.name),
                versions.LABEL: version,
                names.REVISION_LABEL: revision_of(nodeset, controller),
            }
        ),
        spec=PodSpec(
            subdomain=names.workers_name(cluster),
            dns_config=PodDNSConfig(searches=(endpoints.workers_domain(controller),)),
            automount_service_account_token=False,
            enable_service_links=False,
            termination_grace_period_seconds=GRACE_S,
            containers=(_slurmd(controller, version),),
            volumes=_volumes(controller),
        ),
    )
    merged: PodTemplateSpec = pod_template(
        _with_people(template, controller, nodeset), spec.template, container=CONTAINER, daemon=spec.slurmd
    )
    return Pod(
        metadata=replace(merged.metadata, namespace=nodeset.metadata.namespace),
        spec=_with_node_conf(merged.spec, nodeset),
    )


def _with_people(template: PodTemplateSpec, controller: Controller, nodeset: NodeSet) -> PodTemplateSpec:
    """The cluster's users are known in the worker, and their /home is there."""
    cluster, theirs = controller.metadata.name, nodeset.spec.slurmd
    known = known_in(template.spec, cluster, controller.spec.identity, container=CONTAINER, theirs=theirs)
    at_home = with_home(known, cluster, controller.spec.home, container=CONTAINER)
    return replace(template, spec=at_home)


def _slurmd(controller: Controller, version: str) -> Container:
    at, confined = endpoints.slurmctld(controller), controller.spec.confine_jobs
    return Container(
        name=CONTAINER,
        image=names.slurm_image(version),
        command=script("slurmd-run"),
        termination_message_policy="FallbackToLogsOnError",  # so that one can say why it ended
        env=(
            EnvVar(name="SLURM_CONF_SERVER", value=f"{at.host}:{at.port}"),
            *((EnvVar(name="SLURM_CONFINE_JOBS", value="yes"),) if confined else ()),
        ),
        ports=(ContainerPort(name=CONTAINER, container_port=names.SLURMD_PORT, protocol="TCP"),),
        readiness_probe=_probe(version),
        lifecycle=Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(command=_leave(controller)))),
        # Without privileges a container's cgroup is read-only; where yours is not, take them away in spec.slurmd.
        security_context=SecurityContext(run_as_user=0, run_as_group=0, privileged=True if confined else None),
        volume_mounts=(
            mounted(KEYS, KEYS_FOLDER),
            VolumeMount(name="spool", mount_path="/var/spool/slurmd"),
            VolumeMount(name="run", mount_path="/run/slurm"),
            VolumeMount(name="shm", mount_path="/dev/shm"),  # noqa: S108 - a mount of the worker's own
        ),
    )


def _leave(controller: Controller) -> tuple[str, ...]:
    """With the name that goes when slurmctld does. One that runs elsewhere is waited for, whatever its name says."""
    service = () if controller.spec.external else (endpoints.slurmctld(controller).host,)
    return ("/usr/libexec/corral/slurmd-leave", *service)


def _probe(version: str) -> Probe:
    """26.05 says whether it is ready; before it, that it listens is all that can be known."""
    if version >= HTTP_SINCE:
        return Probe(http_get=HTTPGetAction(path="/readyz", port=names.SLURMD_PORT), period_seconds=5)
    return Probe(tcp_socket=TCPSocketAction(port=names.SLURMD_PORT), period_seconds=10)


def _volumes(controller: Controller) -> tuple[Volume, ...]:
    key = slurm_key_of(controller)
    items = (KeyToPath(key=key.key, path=slurm_key_file(key)),)
    return (
        Volume(name=KEYS, secret=SecretVolumeSource(secret_name=key.name, items=items, default_mode=0o400)),
        Volume(name="spool", empty_dir=EmptyDirVolumeSource()),
        Volume(name="run", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="16Mi")),
        Volume(name="shm", empty_dir=EmptyDirVolumeSource(medium="Memory")),
    )


def _with_node_conf(spec: PodSpec, nodeset: NodeSet) -> PodSpec:
    """After the overrides, because the limits of the container may be the user's."""
    slurmd = next(container for container in spec.containers if container.name == CONTAINER)
    env = EnvVar(name=ENV, value=node_conf(nodeset, slurmd))
    theirs = tuple(one for one in slurmd.env if one.name != env.name)
    given = next((one for one in slurmd.env if one.name == env.name), env)
    asks = asks_its_machine(given.value)
    mounts = (*slurmd.volume_mounts, *((mounted(MACHINE, MACHINE_FOLDER),) if asks else ()))
    with_conf = replace(slurmd, env=(*theirs, given), volume_mounts=mounts)
    containers = tuple(with_conf if one is slurmd else one for one in spec.containers)
    volumes = (*_shm_sized(spec.volumes, slurmd), *((_FROM_ITS_MACHINE,) if asks else ()))
    return replace(spec, containers=containers, volumes=volumes)


def _shm_sized(volumes: tuple[Volume, ...], slurmd: Container) -> tuple[Volume, ...]:
    """Half of the worker's memory, as Linux gives by itself; the user's own size stays."""
    size = f"{max(memory_mb(slurmd) // 2, 64)}Mi"
    return tuple(
        replace(one, empty_dir=replace(one.empty_dir, size_limit=size))
        if one.name == "shm" and one.empty_dir is not None and one.empty_dir.size_limit is None
        else one
        for one in volumes
    )
