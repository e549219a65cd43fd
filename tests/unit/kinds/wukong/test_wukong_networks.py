"""Networks in virtual time: of its own, shared and plugged; and who reaches the guest, by Service and policy."""

import asyncio

import pytest

from corral.kinds.wukong.api.kubevirt import VirtualMachine
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.spec import Wukong
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Service
from corral.kube.models.networking_v1 import NetworkPolicy
from tests.unit.kinds.wukong.world import LARGE, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)


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
