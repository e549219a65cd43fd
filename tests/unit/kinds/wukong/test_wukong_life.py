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
from corral.kube.models.core_v1 import PersistentVolumeClaim, Secret, Service
from corral.kube.models.networking_v1 import NetworkPolicy
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


async def test_the_machine_is_made_only_when_networks_and_disks_are_there_and_progress_is_told_meanwhile() -> None:
    world = World(pace_s=10)  # an import takes its time
    await world.begin(a_wukong(LARGE))
    seen: list[tuple[str | None, str, bool]] = []
    for _ in range(80):
        await asyncio.sleep(5)
        status = (await world.wukong()).status
        seen.append((status.phase, status.volumes[0].progress, bool(world.names(VirtualMachine))))

    assert ("Creating", "48.20%", False) in seen, seen
    assert ("Creating", "48.20%", True) not in seen
    assert seen[-1] == ("Running", "", True)


async def test_status_has_names_and_networks_from_the_first_look_on() -> None:
    """Defect 4: names, networks and node were not saved while creating."""
    world = World()
    world.standin.volumes.failing["vm-root"] = "no such file"
    await world.make(a_wukong(LARGE))

    status = (await world.wukong()).status
    assert status.vm_name == "vm"
    assert [network.nad_name for network in status.networks] == ["", "vm-lan-nad"]
    assert all(network.mac_address.startswith("02:") for network in status.networks)


@pytest.mark.parametrize("csi", [False, True], ids=["WaitForFirstConsumer", "PendingPopulation"])
async def test_a_disk_that_waits_for_its_consumer_gets_it(csi: bool) -> None:
    """Defect 6: machine and disk waited for each other for ever."""
    world = World(waits=True, csi=csi)
    await world.make(a_wukong(LARGE.replace("size: 10Gi", "size: 10Gi, storageClassName: fast")))

    assert (await world.wukong()).status.phase == "Running"
    assert await world.condition("VolumesBound") == ("True", "VolumesReady")


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


async def test_a_kept_disk_outlives_its_wukong_and_a_new_one_of_the_name_gets_it() -> None:
    world = World()
    kept = LARGE.replace("size: 50Gi", "size: 50Gi, keepOnDelete: true")
    await world.make(a_wukong(kept))
    before = (await world.claim("vm-data")).metadata.uid
    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(PersistentVolumeClaim) == ["vm-data"]

    await world.add(a_wukong(kept))
    assert (await world.wukong()).status.phase == "Running"
    assert (await world.claim("vm-data")).metadata.uid == before


async def test_a_disk_taken_out_of_the_spec_goes_once_the_machine_has_let_go_of_it() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.change(
        {"disks": [{"name": "root", "size": "10Gi", "image": "docker://images.test/debian:13", "boot": True}]}
    )
    assert [v.name for v in (await world.machine()).spec.template.spec.volumes] == ["root", "cloudinit"]
    assert "vm-data" in world.names(PersistentVolumeClaim)  # the running instance still has it
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")

    await world.change({"startStrategy": {"runStrategy": "Halted"}})
    assert world.names(PersistentVolumeClaim) == ["vm-root"]


async def test_a_disk_that_comes_while_the_machine_runs_is_plugged_in() -> None:
    world = World()
    await world.make(a_wukong())
    root = {"name": "root", "size": "10Gi", "image": "https://images.test/debian.qcow2"}
    await world.change({"disks": [root, {"name": "more", "size": "5Gi"}]})

    volumes = {v.name: v for v in (await world.machine()).spec.template.spec.volumes}
    assert volumes["more"].persistent_volume_claim is not None
    assert volumes["more"].persistent_volume_claim.hotpluggable is True
    assert volumes["root"].data_volume is not None
    assert volumes["root"].data_volume.hotpluggable is None
    assert "more" in {volume.name for volume in (await world.instance()).status.volume_status}
    assert await world.condition("RestartRequired") == ("False", "UpToDate")

    await world.change({"disks": [root]})
    assert {volume.name for volume in (await world.instance()).status.volume_status} == {"root", "cloudinit"}
    assert world.names(PersistentVolumeClaim) == ["vm-root"]


@pytest.mark.parametrize("bus", ["sata", "usb"])
async def test_a_disk_on_a_bus_that_cannot_be_plugged_waits_for_the_next_start(bus: str) -> None:
    world = World()
    await world.make(a_wukong())
    root = {"name": "root", "size": "10Gi", "image": "https://images.test/debian.qcow2"}
    await world.change({"disks": [root, {"name": "more", "size": "5Gi", "bus": bus}]})
    assert "more" not in {volume.name for volume in (await world.instance()).status.volume_status}
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")

    await world.delete(VirtualMachineInstance, "vm")
    await world.settled()
    assert "more" in {volume.name for volume in (await world.instance()).status.volume_status}
    assert await world.condition("RestartRequired") == ("False", "UpToDate")


