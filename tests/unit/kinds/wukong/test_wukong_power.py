"""`corral vm`: a person's word becomes an edit of the Wukong or an action of KubeVirt, and the machine follows it."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from corral.cli import console
from corral.cli.console import joined
from corral.cli.errors import Failure
from corral.cli.vm import Decide, carried_out, disks_of, open_console
from corral.kinds.wukong import power
from corral.kinds.wukong.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
    migration_to,
)
from corral.kinds.wukong.guestdisks import disk_rows
from corral.kinds.wukong.power import Machine
from corral.kinds.wukong.spec import VolumeStatus
from corral.kube.client import Client
from corral.testing.apiserver.faults import Fault
from corral.testing.kubevirt_standin.subresources import EchoConsole, StandInApi
from tests.unit.kinds.wukong.world import KUBEVIRT, NAMESPACE, World, a_wukong

pytestmark = pytest.mark.looptime(noop_cycles=0)

BASE = "cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}]"


class PowerWorld(World):
    async def say(self, decide: Decide) -> str:
        """A word of a person, and what came of it."""
        said = await carried_out(self.people(), NAMESPACE, "vm", decide)
        await self.settled()
        return said

    def people(self) -> Client:
        self.api = StandInApi(self.server.connect("person"), self.standin)
        return Client(self.api)

    async def phase(self) -> str:
        return (await self.wukong()).status.phase or ""


async def with_strategy(strategy: str) -> PowerWorld:
    world = PowerWorld()
    await world.make(a_wukong(f"{{{BASE}, startStrategy: {strategy}}}"))
    return world


@pytest.mark.parametrize("strategy", ["{}", "{runStrategy: Always}", "{runStrategy: RerunOnFailure}"])
async def test_a_machine_stops_and_a_start_brings_its_strategy_back(strategy: str) -> None:
    world = await with_strategy(strategy)
    before = (await world.wukong()).spec
    assert await world.say(power.stop) == "Wukong lab/vm is set to stop"
    assert await world.phase() == "Stopped"
    assert await world.condition("Ready") == ("True", "AsDesired")
    assert await world.say(power.stop) == "Wukong lab/vm is already set to stop"

    assert await world.say(power.start) == "Wukong lab/vm is set to run"
    assert await world.phase() == "Running"
    assert (await world.wukong()).spec == before
    assert world.events("Drifted") == []


async def test_an_edit_that_comes_too_late_is_decided_anew_and_not_for_ever() -> None:
    world = await with_strategy("{}")
    world.server.fail_next(Fault.CONFLICT, method="PATCH", client="person", times=2)
    assert await world.say(power.stop) == "Wukong lab/vm is set to stop"
    world.server.fail_next(Fault.CONFLICT, method="PATCH", client="person", times=100)
    with pytest.raises(Failure, match="is being changed by others all the time; nothing was done, try again"):
        await world.say(power.start)


async def test_a_suspended_machine_is_not_told_to_stop_or_start_and_its_spec_stays() -> None:
    world = await with_strategy("{}")
    await world.change({"suspend": True})
    before = (await world.wukong()).spec
    with pytest.raises(Failure, match=r"is suspended; remove spec\.suspend first"):
        await world.say(power.stop)
    assert (await world.wukong()).spec == before


async def test_a_machine_with_a_restart_policy_stops_and_starts_too() -> None:
    world = PowerWorld()
    await world.make(a_wukong(f"{{{BASE}, highAvailability: {{restartPolicy: OnFailure}}}}"))
    await world.say(power.stop)
    assert await world.phase() == "Stopped"
    await world.say(power.start)
    assert (await world.machine()).spec.run_strategy == "RerunOnFailure"


async def test_a_machine_that_is_started_by_hand_is_started_by_kubevirt_and_its_spec_stays() -> None:
    world = await with_strategy("{runStrategy: Manual}")
    assert await world.phase() == "Stopped"
    assert await world.say(power.start) == "Wukong lab/vm is started"
    assert await world.phase() == "Running"
    assert await world.say(power.start) == "Wukong lab/vm is already running"
    await world.say(power.stop)
    assert await world.phase() == "Stopped"
    assert (await world.machine()).spec.run_strategy == "Manual"


async def test_a_forced_stop_does_not_wait_for_the_guest() -> None:
    world = await with_strategy("{}")
    sent = power.stop(await world_machine(world), force=True).steps
    assert sent[-1] == power.Act(power.MACHINES, "stop", {"gracePeriod": 0})
    await world.say(lambda it: power.stop(it, force=True))
    assert await world.phase() == "Stopped"
    assert world.events("Drifted") == []


async def world_machine(world: World) -> Machine:
    return Machine(await world.wukong(), True, await world.instance())


async def test_a_restart_brings_the_changes_that_need_one() -> None:
    world = await with_strategy("{}")
    await world.change({"cpu": 3})
    before = (await world.instance()).metadata.uid
    assert await world.condition("RestartRequired") == ("True", "RestartRequired")

    assert await world.say(power.restart) == "Wukong lab/vm is restarted"
    instance = await world.instance()
    assert instance.metadata.uid != before
    assert instance.spec.domain.cpu is not None
    assert instance.spec.domain.cpu.cores == 3
    assert await world.condition("RestartRequired") == ("False", "UpToDate")


async def test_a_forced_restart_does_not_wait_for_the_guest() -> None:
    world = await with_strategy("{}")
    before = await world_machine(world)
    assert power.restart(before, force=True).steps == (power.Act(power.MACHINES, "restart", {"gracePeriodSeconds": 0}),)
    assert power.restart(before).steps == (power.Act(power.MACHINES, "restart", {}),)
    assert await world.say(lambda it: power.restart(it, force=True)) == "Wukong lab/vm is restarted"
    assert before.instance is not None
    assert (await world.instance()).metadata.uid != before.instance.metadata.uid


async def test_a_machine_that_runs_once_is_not_started_again_when_it_has_ended() -> None:
    world = await with_strategy("{runStrategy: Once}")
    assert await world.phase() == "Running"
    world.standin.machines.ending["vm"] = "Succeeded"
    await world.settled()
    assert await world.phase() == "Stopped"
    assert await world.condition("Ready") == ("True", "AsDesired")
    with pytest.raises(Failure, match="has run once, as its runStrategy asks; choose another to run it again"):
        await world.say(power.start)
    assert await world.phase() == "Stopped"


async def test_a_guest_can_be_asked_to_restart_itself() -> None:
    world = await with_strategy("{}")
    await world.say(lambda it: power.restart(it, soft=True))
    assert world.standin.machines.soft_reboots == ["vm"]


async def test_a_machine_is_paused_and_goes_on() -> None:
    world = await with_strategy("{}")
    assert await world.say(power.pause) == "Wukong lab/vm is paused"
    assert await world.phase() == "Paused"
    assert await world.say(power.pause) == "Wukong lab/vm is already paused"
    assert await world.say(power.unpause) == "Wukong lab/vm continues"
    assert await world.phase() == "Running"
    assert await world.say(power.unpause) == "Wukong lab/vm is not paused"


async def test_a_machine_moves_to_another_node_and_is_told_as_migrating_meanwhile() -> None:
    world = await with_strategy("{}")
    world.standin.pace_s = 20
    assert await carried_out(world.people(), NAMESPACE, "vm", power.migrate) == (
        "Wukong lab/vm migrates from node-a to another node"
    )
    seen = set()
    for _ in range(60):
        await asyncio.sleep(2)
        seen.add(await world.phase())
    assert seen == {"Running", "Migrating"}
    assert (await world.wukong()).status.node_name == "node-b"


async def test_a_move_that_fails_is_told_once_in_kubevirts_words_and_forgotten_with_the_next_one() -> None:
    world = await with_strategy("{}")
    world.standin.machines.failing_moves["vm"] = "the guest writes faster than it can be copied"
    await world.say(power.migrate)
    status = (await world.wukong()).status
    assert (status.phase, status.node_name) == ("Running", "node-a")
    assert status.failed_move.startswith("migration from node-a to node-b (begun 2026-")
    assert status.failed_move.endswith("failed: the guest writes faster than it can be copied")
    assert await world.condition("Ready") == ("True", "AsDesired")
    await world.say(power.migrate)
    events = world.events("MoveFailed")
    assert f"the virtual machine stays on its node: {status.failed_move}" in events
    assert len(events) == len(set(events)) == 2

    world.standin.machines.failing_moves.clear()
    await world.say(power.migrate)
    status = (await world.wukong()).status
    assert (status.node_name, status.failed_move) == ("node-b", "")
    assert len(world.events("MoveFailed")) == 2


async def test_a_move_that_does_not_end_is_told_after_a_while_and_no_more_when_it_has_ended() -> None:
    world = await with_strategy("{}")
    world.standin_rests()  # who moves it has died
    begun = world.server.now()
    moving = {"completed": False, "failed": False, "sourceNode": "node-a", "targetNode": "node-b"}
    started = {**moving, "startTimestamp": f"{begun:%Y-%m-%dT%H:%M:%SZ}"}
    await world.patch(VirtualMachineInstance, "vm", {"status": {"migrationState": started}})
    await world.patch(VirtualMachine, "vm", {"status": {"printableStatus": "Migrating"}}, "status")
    await asyncio.sleep(10 * 60)
    assert (await world.phase(), await world.condition("Ready")) == ("Migrating", ("True", "AsDesired"))
    await asyncio.sleep(6 * 60)
    assert (await world.phase(), await world.condition("Ready")) == ("Migrating", ("False", "MoveTakesLong"))
    told = (await world.wukong()).status.conditions[0].message
    assert told.startswith(f"migration from node-a to node-b (begun {begun:%Y-%m-%dT%H:%M:%SZ}) has not ended")

    await world.patch(VirtualMachineInstance, "vm", {"status": {"migrationState": {"completed": True}}})
    await world.patch(VirtualMachine, "vm", {"status": {"printableStatus": "Running"}}, "status")
    await asyncio.sleep(10)
    assert (await world.phase(), await world.condition("Ready")) == ("Running", ("True", "AsDesired"))


async def test_a_machine_whose_node_is_drained_is_moved_as_its_eviction_strategy_says_and_stays_ready() -> None:
    """KubeVirt's part: it answers an eviction of the machine's pod with a migration of its own making."""
    world = PowerWorld()
    await world.make(a_wukong(f"{{{BASE}, highAvailability: {{evictionStrategy: LiveMigrate}}}}"))
    instance = await world.instance()
    assert (instance.spec.eviction_strategy, instance.status.node_name) == ("LiveMigrate", "node-a")
    world.standin.pace_s = 20
    evacuation = migration_to("", "vm", NAMESPACE, labels={"kubevirt.io/evacuation": "node-a"})
    await world.client.create(evacuation, field_manager="kubevirt")
    seen = set()
    for _ in range(60):
        await asyncio.sleep(2)
        seen.add((await world.phase(), *await world.condition("Ready")))
    assert seen == {("Running", "True", "AsDesired"), ("Migrating", "True", "AsDesired")}
    assert (await world.wukong()).status.node_name == "node-b"
    assert (await world.instance()).metadata.uid == instance.metadata.uid, "its guest ran on"


async def test_a_move_names_its_node_and_a_machine_that_cannot_move_says_why() -> None:
    world = await with_strategy("{}")
    await world.say(lambda it: power.migrate(it, node="node-b"))
    (moved,) = world.server.all_of(VirtualMachineInstanceMigration, NAMESPACE)
    assert moved["spec"] == {"vmiName": "vm", "addedNodeSelector": {"kubernetes.io/hostname": "node-b"}}
    assert await world.say(lambda it: power.migrate(it, node="node-b")) == "Wukong lab/vm is on node-b already"

    world.standin.machines.immovable["vm"] = "disk root is not shared"
    await world.settled()
    assert await world.condition("LiveMigratable") == ("False", "KubeVirtSaysSo")
    with pytest.raises(Failure, match="cannot be migrated live: disk root is not shared"):
        await world.say(power.migrate)


@pytest.mark.parametrize("decide", [power.restart, power.pause, power.unpause, power.migrate])
async def test_what_needs_a_running_machine_says_how_to_start_it(decide: Decide) -> None:
    world = await with_strategy("{runStrategy: Halted}")
    with pytest.raises(Failure, match="does not run; `corral vm start vm` starts it"):
        await world.say(decide)


async def test_without_kubevirt_every_word_is_answered_by_what_is_missing() -> None:
    world = PowerWorld(lacking=KUBEVIRT)
    await world.make(a_wukong())
    with pytest.raises(Failure, match=r"does not serve virtualmachines.kubevirt.io: .* waits for KubeVirt; install it"):
        await world.say(power.start)
    with pytest.raises(Failure, match="there is no Wukong lab/other"):
        await carried_out(world.people(), NAMESPACE, "other", power.start)


@pytest.mark.parametrize("decide", [power.start, power.stop, power.restart, power.pause, power.migrate])
async def test_a_machine_of_somebody_else_is_not_touched(decide: Decide) -> None:
    world = PowerWorld()
    spec = {"runStrategy": "Always", "template": {"spec": {"domain": {"devices": {}}}}}
    metadata = {"name": "vm", "namespace": NAMESPACE}
    world.server.add({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": metadata, "spec": spec})
    await world.make(a_wukong())
    before = (await world.wukong()).spec
    with pytest.raises(Failure, match="VirtualMachine lab/vm exists and does not belong to Wukong lab/vm"):
        await world.say(decide)
    assert (await world.wukong()).spec == before
    assert (world.standin.machines.paused, world.names(VirtualMachineInstanceMigration)) == (set(), [])


async def test_a_virt_api_that_does_not_answer_is_named() -> None:
    world = await with_strategy("{}")
    people = world.people()
    world.api.runs = False
    with pytest.raises(Failure, match="served by KubeVirt's virt-api: does it run"):
        await carried_out(people, NAMESPACE, "vm", power.pause)


async def typed(*keys: bytes) -> AsyncIterator[bytes]:
    for key in keys:
        yield key
        await asyncio.sleep(1)


async def test_the_console_carries_keys_and_words_until_a_person_leaves() -> None:
    heard: list[bytes] = []
    await joined(EchoConsole(""), typed(b"root\r", b"exit\x1dnever sent", b"nor this"), heard.append)
    assert b"".join(heard) == b"\r\nvm login: root\rexit"


async def test_the_console_of_a_machine_that_does_not_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await with_strategy("{}")
    heard: list[bytes] = []
    monkeypatch.setattr(console, "show", heard.append)
    monkeypatch.setattr(console, "keyboard", lambda _stdin: typed(b"hello", console.LEAVE))
    await open_console(world.people(), NAMESPACE, "vm")
    assert b"".join(heard) == b"\r\nvm login: hello"

    await world.say(power.stop)
    with pytest.raises(Failure, match="does not run: it has no console"):
        await open_console(world.people(), NAMESPACE, "vm")


def a_file_system(serial: str, mount: str, gib: float) -> dict[str, object]:
    size = int(gib * (1 << 30))
    disk = [{"serial": serial, "busType": "virtio"}]
    return {"diskName": "vda1", "mountPoint": mount, "fileSystemType": "ext4", "totalBytes": size, "disk": disk}


async def test_disks_are_shown_as_they_were_asked_for_as_they_are_and_as_the_guest_sees_them() -> None:
    world = PowerWorld()
    disks = "[{name: root, size: 10Gi}, {name: data, size: 20Gi}, {name: raw, size: 1Gi}]"
    await world.make(a_wukong(f"{{cpu: 1, memory: 1Gi, disks: {disks}}}"))
    people = world.people()
    world.standin.machines.file_systems["vm"] = [
        a_file_system("root", "/boot/efi", 0.1),
        a_file_system("root", "/", 9.4),
        a_file_system("data", "/data", 9.8),
        a_file_system("somebody's", "/mnt", 1),
    ]
    root, data, raw = await disks_of(people, NAMESPACE, "vm")
    assert (root.asked, root.size, [one.mount_point for one in root.guest], root.remark) == (
        "10Gi",
        "10Gi",
        ["/boot/efi", "/"],
        "",
    )
    assert data.remark == "the guest's file systems use 10035Mi of it: grow partition and file system there"
    assert (raw.guest, raw.remark) == ((), "the guest tells of no file system on it")

    world.standin.machines.agentless.add("vm")
    with pytest.raises(Failure, match=r"guest agent connected.*agent is what tells of its file systems"):
        await disks_of(people, NAMESPACE, "vm")
    world.api.runs = False
    with pytest.raises(Failure, match="virt-api: does it run"):
        await disks_of(people, NAMESPACE, "vm")
    await world.say(power.stop)
    with pytest.raises(Failure, match="does not run: `corral vm start vm` starts it"):
        await disks_of(people, NAMESPACE, "vm")


def test_a_volume_that_has_not_grown_is_told_before_what_the_guest_makes_of_it() -> None:
    wukong = a_wukong("{cpu: 1, memory: 1Gi, disks: [{name: root, size: 20Gi}]}")
    status = msgspec.structs.replace(wukong.status, volumes=(VolumeStatus(name="root", size="10Gi"),))
    (row,) = disk_rows(msgspec.structs.replace(wukong, status=status), ())
    assert row.remark == "the volume has not grown yet: see DisksResized in `corral explain`"
