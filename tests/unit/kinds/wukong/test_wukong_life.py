"""A Wukong's life in virtual time: made in order, told truthfully, changed, grown, deleted to its end."""

import asyncio
import base64

import pytest

from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.spec import Wukong
from corral.kube.errors import NotFound
from corral.kube.meta import Object, ObjectMeta
from corral.kube.models.core_v1 import PersistentVolumeClaim, Secret
from corral.testing.apiserver.faults import ROUGH, Fault
from corral.testing.operators import converged
from tests.unit.kinds.wukong.world import KUBEVIRT, LARGE, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_wukong_with_two_disks_and_two_networks_comes_to_run() -> None:
    world = World()
    await world.make(a_wukong(LARGE))

    status = (await world.wukong()).status
    assert (status.phase, status.vm_name, status.node_name) == ("Running", "vm", "node-a")
    assert status.guest_os == "Debian GNU/Linux 13 (trixie)"
    assert [(v.name, v.pvc_name, v.bound, v.size) for v in status.volumes] == [
        ("root", "vm-root", True, "10Gi"),
        ("data", "vm-data", True, "50Gi"),
    ]
    assert [(n.name, n.ip_address, n.nad_name) for n in status.networks] == [
        ("default", "10.0.0.5", ""),
        ("lan", "10.0.1.5", "vm-lan-nad"),
    ]
    for kind in ("Ready", "NetworksConfigured", "VolumesBound", "DisksResized", "LiveMigratable"):
        assert (await world.condition(kind))[0] == "True", kind
    assert world.events("Running") == ["the virtual machine is running"]
    assert status.observed_generation == (await world.wukong()).metadata.generation > 0

    await world.change({"cpu": 6})
    wukong = await world.wukong()
    assert wukong.status.observed_generation == wukong.metadata.generation > status.observed_generation


async def test_the_machine_is_made_only_when_networks_and_disks_are_there_and_progress_is_told_meanwhile() -> None:
    world = World(pace_s=90)  # an import takes its time
    await world.begin(a_wukong(LARGE))
    seen: list[tuple[str | None, str, bool]] = []
    for _ in range(80):
        await asyncio.sleep(45)
        status = (await world.wukong()).status
        seen.append((status.phase, status.volumes[0].progress, bool(world.names(VirtualMachine))))

    assert ("Creating", "48.20%", False) in seen, seen
    assert ("Creating", "48.20%", True) not in seen
    assert seen[-1] == ("Running", "", True)


async def test_status_has_names_networks_and_node_while_the_machine_is_coming_to_run() -> None:
    """Defect 4: names, networks and node were not saved while creating."""
    world = World()
    await world.begin(a_wukong(LARGE))
    for _ in range(600):
        await asyncio.sleep(0.5)
        if "Scheduled" in instance_phases(world):
            break
    world.standin_rests()  # the guest takes its time
    await asyncio.sleep(120)

    status = (await world.wukong()).status
    assert (status.phase, status.vm_name, status.node_name) == ("Creating", "vm", "node-a")
    assert [network.nad_name for network in status.networks] == ["", "vm-lan-nad"]
    assert all(network.mac_address.startswith("02:") for network in status.networks)


def instance_phases(world: World) -> list[str]:
    return [i.get("status", {}).get("phase", "") for i in world.server.all_of(VirtualMachineInstance, NAMESPACE)]


async def test_a_machine_that_is_halted_is_stopped_and_ready() -> None:
    """Defect 3: Stopped could not be reached."""
    world = World()
    await world.make(a_wukong())
    await world.change({"startStrategy": {"runStrategy": "Halted"}})
    assert (await world.wukong()).status.phase == "Stopped"
    assert await world.condition("Ready") == ("True", "AsDesired")
    assert world.names(VirtualMachineInstance) == []

    await world.change({"startStrategy": {"runStrategy": "Always"}})
    assert (await world.wukong()).status.phase == "Running"


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ("ErrorUnschedulable", "Error"),
        ("CrashLoopBackOff", "Error"),
        ("ImagePullBackOff", "Error"),
        ("ErrorPvcNotFound", "Error"),
        ("Unknown", "Error"),
        ("Provisioning", "Creating"),
        ("WaitingForVolumeBinding", "Creating"),
    ],
)
async def test_what_kubevirt_says_of_the_machine_becomes_its_phase(status: str, phase: str) -> None:
    world = World()
    await world.make(a_wukong())
    world.standin_rests()
    failure = {"type": "Failure", "status": "True", "reason": "", "message": "0/2 nodes are available"}
    said = {"printableStatus": status, "ready": False, "conditions": [failure]}
    await world.patch(VirtualMachine, "vm", {"status": said}, "status")
    await asyncio.sleep(30)
    wukong = await world.wukong()
    assert wukong.status.phase == phase
    reason = status if phase == "Error" else "MachineStarting"
    assert await world.condition("Ready") == ("False", reason)
    assert wukong.status.conditions[0].message == f"VirtualMachine is {status}: 0/2 nodes are available"
    told = [f"VirtualMachine is {status}: 0/2 nodes are available"] if phase == "Error" else []
    assert world.events("Error") == told