async def test_a_disk_that_someone_else_plugged_in_stays() -> None:
    """Defect 9: the machine's spec was overwritten in each pass."""
    world = World()
    await world.make(a_wukong())
    machine = world.server.get(VirtualMachine, "vm", NAMESPACE)
    assert machine is not None
    spec = machine["spec"]["template"]["spec"]
    foreign = {"name": "usb", "persistentVolumeClaim": {"claimName": "stick", "hotpluggable": True}}
    disks = [*spec["domain"]["devices"]["disks"], {"name": "usb", "disk": {"bus": "scsi"}}]
    await world.patch(
        VirtualMachine,
        "vm",
        {
            "spec": {
                "template": {"spec": {"volumes": [*spec["volumes"], foreign], "domain": {"devices": {"disks": disks}}}}
            }
        },
    )
    await world.settled()
    await world.change({"cpu": 3})

    after = await world.machine()
    assert [v.name for v in after.spec.template.spec.volumes] == ["root", "cloudinit", "usb"]
    assert [d.name for d in after.spec.template.spec.domain.devices.disks] == ["root", "cloudinit", "usb"]


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


async def test_a_disk_that_fails_is_told_in_cdis_words_and_does_not_stop_the_others() -> None:
    world = World()
    world.standin.volumes.failing["vm-root"] = "404 Not Found"
    await world.make(a_wukong(LARGE))

    wukong = await world.wukong()
    assert wukong.status.phase == "Error"
    assert await world.condition("Stalled") == ("True", "DiskFailed")
    assert "404 Not Found" in wukong.status.conditions[0].message
    assert (await world.claim("vm-data")).status.phase == "Bound"
    assert world.names(NetworkAttachmentDefinition) == ["vm-lan-nad"]
    assert len(world.events("DiskFailed")) == 1
    assert world.events("Error") == ["the virtual machine cannot start: failed is disk root"]

    world.standin.volumes.failing.clear()
    await world.delete(DataVolume, "vm-root")
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"


async def test_a_machine_that_runs_is_told_as_running_though_a_new_disk_of_it_fails() -> None:
    world = World()
    world.standin.volumes.failing["vm-more"] = "404 Not Found"
    await world.make(a_wukong())
    root = {"name": "root", "size": "10Gi", "image": "https://images.test/debian.qcow2"}
    await world.change({"disks": [root, {"name": "more", "size": "1Gi", "image": "https://images.test/more.qcow2"}]})

    assert (await world.wukong()).status.phase == "Running"
    assert world.events("Error") == []
    assert await world.condition("Stalled") == ("True", "DiskFailed")
    assert (await world.condition("LiveMigratable"))[0] == "True"


async def test_a_disk_that_a_person_uploads_says_how_and_the_machine_is_made_then() -> None:
    world = World()
    await world.make(a_wukong("{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi, source: {upload: true}}]}"))
    assert await world.condition("Stalled") == ("True", "UploadAwaited")
    (told,) = world.events("UploadAwaited")
    assert "virtctl image-upload dv vm-root --namespace lab --no-create --image-path FILE" in told

    world.standin.volumes.uploaded.add("vm-root")
    await asyncio.sleep(30)
    await world.settled()
    assert (await world.wukong()).status.phase == "Running"


async def test_a_network_that_is_named_is_waited_for_and_never_deleted() -> None:
    world = World()
    await world.make(a_wukong(LARGE.replace("bridgeName: br0, vlanId: 42", "nadName: shared")))
    assert await world.condition("Ready") == ("False", "NetworkMissing")
    assert await world.condition("NetworksConfigured") == ("False", "NetworksMissing")
    assert world.names(VirtualMachine) == []

    await world.add(NetworkAttachmentDefinition(metadata=ObjectMeta(name="shared", namespace=NAMESPACE)))
    assert (await world.wukong()).status.phase == "Running"

    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(NetworkAttachmentDefinition) == ["shared"]


async def test_a_network_that_others_name_too_goes_to_them_and_with_the_last_of_them() -> None:
    world = World()
    shared = LARGE.replace("bridgeName: br0, vlanId: 42", "nadName: vm-lan-nad")
    await world.make(a_wukong(LARGE), a_wukong(shared, "second"), a_wukong(shared, "third"))
    before = world.server.get(NetworkAttachmentDefinition, "vm-lan-nad", NAMESPACE)
    assert before is not None

    owners = []
    for leaves in ("vm", "second"):
        await world.delete(Wukong, leaves)
        await world.settled()
        found = world.server.get(NetworkAttachmentDefinition, "vm-lan-nad", NAMESPACE)
        assert found is not None
        assert (found["metadata"]["uid"], found["spec"]) == (before["metadata"]["uid"], before["spec"])
        owners += [owner["name"] for owner in found["metadata"]["ownerReferences"]]
    assert owners == ["second", "third"]
    assert (await world.wukong("third")).status.phase == "Running"

    await world.delete(Wukong, "third")
    await world.settled()
    assert world.names(NetworkAttachmentDefinition) == []


