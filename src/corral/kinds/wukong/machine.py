"""From a Wukong to the VirtualMachine that KubeVirt runs. Pure.

The machine as it stands is an input too, for two things that only it knows: which disks were plugged in while it ran
(ours keep their mark, those of others stay), and which network interfaces still have to be unplugged.
"""

from collections.abc import Iterable

import msgspec

from corral.kinds.wukong import names
from corral.kinds.wukong.api import kubevirt as kv
from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.disks import Disk, boot_disk
from corral.kinds.wukong.networks import machine_interfaces, machine_networks
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_disks import DiskConfig
from corral.kinds.wukong.spec_guest import CloudInit
from corral.kinds.wukong.spec_machine import CpuOptions, ProbeConfig, Spread, TypeRef
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    Affinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from corral.kube.models.meta_v1 import LabelSelector

HOTPLUG_BUSES = frozenset({"virtio", "scsi"})  # KubeVirt refuses a mark on others; they come with the next start
BY_RESTART_POLICY = {"Always": "Always", "OnFailure": "RerunOnFailure", "Never": "Once"}


class BadSpec(Exception):
    """What no rule of the definition can say; the message is for the condition."""


def run_strategy(wukong: Wukong) -> str:
    """`runStrategy` says it; else a machine that does not start by itself is halted; else the restart policy."""
    start = wukong.spec.start_strategy
    if start.run_strategy is not None:
        return start.run_strategy
    if not start.auto_start:
        return "Halted"
    return BY_RESTART_POLICY[wukong.spec.high_availability.restart_policy or "Always"]


def virtual_machine(
    wukong: Wukong,
    disks: Iterable[Disk],
    present: VirtualMachine | None,
    instance: VirtualMachineInstance | None,
    *,
    halted: bool = False,
) -> VirtualMachine:
    """`disks` are those that can be used; `halted` for as long as it must not run, whatever its spec says.

    Raises BadSpec.
    """
    labels = machine_labels(wukong)
    spec = wukong.spec
    return VirtualMachine(
        metadata=ObjectMeta(name=names.machine_name(wukong.metadata.name), labels=labels),
        spec=kv.VirtualMachineSpec(
            run_strategy="Halted" if halted else run_strategy(wukong),
            instancetype=_matcher(spec.instancetype, "Instancetype"),
            preference=_matcher(spec.preference, "Preference"),
            template=kv.Template(
                metadata=kv.TemplateMeta(labels=labels),
                spec=_instance_spec(wukong, tuple(disks), present, instance),
            ),
        ),
    )


def machine_labels(wukong: Wukong) -> dict[str, str]:
    group = wukong.spec.high_availability.group
    return {**names.MANAGED_BY, names.WUKONG_LABEL: wukong.metadata.name, names.GROUP_LABEL: group}


def _matcher(ref: TypeRef | None, what: str) -> kv.Matcher | None:
    if ref is None:
        return None
    return kv.Matcher(name=ref.name, kind=f"VirtualMachine{'Cluster' if ref.cluster_wide else ''}{what}")


def _instance_spec(
    wukong: Wukong,
    disks: tuple[Disk, ...],
    present: VirtualMachine | None,
    instance: VirtualMachineInstance | None,
) -> kv.InstanceSpec:
    spec, ha = wukong.spec, wukong.spec.high_availability
    before = present.spec.template.spec if present else None
    plugged = _plugged_by_others(wukong, before)
    leaving = _leaving(wukong, before, instance)
    init = spec.cloud_init or CloudInit()
    return kv.InstanceSpec(
        domain=_domain(wukong, disks, plugged, leaving, before),
        networks=(*machine_networks(wukong), *_networks_of(before, leaving)),
        volumes=(
            *(_volume(disk, before, is_running=instance is not None) for disk in disks),
            _cloud_init_volume(wukong, init),
            *plugged,
        ),
        hostname=init.hostname or names.machine_name(wukong.metadata.name),
        affinity=_affinity(wukong),
        node_selector=ha.node_selector,
        tolerations=ha.tolerations,
        topology_spread_constraints=_spread(wukong, ha.spread),
        priority_class_name=ha.priority_class_name or None,
        eviction_strategy=ha.eviction_strategy,
        readiness_probe=_probe(spec.readiness_probe),
        liveness_probe=_probe(spec.liveness_probe),
    )