async def test_a_machine_that_runs_and_is_not_ready_is_told_with_kubevirts_reason() -> None:
    world = World()
    await world.make(a_wukong())
    world.standin_rests()
    unready = {"type": "Ready", "status": "False", "reason": "GuestNotRunning", "message": "the probe failed"}
    said = {"printableStatus": "Running", "ready": False, "conditions": [unready]}
    await world.patch(VirtualMachine, "vm", {"status": said}, "status")
    await asyncio.sleep(30)
    assert await world.condition("Ready") == ("False", "MachineNotReady")
    message = (await world.wukong()).status.conditions[0].message
    assert message == "VirtualMachine is Running, not ready: the probe failed"


async def test_a_paused_machine_is_told_as_paused() -> None:
    world = World()
    await world.make(a_wukong())
    world.standin.machines.paused.add("vm")
    await world.settled()
    assert (await world.wukong()).status.phase == "Paused"
    assert await world.condition("Ready") == ("False", "MachinePaused")


async def test_deletion_ends_and_leaves_nothing() -> None:
    """Defect 1: deletion never ended once a DataVolume was gone."""
    world = World()
    await world.make(a_wukong(LARGE))
    await world.delete(Wukong, "vm")
    await world.settled()

    for kind in (Wukong, VirtualMachine, VirtualMachineInstance, DataVolume, PersistentVolumeClaim):
        assert world.names(kind) == [], kind.__name__
    assert world.names(NetworkAttachmentDefinition) == []
    assert world.names(Secret) == []


async def test_deletion_ends_also_when_others_have_deleted_the_children_before() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.operator.stop()
    await world.delete(DataVolume, "vm-root")
    await world.delete(PersistentVolumeClaim, "vm-data")
    await world.delete(NetworkAttachmentDefinition, "vm-lan-nad")
    await world.delete(Wukong, "vm")
    world.operator.start()
    await world.settled()

    assert world.names(Wukong) == world.names(DataVolume) == world.names(PersistentVolumeClaim) == []


async def test_the_machine_goes_before_its_disks_and_deletion_says_what_it_waits_for() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.patch(VirtualMachine, "vm", {"metadata": {"finalizers": ["someone/else"]}})
    await world.delete(Wukong, "vm")
    await asyncio.sleep(60)

    wukong = await world.wukong()
    assert wukong.status.phase == "Deleting"
    ready = wukong.status.conditions[0]
    assert ready.message == "waiting until VirtualMachine lab/vm is gone, held by someone/else"
    assert world.names(DataVolume) == ["vm-root"]

    await world.patch(VirtualMachine, "vm", {"metadata": {"finalizers": None}})
    await world.settled()
    assert world.names(Wukong) == []


async def test_disks_go_before_the_networks_and_deletion_says_which_disk_it_waits_for() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.patch(PersistentVolumeClaim, "vm-data", {"metadata": {"finalizers": ["someone/else"]}})
    await world.delete(Wukong, "vm")
    await asyncio.sleep(120)

    assert world.names(VirtualMachine) == world.names(DataVolume) == []
    wukong = await world.wukong()
    assert wukong.status.phase == "Deleting"
    ready = wukong.status.conditions[0]
    assert ready.message == "waiting until PersistentVolumeClaim lab/vm-data is gone, held by someone/else"
    assert world.names(NetworkAttachmentDefinition) == ["vm-lan-nad"]

    await world.patch(PersistentVolumeClaim, "vm-data", {"metadata": {"finalizers": None}})
    await world.settled()
    assert world.names(Wukong) == world.names(NetworkAttachmentDefinition) == []