async def test_a_network_that_its_wukong_no_longer_has_stays_with_those_that_do() -> None:
    world = World()
    shared = LARGE.replace("bridgeName: br0, vlanId: 42", "nadName: vm-lan-nad")
    await world.make(a_wukong(LARGE), a_wukong(shared, "second"))
    await world.change({"networks": []})
    assert world.names(NetworkAttachmentDefinition) == ["vm-lan-nad"]
    await world.change({"networks": []}, "second")
    assert world.names(NetworkAttachmentDefinition) == []


async def test_a_network_taken_out_of_the_spec_is_unplugged_first_and_then_goes() -> None:
    world = World()
    await world.make(a_wukong(LARGE))
    await world.operator.stop()
    await world.patch(Wukong, "vm", {"spec": {"networks": []}})
    world.standin_rests()
    world.operator.start()
    await asyncio.sleep(30)
    machine = await world.machine()
    leaving = {i.name: i.state for i in machine.spec.template.spec.domain.devices.interfaces}
    assert leaving == {"default": None, "lan": "absent"}
    assert world.names(NetworkAttachmentDefinition) == ["vm-lan-nad"]

    world.standin_goes_on()
    await world.settled()
    devices = (await world.machine()).spec.template.spec.domain.devices
    assert [interface.name for interface in devices.interfaces] == ["default"]
    assert world.names(NetworkAttachmentDefinition) == []
    assert (await world.wukong()).status.phase == "Running"


async def test_a_network_that_comes_while_the_machine_runs_is_plugged_in() -> None:
    world = World()
    await world.make(a_wukong())
    before = (await world.instance()).metadata.uid
    await world.change({"networks": [{"name": "lan", "bridgeName": "br0"}]})

    instance = await world.instance()
    assert instance.metadata.uid == before
    assert [i.name for i in instance.status.interfaces] == ["default", "lan"]
    assert [n.ip_address for n in (await world.wukong()).status.networks] == ["10.0.0.5", "10.0.1.5"]
    assert await world.condition("RestartRequired") == ("False", "UpToDate")


async def test_a_service_leads_to_the_guest_for_as_long_as_it_is_asked_for() -> None:
    world = World()
    ports = [{"name": "ssh", "port": 2222, "targetPort": 22}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    await world.make(a_wukong())
    await world.change({"service": {"type": "LoadBalancer", "ports": ports}})
    service = world.server.get(Service, "vm", NAMESPACE)
    assert service is not None
    assert service["spec"]["type"] == "LoadBalancer"
    assert [(p["port"], p["targetPort"], p["protocol"]) for p in service["spec"]["ports"]] == [
        (2222, 22, "TCP"),
        (53, 53, "UDP"),
    ]
    labels = (await world.instance()).metadata.labels  # KubeVirt's pod has those of its instance
    assert service["spec"]["selector"].items() <= labels.items()

    await world.change({"service": None})
    assert world.names(Service) == []


async def test_a_service_of_that_name_that_is_not_ours_is_told_and_the_machine_runs() -> None:
    world = World()
    world.server.add(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vm", "namespace": NAMESPACE},
            "spec": {"ports": [{"port": 80}]},
        }
    )
    await world.make(a_wukong())
    assert (await world.wukong()).status.phase == "Running"
    await world.change({"service": {"ports": [{"name": "ssh", "port": 22}]}})
    assert await world.condition("Ready") == ("False", "NameTaken")
    await world.delete(Wukong, "vm")
    await world.settled()
    assert world.names(Service) == ["vm"]


@pytest.mark.parametrize(
    ("preset", "opened"),
    [
        ("Closed", []),
        ("Service", [{"ports": [{"port": 22, "protocol": "TCP"}]}]),
        ("Namespace", [{"from": [{"podSelector": {}}]}]),
    ],
)
async def test_a_network_policy_lets_in_whom_the_wukong_says(preset: str, opened: list[dict[str, object]]) -> None:
    world = World()
    ports = [{"name": "ssh", "port": 2222, "targetPort": 22}]
    await world.make(a_wukong())
    await world.change({"networkPolicy": preset, "service": {"ports": ports}})
    policy = world.server.get(NetworkPolicy, "vm", NAMESPACE)
    assert policy is not None
    assert (policy["spec"].get("ingress", []), policy["spec"]["policyTypes"]) == (opened, ["Ingress"])
    labels = (await world.instance()).metadata.labels
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()

    await world.change({"networkPolicy": None})
    assert world.names(NetworkPolicy) == []


async def test_a_policy_for_the_ports_of_a_service_that_is_not_there_opens_nothing() -> None:
    world = World()
    await world.make(a_wukong("{networkPolicy: Service, cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]}"))
    policy = world.server.get(NetworkPolicy, "vm", NAMESPACE)
    assert policy is not None
    assert "ingress" not in policy["spec"]


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
