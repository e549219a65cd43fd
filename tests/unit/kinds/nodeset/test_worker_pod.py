"""One worker's pod, and the line by which its slurmd registers."""

import pytest
from msgspec.structs import replace

from corral.kinds import names
from corral.kinds.controller.spec import ControllerSpec
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.nodeset.worker import worker_pod
from corral.kinds.nodeset.workers import Place
from corral.kinds.parts import External, PodTemplate
from corral.kube.models.core_v1 import Pod
from tests.unit.kinds.nodeset.builders import a_controller, a_nodeset


def pod_of(nodeset: NodeSet, ordinal: int = 0) -> Pod:
    name = names.worker_name(nodeset.metadata.name, ordinal, padding=nodeset.spec.ordinal_padding)
    place = Place(name=name, ordinal=ordinal)
    return worker_pod(nodeset, a_controller(), place)


def env(pod: Pod) -> dict[str, str]:
    return {one.name: one.value for one in pod.spec.containers[0].env}


def with_limits(cpu: str, memory: str) -> dict[str, object]:
    return {"resources": {"limits": {"cpu": cpu, "memory": memory}}}


def test_pod_host_and_node_have_one_name_under_the_workers_service() -> None:
    pod = pod_of(a_nodeset(ordinal_padding=3), 7)
    assert (pod.metadata.name, pod.spec.hostname, pod.spec.subdomain) == ("gpu-007", "gpu-007", "slurm-workers")


def test_slurmd_asks_the_controllers_service_for_its_configuration() -> None:
    assert env(pod_of(a_nodeset()))["SLURM_CONF_SERVER"] == "slurm-controller.lab:6817"


def test_its_wait_for_jobs_ends_with_our_own_service_of_slurmctld_and_with_no_name_of_one_elsewhere() -> None:
    elsewhere = ControllerSpec(external=External(host="ctld.example.com", port=6817))
    clusters = (a_controller(), replace(a_controller(), spec=elsewhere))
    pods = (worker_pod(a_nodeset(), cluster, Place(name="gpu-0", ordinal=0)) for cluster in clusters)
    waits = [pod.spec.containers[0].lifecycle.pre_stop.exec.command[1:] for pod in pods]  # type: ignore[union-attr]
    assert waits == [("slurm-controller.lab",), ()]


@pytest.mark.parametrize(
    ("cpu", "memory", "said"),
    [
        ("2", "1Gi", "Feature=gpu CPUs=2 RealMemory=960"),
        ("1500m", "100Mi", "Feature=gpu CPUs=1 RealMemory=50"),
        ("100m", "4G", "Feature=gpu CPUs=1 RealMemory=3750"),
    ],
)
def test_slurm_may_give_away_what_the_container_has(cpu: str, memory: str, said: str) -> None:
    assert env(pod_of(a_nodeset(slurmd=with_limits(cpu, memory))))["SLURM_NODE_CONF"] == said


def test_what_is_not_limited_is_small_rather_than_the_whole_machine() -> None:
    assert env(pod_of(a_nodeset()))["SLURM_NODE_CONF"] == "Feature=gpu CPUs=1 RealMemory=960"


def test_the_users_words_about_the_node_win_and_their_features_are_added() -> None:
    extra = "Weight=10 features=a100,fast CPUs=8 RealMemory=32000 Gres=gpu:2"
    said = env(pod_of(a_nodeset(extra_conf=extra)))["SLURM_NODE_CONF"]
    assert said == "Feature=gpu,a100,fast Weight=10 CPUs=8 RealMemory=32000 Gres=gpu:2"


def test_a_worker_has_privileges_only_where_it_is_to_confine_jobs() -> None:
    clusters = (replace(a_controller(), spec=ControllerSpec(confine_jobs=confined)) for confined in (False, True))
    plain, confining = (worker_pod(a_nodeset(), cluster, Place(name="gpu-0", ordinal=0)) for cluster in clusters)
    contexts = [pod.spec.containers[0].security_context for pod in (plain, confining)]
    assert [context.privileged for context in contexts if context] == [None, True]
    assert [env(pod).get("SLURM_CONFINE_JOBS") for pod in (plain, confining)] == [None, "yes"]


def test_shared_memory_is_half_of_the_workers_and_the_users_own_size_stays() -> None:
    theirs = PodTemplate(spec={"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "8Gi"}}]})
    ours, changed = pod_of(a_nodeset()), pod_of(a_nodeset(template=theirs))
    sizes = [{v.name: v.empty_dir for v in pod.spec.volumes}["shm"] for pod in (ours, changed)]
    assert [(s.medium, s.size_limit) for s in sizes if s] == [("Memory", "480Mi"), ("Memory", "8Gi")]


def test_the_users_template_is_laid_over_and_cannot_take_our_labels() -> None:
    theirs = PodTemplate(labels={"team": "physics", names.NODESET_LABEL: "x"}, spec={"nodeSelector": {"gpu": "yes"}})
    pod = pod_of(a_nodeset(template=theirs, slurmd={"image": "mine:1"}))
    assert pod.metadata.labels["team"] == "physics"
    assert pod.metadata.labels[names.NODESET_LABEL] == "gpu"
    assert (pod.spec.node_selector, pod.spec.containers[0].image) == ({"gpu": "yes"}, "mine:1")


@pytest.mark.parametrize("nodeset", ["gpu", "a" * 63, "a" * 52 + "-b"])
def test_a_workers_name_fits_a_host_name_and_tells_its_ordinal(nodeset: str) -> None:
    name = names.worker_name(nodeset, 12, padding=9)
    assert len(name) <= names.NAME_MAX
    assert names.worker_ordinal(nodeset, name) == 12
    assert names.worker_ordinal(nodeset, "other-12") is None
    assert names.worker_ordinal(nodeset, nodeset) is None
