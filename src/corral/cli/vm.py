"""`corral vm`: start, stop, restart, pause, unpause, migrate a Wukong's machine, its disks and its console."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import click
import msgspec

from corral.cli import console
from corral.cli.errors import Failure
from corral.cli.options import Cluster, cluster_options
from corral.cli.output import table
from corral.engine import is_controlled_by
from corral.engine.children import name_taken
from corral.kinds.wukong import names, power
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance, migration_to
from corral.kinds.wukong.guestdisks import DiskRow, FileSystems, disk_rows, in_mib
from corral.kinds.wukong.power import Act, CannotDo, Decision, Edit, Machine, Step
from corral.kinds.wukong.spec import Wukong
from corral.kube.client import Client, Precondition
from corral.kube.errors import ApiError, Conflict, NotFound, ServerError
from corral.kube.meta import Object

FIELD_MANAGER = "corral-vm"
CONSOLE_PROTOCOL = "plain.kubevirt.io"
TRIES_MAX = 5

T = TypeVar("T", bound=Object)
Decide = Callable[[Machine], Decision]


@click.group("vm", short_help="Start, stop, restart, pause or move a virtual machine; its disks and console")
def vm_command() -> None:
    """Start, stop, restart, pause or move the machine of a Wukong, show its disks, or open its console."""


@vm_command.command("start")
@click.argument("name")
@cluster_options
def start_command(name: str, cluster: Cluster) -> None:
    """Let the machine run: in the Wukong's spec, or, when that leaves it to people (Manual), by KubeVirt."""
    _carry_out(cluster, name, power.start)


@vm_command.command("stop")
@click.argument("name")
@click.option("--force", is_flag=True, help="Cut it off: the guest is not asked to shut down.")
@cluster_options
def stop_command(name: str, force: bool, cluster: Cluster) -> None:
    """Stop the machine, for as long as nobody starts it."""
    _carry_out(cluster, name, lambda it: power.stop(it, force=force))


@vm_command.command("restart")
@click.argument("name")
@click.option("--force", is_flag=True, help="Cut it off: the guest is not asked to shut down.")
@click.option("--soft", is_flag=True, help="Ask the guest to restart itself; needs its agent. Changes do not arrive.")
@cluster_options
def restart_command(name: str, force: bool, soft: bool, cluster: Cluster) -> None:
    """Stop the machine and start it again, as its spec is now."""
    if force and soft:
        raise click.UsageError("choose one of --force and --soft")
    _carry_out(cluster, name, lambda it: power.restart(it, force=force, soft=soft))


@vm_command.command("pause")
@click.argument("name")
@cluster_options
def pause_command(name: str, cluster: Cluster) -> None:
    """Halt the guest where it is, with everything in memory."""
    _carry_out(cluster, name, power.pause)


@vm_command.command("unpause")
@click.argument("name")
@cluster_options
def unpause_command(name: str, cluster: Cluster) -> None:
    """Let a paused guest go on."""
    _carry_out(cluster, name, power.unpause)


@vm_command.command("migrate")
@click.argument("name")
@click.option("--node", default="", help="Where to. Default: as the scheduler chooses.")
@cluster_options
def migrate_command(name: str, node: str, cluster: Cluster) -> None:
    """Move the running machine to another node."""
    _carry_out(cluster, name, lambda it: power.migrate(it, node=node))


@vm_command.command("disks")
@click.argument("name")
@cluster_options
def disks_command(name: str, cluster: Cluster) -> None:
    """Show what was asked for, what each volume has, and which file systems the guest has on it."""

    async def ask() -> tuple[DiskRow, ...]:
        async with cluster.client() as client:
            return await disks_of(client, cluster.namespace, name)

    rows = asyncio.run(ask())
    click.echo(table(("DISK", "ASKED", "VOLUME", "IN THE GUEST", "REMARK"), map(_disk_cells, rows)))


@vm_command.command("console")
@click.argument("name")
@cluster_options
def console_command(name: str, cluster: Cluster) -> None:
    """Open the guest's serial console. Ctrl-] leaves it."""

    async def ask() -> None:
        async with cluster.client() as client:
            await open_console(client, cluster.namespace, name)

    asyncio.run(ask())


def _carry_out(cluster: Cluster, name: str, decide: Decide) -> None:
    async def ask() -> str:
        async with cluster.client() as client:
            return await carried_out(client, cluster.namespace, name, decide)

    click.echo(asyncio.run(ask()))