def _domain(
    wukong: Wukong,
    disks: tuple[Disk, ...],
    plugged: tuple[kv.Volume, ...],
    leaving: tuple[kv.Interface, ...],
    before: kv.InstanceSpec | None,
) -> kv.Domain:
    spec, firmware = wukong.spec, wukong.spec.firmware
    uefi = firmware.bootloader == "uefi"
    efi = kv.Efi(secure_boot=firmware.secure_boot, persistent=firmware.persistent or None)
    return kv.Domain(
        cpu=_cpu(wukong),
        memory=_memory(wukong),
        firmware=kv.Firmware(bootloader=kv.Bootloader(efi=efi)) if uefi else None,
        features=kv.Features(smm=kv.Switch(enabled=True)) if firmware.secure_boot else None,
        clock=_clock(wukong),
        machine=kv.Machine(type=spec.machine_type) if spec.machine_type else None,
        devices=kv.Devices(
            disks=(
                *(_disk_device(wukong, disk) for disk in disks),
                kv.DiskDevice(name=names.CLOUD_INIT_VOLUME, disk=kv.DiskTarget(bus="virtio")),
                *_devices_of(before, plugged),
            ),
            interfaces=(*machine_interfaces(wukong), *leaving),
            gpus=tuple(kv.HostDevice(name=gpu.name, device_name=gpu.device_name) for gpu in spec.gpus),
            host_devices=tuple(kv.HostDevice(name=d.name, device_name=d.device_name) for d in spec.host_devices),
            tpm=kv.Tpm(persistent=firmware.persistent or None) if firmware.tpm else None,
            watchdog=kv.Watchdog(name="watchdog", i6300esb=kv.WatchdogAction(action="reset"))
            if spec.watchdog
            else None,
            rng=kv.Present(),
        ),
    )


def _cpu(wukong: Wukong) -> kv.Cpu | None:
    cores, options = wukong.spec.cpu, wukong.spec.cpu_options
    if cores is None:
        return None
    max_cores = wukong.spec.live_resize.max_cpu if wukong.spec.live_resize else None
    if options is None and max_cores is None:
        return kv.Cpu(cores=cores)
    options = options or CpuOptions()
    if max_cores is not None:  # processors are plugged as sockets, so a socket has one core
        layout = kv.Cpu(
            cores=1,
            sockets=_divided(cores, options.threads, f"cores of {options.threads} threads"),
            max_sockets=_divided(max_cores, options.threads, f"cores of {options.threads} threads"),
        )
    else:
        ways = f"{options.sockets} sockets of {options.threads} threads a core"
        layout = kv.Cpu(cores=_divided(cores, options.sockets * options.threads, ways), sockets=options.sockets)
    return msgspec.structs.replace(
        layout,
        threads=options.threads,
        model=options.model or None,
        dedicated_cpu_placement=options.dedicated or None,
        isolate_emulator_thread=options.isolate_emulator_thread or None,
        numa=kv.Numa(guest_mapping_passthrough=kv.Present()) if options.numa else None,
    )


def _divided(cpus: int, by: int, into: str) -> int:
    each, rest = divmod(cpus, by)
    if rest or not each:
        raise BadSpec(f"cpu is {cpus}, which cannot be divided into {into}")
    return each


def _memory(wukong: Wukong) -> kv.Memory | None:
    guest, pages = wukong.spec.memory, wukong.spec.hugepages
    if guest is None and pages is None:
        return None
    most = wukong.spec.live_resize.max_memory if wukong.spec.live_resize else None
    return kv.Memory(guest=guest, max_guest=most, hugepages=kv.Hugepages(page_size=pages) if pages else None)


def _clock(wukong: Wukong) -> kv.Clock | None:
    clock = wukong.spec.clock
    if clock is None:
        return None
    return kv.Clock(timezone=clock.timezone) if clock.timezone else kv.Clock(utc=kv.Utc())


def _disk_device(wukong: Wukong, disk: Disk) -> kv.DiskDevice:
    config = disk.config
    return kv.DiskDevice(
        name=config.name,
        disk=kv.DiskTarget(bus=config.bus),
        boot_order=1 if config.name == boot_disk(wukong).name else None,
        cache=config.cache,
        serial=names.disk_serial(config.name),
    )


def _volume(disk: Disk, before: kv.InstanceSpec | None, *, is_running: bool) -> kv.Volume:
    if disk.container is not None:
        image = kv.ContainerDisk(image=disk.container.image, image_pull_secret=disk.container.pull_secret)
        return kv.Volume(name=disk.config.name, container_disk=image)
    hotpluggable = _hotpluggable(disk.config, before, is_running=is_running)
    if disk.is_data_volume:
        volume = kv.DataVolumeVolume(name=disk.name, hotpluggable=hotpluggable)
        return kv.Volume(name=disk.config.name, data_volume=volume)
    claim = kv.ClaimVolume(claim_name=disk.name, hotpluggable=hotpluggable)
    return kv.Volume(name=disk.config.name, persistent_volume_claim=claim)