async def test_fields_that_kubevirt_fills_in_are_left_alone() -> None:
    world = World()
    await world.make(a_wukong())
    defaults = {"spec": {"template": {"spec": {"architecture": "amd64", "domain": {"machine": {"type": "q35"}}}}}}
    await world.patch(VirtualMachine, "vm", defaults)
    await world.settled()

    machine = world.server.get(VirtualMachine, "vm", NAMESPACE)
    assert machine is not None
    assert machine["spec"]["template"]["spec"]["architecture"] == "amd64"
    assert world.events("Drifted") == []


async def test_what_someone_changed_in_the_machine_is_put_back() -> None:
    world = World()
    await world.make(a_wukong())
    await world.patch(VirtualMachine, "vm", {"spec": {"runStrategy": "Halted"}})
    await world.settled()
    assert (await world.machine()).spec.run_strategy == "Always"
    assert len(world.events("Drifted")) == 1


async def test_a_change_that_needs_a_restart_is_told() -> None:
    world = World()
    await world.make(a_wukong())
    assert await world.condition("RestartRequired") == ("False", "UpToDate")
    await world.change({"cpu": 4})
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")


async def test_another_instance_type_needs_a_restart_and_has_come_with_it() -> None:
    world = World()
    await world.make(a_wukong("{instancetype: {name: u1.small}, disks: [{name: root, size: 1Gi}]}"))
    assert await world.condition("RestartRequired") == ("False", "UpToDate")
    await world.change({"instancetype": {"name": "u1.large"}})
    asked = (await world.machine()).spec.instancetype
    assert asked is not None
    assert asked.name == "u1.large"
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")

    await world.delete(VirtualMachineInstance, "vm")  # as a restart does
    await world.settled()
    assert await world.condition("RestartRequired") == ("False", "UpToDate")


async def test_processors_and_memory_grow_under_a_guest_that_has_reserves_and_shrink_at_a_restart() -> None:
    world = World()
    disk = "disks: [{name: root, size: 1Gi}]"
    await world.make(a_wukong("{cpu: 2, memory: 2Gi, liveResize: {maxCpu: 8, maxMemory: 8Gi}, " + disk + "}"))
    began = (await world.instance()).metadata.uid
    await world.change({"cpu": 6, "memory": "4Gi"})
    instance = await world.instance()
    cpu, memory = instance.spec.domain.cpu, instance.spec.domain.memory
    assert cpu is not None
    assert memory is not None
    assert (cpu.sockets, cpu.cores, memory.guest, instance.metadata.uid) == (6, 1, "4Gi", began)
    assert await world.condition("RestartRequired") == ("False", "UpToDate")
    assert await world.condition("Ready") == ("True", "AsDesired")

    await world.change({"cpu": 4})
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")


async def test_a_wukong_that_comes_to_run_tells_few_things_on_its_way() -> None:
    world = World(waits=True, pace_s=0.5)
    await world.make(a_wukong(LARGE.replace("size: ", "storageClassName: fast, size: ")))
    told = [line for line in world.server.trace if "wukongs/vm/status" in line]
    assert (await world.wukong()).status.phase == "Running"
    assert len(told) <= 5, told


async def test_a_settled_wukong_is_not_written_again() -> None:
    """Defect 8: times of conditions changed in each pass, and each write caused the next."""
    world = World()
    await world.make(a_wukong(LARGE))
    before = await world.wukong()
    version = world.server.storage.version
    await world.days_pass(0.5)  # a resync

    assert world.server.storage.version == version
    assert (await world.wukong()).status == before.status