class Overtaken(Exception):
    """The Wukong changed between the look and the edit: mostly its status, which the operator writes."""


async def carried_out(client: Client, namespace: str, name: str, decide: Decide) -> str:
    """What was decided, once it is done. An edit that comes too late is decided anew."""
    for _ in range(TRIES_MAX):
        with suppress(Overtaken):
            return await _tried(client, namespace, name, decide)
    raise Failure(f"Wukong {namespace}/{name} is being changed by others all the time; nothing was done, try again")


async def _tried(client: Client, namespace: str, name: str, decide: Decide) -> str:
    machine = await machine_called(client, namespace, name)
    try:
        decision = decide(machine)
    except CannotDo as error:
        raise Failure(str(error)) from None
    for step in decision.steps:
        await _do(client, machine.wukong, step)
    return decision.message


async def machine_called(client: Client, namespace: str, name: str) -> Machine:
    wukong = await _found(client, Wukong, name, namespace)
    if wukong is None:
        raise Failure(f"there is no Wukong {namespace}/{name}")
    if not await client.served(VirtualMachine.resource):
        missing = VirtualMachine.resource.plural_and_group
        raise Failure(f"the cluster does not serve {missing}: Wukong {namespace}/{name} waits for KubeVirt; install it")
    called = names.machine_name(name)
    machine = await _found(client, VirtualMachine, called, namespace)
    if machine is not None and not is_controlled_by(machine, wukong):
        raise Failure(f"{name_taken(wukong, machine).message}; nothing is done to it")
    return Machine(wukong, machine is not None, await _found(client, VirtualMachineInstance, called, namespace))


async def _found(client: Client, kind: type[T], name: str, namespace: str) -> T | None:
    try:
        return await client.get(kind, name, namespace)
    except NotFound:
        return None


async def _do(client: Client, wukong: Wukong, step: Step) -> None:
    meta = wukong.metadata
    called = names.machine_name(meta.name)
    match step:
        case Edit(merge):
            seen = Precondition(uid=meta.uid, resource_version=meta.resource_version)
            try:
                await client.patch(
                    Wukong, meta.name, meta.namespace, merge=merge, precondition=seen, field_manager=FIELD_MANAGER
                )
            except Conflict as error:
                raise Overtaken from error
        case Act(of, action, options):
            try:
                await client.act(of, called, meta.namespace, action=action, options=options)
            except (NotFound, ServerError) as error:
                raise unanswered(error) from None
        case power.Move(node):
            moving = migration_to(node, called, meta.namespace, labels=names.MANAGED_BY)
            await client.create(moving, field_manager=FIELD_MANAGER)


def unanswered(error: ApiError) -> Failure:
    return Failure(f"{error}; {power.SUBRESOURCES} is served by KubeVirt's virt-api: does it run?")


async def disks_of(client: Client, namespace: str, name: str) -> tuple[DiskRow, ...]:
    machine = await machine_called(client, namespace, name)
    if not machine.runs:
        raise Failure(f"Wukong {namespace}/{name} does not run: `corral vm start {name}` starts it")
    try:
        told = await client.told(power.INSTANCES, names.machine_name(name), namespace, of="filesystemlist")
    except Conflict as error:
        raise Failure(f"{error}; the guest's agent is what tells of its file systems") from None
    except (NotFound, ServerError) as error:
        raise unanswered(error) from None
    return disk_rows(machine.wukong, msgspec.json.decode(told, type=FileSystems).items)


def _disk_cells(row: DiskRow) -> tuple[str, ...]:
    guest = [f"{one.mount_point} {one.file_system_type} {in_mib(one.total_bytes)}" for one in row.guest]
    return row.name, row.asked, row.size, ", ".join(guest) or "-", row.remark


async def open_console(client: Client, namespace: str, name: str) -> None:
    machine = await machine_called(client, namespace, name)
    if not machine.runs:
        raise Failure(f"Wukong {namespace}/{name} does not run: it has no console; `corral vm start {name}` starts it")
    called = names.machine_name(name)
    try:
        opened = client.attach(power.INSTANCES, called, namespace, to="console", subprotocol=CONSOLE_PROTOCOL)
        async with opened as socket:
            click.echo(f"console of Wukong {namespace}/{name}; leave it with Ctrl-]", err=True)
            with console.raw_terminal(sys.stdin.buffer):
                await console.joined(socket, console.keyboard(sys.stdin.buffer), console.show)
    except (NotFound, ServerError) as error:
        raise unanswered(error) from None
