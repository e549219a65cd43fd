"""A cluster's life: started twice, grown, killed in every part, interrupted, beside another one, and gone."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from corral.local import cgroups
from corral.local.cluster import supervisor_process
from corral.local.home import home_of
from corral.local.spec import Spec
from corral.local.status import status
from corral.testing.cluster import Cluster, corral
from corral.testing.hosttraces import stays_different, traces
from corral.testing.localcluster import (
    components,
    down,
    interrupt,
    interrupt_up,
    is_well,
    output,
    started,
    until,
    up,
)

pytestmark = pytest.mark.cluster
NAME, OTHER, BROKEN = "e2e-life", "e2e-other", "e2e-broken"
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "coredns",
    "storage",
    "node-1.containerd",
    "node-1.kubelet",
    "node-1.kube-proxy",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    yield up(NAME)
    down(NAME)


def pids(name: str) -> dict[str, int]:
    return {component: state.pid for component, state in components(name).items()}


def test_up_on_a_running_cluster_changes_nothing(cluster: Cluster) -> None:
    before = pids(NAME)

    up(NAME)

    assert set(before) == {"supervisor", *COMPONENTS}
    assert pids(NAME) == before


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_that_is_killed_is_restarted_and_reported(cluster: Cluster, component: str) -> None:
    before = components(NAME)[component]

    os.kill(before.pid, signal.SIGKILL)

    def is_back() -> bool:
        now = components(NAME)[component]
        return now.state == "running" and now.restarts == before.restarts + 1

    until(f"{component} runs again", is_back, 30)
    assert components(NAME)[component].detail == "killed by SIGKILL"
    assert f"{component} (pid {before.pid}) died: killed by SIGKILL" in home_of(NAME).log("supervisor").read_text()
    until("the cluster is well", partial(is_well, NAME), 60)


def test_a_killed_supervisor_is_reported_and_up_brings_one_that_knows_the_others(cluster: Cluster) -> None:
    """Even those whose record a power cut has damaged."""
    before, home = pids(NAME), home_of(NAME)
    os.kill(before["supervisor"], signal.SIGKILL)
    home.record("etcd").write_bytes(b"")

    told = corral("local", "status", "--name", NAME)
    up(NAME)
    after = pids(NAME)

    assert told.returncode == 1
    assert re.search(r"supervisor +- +dead", told.stdout)
    assert f"{home.record('etcd')} is damaged and left out" in home.log("supervisor").read_text()
    assert after.pop("supervisor") != before.pop("supervisor")
    assert after == before


def test_a_cluster_survives_the_end_of_all_its_processes_with_its_objects(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "kept")
    for pid in pids(NAME).values():
        os.kill(pid, signal.SIGKILL)

    up(NAME)

    assert cluster.kubectl("get", "configmap", "kept", "--output=name") == "configmap/kept\n"


def test_lost_namespaces_are_made_again(cluster: Cluster) -> None:
    """What a reboot leaves: files without namespaces, and here even processes in the old ones."""
    home = home_of(NAME)
    for file in sorted(home.namespaces.iterdir()):
        subprocess.run(["umount", "--lazy", file], check=True)

    up(NAME)

    assert is_well(NAME)


def test_a_cluster_grows_in_place(cluster: Cluster) -> None:
    before = pids(NAME)

    up(NAME, nodes=3)

    assert [(node.name, node.state) for node in status(home_of(NAME)).nodes] == [
        (f"node-{n}", "Ready") for n in (1, 2, 3)
    ]
    assert before.items() <= pids(NAME).items()
    assert "cannot shrink" in corral("up", "--name", NAME, "--nodes", "1", "--bare").stderr


def test_two_clusters_stand_side_by_side_and_one_goes_without_the_other(cluster: Cluster) -> None:
    before = pids(NAME)
    other = up(OTHER)

    cluster.kubectl("create", "namespace", "only-here")
    assert "not found" in other.try_kubectl("get", "namespace", "only-here").stderr
    down(OTHER)

    assert pids(NAME) == before
    assert not home_of(OTHER).path.exists()


def test_up_and_down_that_are_ended_again_and_again_end_with_a_cluster() -> None:
    for moment, sign in (
        ("Network ...", signal.SIGKILL),
        ("Network ...", signal.SIGINT),
        ("Control plane ...", signal.SIGINT),
        ("Nodes ...", signal.SIGKILL),
    ):
        interrupt_up(BROKEN, sign, moment, "--bare")

    up(BROKEN)
    interrupt_down(signal.SIGINT, supervisor_is_gone)
    up(BROKEN)
    assert is_well(BROKEN)
    down(BROKEN)


@pytest.mark.parametrize("moment", ["Network ...", "Control plane ...", "Nodes ..."])
def test_up_that_is_ended_half_way_can_be_taken_down(moment: str) -> None:
    interrupt_up(BROKEN, signal.SIGINT, moment, "--bare")

    down(BROKEN)

    assert not home_of(BROKEN).path.exists()


def test_a_cluster_whose_description_is_damaged_can_be_taken_down() -> None:
    interrupt_up(BROKEN, signal.SIGINT, "Nodes ...", "--bare")
    home = home_of(BROKEN)
    spec = home.read_spec()
    assert spec is not None
    home.spec_file.write_text("{")

    assert "is damaged" in corral("up", "--name", BROKEN, "--bare").stderr
    down(BROKEN)

    assert not home.path.exists()
    assert cgroups.processes(spec.cgroup) == frozenset()
    assert spec.link not in output("ip", "link")


def interrupt_down(sign: signal.Signals, moment: Callable[[Spec], bool]) -> None:
    spec = home_of(BROKEN).read_spec()
    assert spec is not None
    with started("down", "--name", BROKEN) as process:
        while not moment(spec):
            assert process.poll() is None, "it has ended before"
            time.sleep(0.001)
        interrupt(process, sign)


def supervisor_is_gone(spec: Spec) -> bool:
    return supervisor_process(home_of(spec.name)) is None


def link_is_gone(spec: Spec) -> bool:
    return not Path("/sys/class/net", spec.link).exists()


@pytest.fixture
def a_host_with_things_of_its_own(tmp_path: Path) -> Iterator[None]:
    """A route, a firewall, a setting of the kernel that kubelet would change, and a service that runs our program."""
    panic = Path("/proc/sys/kernel/panic")
    was = panic.read_text()
    panic.write_text("7\n")
    subprocess.run(["ip", "route", "add", "203.0.113.0/24", "dev", "lo"], check=True)
    subprocess.run(["nft", "add table inet e2e-host; add chain inet e2e-host theirs"], check=True)
    shutil.copy("/bin/sleep", tmp_path / "containerd")
    with subprocess.Popen([tmp_path / "containerd", "infinity"]) as service:
        yield
        service.kill()
    subprocess.run(["nft", "delete table inet e2e-host"], check=True)
    subprocess.run(["ip", "route", "delete", "203.0.113.0/24", "dev", "lo"], check=True)
    panic.write_text(was)


@pytest.mark.usefixtures("a_host_with_things_of_its_own")
def test_down_leaves_nothing_and_the_host_as_it_was_also_when_it_was_ended_half_way(a_busy_pod: str) -> None:
    spec = Spec(BROKEN, 1, 0)
    before = traces(spec)
    cluster = up(BROKEN)
    cluster.provide_toolbox()
    cluster.kubectl("apply", "--filename=-", stdin=a_busy_pod)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/busy", "--timeout=60s")
    found = home_of(BROKEN).read_spec()
    assert found is not None
    assert traces(found) != before

    interrupt_down(signal.SIGINT, supervisor_is_gone)
    interrupt_down(signal.SIGKILL, link_is_gone)
    down(BROKEN)

    assert stays_different(before, found) == []


@pytest.fixture
def a_busy_pod() -> str:
    """A pod with a volume and a memory limit: mounts, cgroups and a directory for `down` to find."""
    return """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: busy}
spec:
  containers:
  - name: main
    image: corral.local/toolbox:1
    command: [sh, -c, "sleep 100000 & exec sleep infinity"]
    resources: {limits: {memory: 64Mi, cpu: 100m}}
    volumeMounts: [{name: data, mountPath: /data}, {name: scratch, mountPath: /scratch}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: scratch, emptyDir: {medium: Memory}}
"""


def test_down_of_what_is_not_there_says_so() -> None:
    done = corral("down", "--name", "e2e-never")

    assert done.returncode == 0
    assert "There is no cluster e2e-never" in done.stderr