def _hotpluggable(disk: DiskConfig, before: kv.InstanceSpec | None, *, is_running: bool) -> bool | None:
    """A disk that comes while the machine runs is plugged in, if its bus can do that; it stays what it was made as."""
    there = next((volume for volume in before.volumes if volume.name == disk.name), None) if before else None
    if there is not None:
        return is_hotpluggable(there) or None
    return True if before is not None and is_running and disk.bus in HOTPLUG_BUSES else None


def is_hotpluggable(volume: kv.Volume) -> bool:
    backing = volume.persistent_volume_claim or volume.data_volume
    return backing is not None and bool(backing.hotpluggable)


def backing_name(volume: kv.Volume) -> str:
    """The claim or DataVolume behind a volume; empty if there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return volume.data_volume.name if volume.data_volume is not None else ""


def _plugged_by_others(wukong: Wukong, before: kv.InstanceSpec | None) -> tuple[kv.Volume, ...]:
    """What `virtctl addvolume` brought; the list of volumes has one owner, so we repeat it."""
    if before is None:
        return ()
    wukongs, asked = wukong.metadata.name, {disk.name for disk in wukong.spec.disks}
    return tuple(
        volume
        for volume in before.volumes
        if is_hotpluggable(volume)
        and volume.name not in asked
        and backing_name(volume) != names.disk_name(wukongs, volume.name)
    )


def _devices_of(before: kv.InstanceSpec | None, volumes: tuple[kv.Volume, ...]) -> tuple[kv.DiskDevice, ...]:
    wanted = {volume.name for volume in volumes}
    return tuple(device for device in before.domain.devices.disks if device.name in wanted) if before else ()


def _leaving(
    wukong: Wukong, before: kv.InstanceSpec | None, instance: VirtualMachineInstance | None
) -> tuple[kv.Interface, ...]:
    """Interfaces that a running machine still has and the spec has not: unplugged first, then forgotten."""
    if before is None or instance is None:
        return ()
    asked = {interface.name for interface in machine_interfaces(wukong)}
    attached = {interface.name for interface in instance.status.interfaces}
    return tuple(
        msgspec.structs.replace(interface, state="absent")
        for interface in before.domain.devices.interfaces
        if interface.name not in asked and interface.name in attached and interface.bridge is not None
    )


def _networks_of(before: kv.InstanceSpec | None, interfaces: tuple[kv.Interface, ...]) -> tuple[kv.Network, ...]:
    wanted = {interface.name for interface in interfaces}
    return tuple(network for network in before.networks if network.name in wanted) if before else ()


def _cloud_init_volume(wukong: Wukong, init: CloudInit) -> kv.Volume:
    own = names.cloud_init_name(wukong.metadata.name)
    return kv.Volume(
        name=names.CLOUD_INIT_VOLUME,
        cloud_init_no_cloud=kv.CloudInitNoCloud(
            secret_ref=kv.NameRef(name=init.user_data_secret or own), network_data_secret_ref=kv.NameRef(name=own)
        ),
    )


def _affinity(wukong: Wukong) -> Affinity | None:
    ha = wukong.spec.high_availability
    if ha.affinity:
        try:
            return msgspec.convert(ha.affinity, Affinity)
        except msgspec.ValidationError as error:
            raise BadSpec(f"highAvailability.affinity is no affinity of a pod: {error}") from error
    if not ha.anti_affinity:
        return None
    others = PodAffinityTerm(label_selector=_same_group(wukong), topology_key=kv.HOSTNAME_LABEL)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(others,)))


def _same_group(wukong: Wukong) -> LabelSelector:
    return LabelSelector(match_labels={names.GROUP_LABEL: wukong.spec.high_availability.group})


def _spread(wukong: Wukong, spread: Spread | None) -> tuple[TopologySpreadConstraint, ...]:
    if spread is None:
        return ()
    constraint = TopologySpreadConstraint(
        topology_key=spread.topology_key,
        max_skew=spread.max_skew,
        when_unsatisfiable="DoNotSchedule" if spread.required else "ScheduleAnyway",
        label_selector=_same_group(wukong),
    )
    return (constraint,)


def _probe(probe: ProbeConfig | None) -> kv.Probe | None:
    if probe is None:
        return None
    return kv.Probe(
        guest_agent_ping=kv.Present() if probe.guest_agent else None,
        tcp_socket=kv.TcpSocket(port=probe.tcp_port) if probe.tcp_port is not None else None,
        http_get=kv.HttpGet(port=probe.http_port, path=probe.http_path) if probe.http_port is not None else None,
        initial_delay_seconds=probe.initial_delay_seconds,
        period_seconds=probe.period_seconds,
        failure_threshold=probe.failure_threshold,
    )