async def test_a_missing_key_is_waited_for_and_changes_of_it_arrive() -> None:
    world = World()
    spec = "{sshKeySecret: keys, " + "cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}"
    await world.make(a_wukong(spec))
    assert await world.condition("Ready") == ("False", "SecretMissing")
    assert world.names(PersistentVolumeClaim) == ["vm-root"]

    await world.add(
        Secret(metadata=ObjectMeta(name="keys", namespace=NAMESPACE), data={"ssh-publickey": b"ssh-ed25519 AAAA one"})
    )
    assert b"ssh-ed25519 AAAA one" in (await world.secret("vm-cloud-init")).data["userdata"]
    assert (await world.wukong()).status.phase == "Running"

    two = base64.b64encode(b"ssh-ed25519 BBBB two").decode()
    await world.patch(Secret, "keys", {"data": {"ssh-publickey": two}})
    await world.settled()
    user_data = (await world.secret("vm-cloud-init")).data["userdata"]
    assert b"ssh-ed25519 BBBB two" in user_data
    assert b"ssh-ed25519 AAAA one" not in user_data


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        (KUBEVIRT, "KubeVirtMissing"),
        ((DataVolume,), "CDIMissing"),
        ((NetworkAttachmentDefinition,), "MultusMissing"),
    ],
    ids=["KubeVirt", "CDI", "Multus"],
)
async def test_a_missing_definition_is_told_once_and_the_work_goes_on_when_it_appears(
    lacking: tuple[type[VirtualMachine], ...], reason: str
) -> None:
    world = World(lacking=lacking)
    await world.make(a_wukong(LARGE))
    assert await world.condition("Ready") == ("False", reason)
    assert await world.condition("Stalled") == ("True", reason)
    assert len(world.events(reason)) == 1
    assert world.names(VirtualMachine) == [] if VirtualMachine not in lacking else True
    assert "vm-data" in world.names(PersistentVolumeClaim)

    for kind in lacking:
        world.serve(kind)
    await asyncio.sleep(120)
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"


async def test_deletion_ends_without_kubevirt_too() -> None:
    world = World(lacking=KUBEVIRT)
    await world.make(a_wukong(LARGE))
    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(Wukong) == world.names(PersistentVolumeClaim) == []


async def test_what_no_rule_can_say_is_told_as_a_condition_and_put_right_by_an_edit() -> None:
    world = World()
    await world.make(a_wukong("{cpu: 3, cpuOptions: {sockets: 2}, memory: 1Gi, disks: [{name: root, size: 1Gi}]}"))
    assert await world.condition("Stalled") == ("True", "BadSpec")
    assert "cannot be divided into 2 sockets" in (await world.wukong()).status.conditions[0].message
    assert world.names(PersistentVolumeClaim) == ["vm-root"]
    await world.change({"cpu": 4})
    assert (await world.wukong()).status.phase == "Running"


@pytest.mark.parametrize(
    ("refused", "made"),
    [
        (NetworkAttachmentDefinition, (DataVolume, PersistentVolumeClaim)),
        (DataVolume, (PersistentVolumeClaim, NetworkAttachmentDefinition)),
        (PersistentVolumeClaim, (DataVolume, NetworkAttachmentDefinition)),
    ],
    ids=["network", "filled disk", "claim"],
)
async def test_one_disk_or_network_that_is_refused_does_not_stop_the_others(
    refused: type[Object], made: tuple[type[Object], ...]
) -> None:
    world = World()
    await world.begin()
    resource, method = refused.resource.plural_and_group, "PATCH" if refused is NetworkAttachmentDefinition else "POST"
    world.server.fail_next(Fault.FORBID, resource=resource, method=method, client="operator", times=100)
    await world.client.create(a_wukong(LARGE), field_manager="person")
    await asyncio.sleep(60)
    for kind in made:
        assert world.names(kind), kind.__name__
    assert world.names(VirtualMachine) == []
    assert (await world.condition("Ready"))[1] == "Forbidden"


async def test_a_machine_of_that_name_that_is_not_ours_is_never_touched() -> None:
    world = World()
    foreign = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "vm", "namespace": NAMESPACE},
        "spec": {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}},
    }
    world.server.add(foreign)
    await world.make(a_wukong())
    assert await world.condition("Ready") == ("False", "NameTaken")

    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(VirtualMachine) == ["vm"]
    assert world.names(Wukong) == []


async def test_a_suspended_wukong_is_left_alone() -> None:
    world = World()
    await world.make(a_wukong("{suspend: true, " + "cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}"))
    assert world.names(PersistentVolumeClaim) == []
    assert await world.condition("Ready") == ("False", "Suspended")
    with pytest.raises(NotFound):
        await world.machine()


async def test_a_rough_server_delays_and_spoils_nothing() -> None:
    world = World(seed=11)
    await world.begin(a_wukong(LARGE))
    world.server.faults = ROUGH
    await asyncio.sleep(120)
    world.server.stop_faults()
    await converged(world.server, world.build, within_s=900, quiet_s=90)
    assert (await world.wukong()).status.phase == "Running"
    assert world.names(PersistentVolumeClaim) == ["vm-data", "vm-root"]
