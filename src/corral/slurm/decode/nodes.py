"""Nodes, and what names groups of them: partitions and reservations. Pure."""

import math
from functools import lru_cache

import msgspec

from corral.slurm.answers import Envelope
from corral.slurm.decode.fields import Number, Text, Words, count_of, hosts, minutes_of, number_of, time_of, words_of
from corral.slurm.states import node_state
from corral.slurm.values import Layout, Node, Partition, Reservation


class WireNode(msgspec.Struct):
    name: str
    state: Words
    address: Text = ""
    hostname: Text = ""
    reason: Text = ""
    reason_set_by_user: Text = ""
    reason_changed_at: Number = None
    comment: Text = ""
    extra: Text = ""
    features: Words = None
    active_features: Words = None
    partitions: Words = None
    reservation: Text = ""
    gres: Text = ""
    gres_used: Text = ""
    cpus: Number = 0
    alloc_cpus: Number = 0
    real_memory: Number = 0
    alloc_memory: Number = 0
    specialized_memory: Number = None
    specialized_cores: Number = None
    boards: Number = 0
    sockets: Number = 0
    cores: Number = 0
    threads: Number = 0
    weight: Number = 0
    topology: Text = None
    version: Text = ""
    boot_time: Number = None
    slurmd_start_time: Number = None
    last_busy: Number = None


class NodesAnswer(Envelope):
    nodes: list[WireNode] | None = None
    last_update: Number = None


def node(wire: WireNode) -> Node:
    return Node(
        name=wire.name,
        state=node_state(words_of(wire.state)),
        address=wire.address or "",
        hostname=wire.hostname or "",
        reason=wire.reason or "",
        reason_by=(wire.reason_set_by_user or "") if wire.reason else "",
        reason_at=time_of(wire.reason_changed_at),
        comment=wire.comment or "",
        extra=wire.extra or "",
        features=words_of(wire.features),
        active_features=words_of(wire.active_features),
        partitions=words_of(wire.partitions),
        reservation=wire.reservation or "",
        gres=wire.gres or "",
        gres_used=wire.gres_used or "",
        cpus=count_of(wire.cpus),
        cpus_allocated=count_of(wire.alloc_cpus),
        memory_mb=count_of(wire.real_memory),
        memory_allocated_mb=count_of(wire.alloc_memory),
        memory_aside_mb=None if wire.specialized_memory is None else count_of(wire.specialized_memory),
        cores_aside=None if wire.specialized_cores is None else count_of(wire.specialized_cores),
        layout=_layout(*map(count_of, (wire.boards, wire.sockets, wire.cores, wire.threads))),
        weight=count_of(wire.weight),
        topology=wire.topology,
        slurmd_version=wire.version or "",
        booted_at=time_of(wire.boot_time),
        registered_at=time_of(wire.slurmd_start_time),
        busy_until=time_of(wire.last_busy),
    )


@lru_cache(maxsize=1024)  # thousands of nodes are of a few makes
def _layout(boards: int, sockets: int, cores: int, threads: int) -> Layout | None:
    said = Layout(boards=boards, sockets=sockets, cores_per_socket=cores, threads_per_core=threads)
    return said if sockets else None


class WirePartitionNodes(msgspec.Struct):
    configured: Text = ""
    total: Number = 0


class WireTotal(msgspec.Struct):
    total: Number = 0


class WirePartitionMaximums(msgspec.Struct):
    time: Number = None
    nodes: Number = None


class WirePartitionDefaults(msgspec.Struct):
    time: Number = None


class WirePriority(msgspec.Struct):
    tier: Number = 0


class WirePartitionState(msgspec.Struct):
    state: Words = None


class WirePartition(msgspec.Struct):
    name: str
    nodes: WirePartitionNodes = msgspec.field(default_factory=WirePartitionNodes)
    node_sets: Text = ""
    cpus: WireTotal = msgspec.field(default_factory=WireTotal)
    maximums: WirePartitionMaximums = msgspec.field(default_factory=WirePartitionMaximums)
    defaults: WirePartitionDefaults = msgspec.field(default_factory=WirePartitionDefaults)
    priority: WirePriority = msgspec.field(default_factory=WirePriority)
    partition: WirePartitionState = msgspec.field(default_factory=WirePartitionState)


class PartitionsAnswer(Envelope):
    partitions: list[WirePartition] | None = None


def partition(wire: WirePartition) -> Partition:
    nodes_max = number_of(wire.maximums.nodes)
    return Partition(
        name=wire.name,
        state=words_of(wire.partition.state),
        nodes=wire.node_sets or wire.nodes.configured or "",
        nodes_total=count_of(wire.nodes.total),
        cpus_total=count_of(wire.cpus.total),
        time_max_s=minutes_of(wire.maximums.time),
        time_default_s=minutes_of(wire.defaults.time),
        nodes_max=None if nodes_max is None or math.isinf(nodes_max) else int(nodes_max),
        priority_tier=count_of(wire.priority.tier),
    )


class WireReservation(msgspec.Struct):
    name: str
    node_list: Text = ""
    start_time: Number = None
    end_time: Number = None
    flags: Words = None
    users: Words = None
    accounts: Words = None
    partition: Text = ""
    features: Text = ""


class ReservationsAnswer(Envelope):
    reservations: list[WireReservation] | None = None


def reservation(wire: WireReservation) -> Reservation:
    return Reservation(
        name=wire.name,
        nodes=hosts(wire.node_list),
        start_at=time_of(wire.start_time),
        end_at=time_of(wire.end_time),
        flags=words_of(wire.flags),
        users=words_of(wire.users),
        accounts=words_of(wire.accounts),
        partition=wire.partition or "",
        features=wire.features or "",
    )
