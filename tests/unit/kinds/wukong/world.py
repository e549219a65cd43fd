"""A cluster in virtual time with the stand-in for KubeVirt, and a person who makes Wukongs in it."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import yaml

from corral.engine.controller import AnyController
from corral.kinds.addresspool.spec import AddressPool
from corral.kinds.wukong.api.cdi import DataVolume
from corral.kinds.wukong.api.kubevirt import (
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from corral.kinds.wukong.api.multus import NetworkAttachmentDefinition
from corral.kinds.wukong.api.snapshots import (
    VirtualMachineRestore,
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VolumeSnapshot,
)
from corral.kinds.wukong.controller import controller
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukongsnapshot.spec import WukongSnapshot
from corral.kube.client import Client, Precondition
from corral.kube.meta import Object, ObjectMeta, Resource
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.kube.models.core_v1 import PersistentVolumeClaim, Secret
from corral.kube.models.storage_v1 import StorageClass
from corral.testing.apiserver import FakeApiServer
from corral.testing.kubevirt_standin import KubeVirtStandIn
from corral.testing.operators import Operator, converged

NAMESPACE: Final = "lab"
KUBEVIRT: Final[tuple[type[Object], ...]] = (VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceMigration)
SNAPSHOTS: Final[tuple[type[Object], ...]] = (
    VirtualMachineSnapshot,
    VirtualMachineSnapshotContent,
    VirtualMachineRestore,
    VolumeSnapshot,
)
FOREIGN: Final[tuple[type[Object], ...]] = (*KUBEVIRT, *SNAPSHOTS, DataVolume, NetworkAttachmentDefinition)

SMALL = "{cpu: 2, memory: 2Gi, disks: [{name: root, size: 10Gi, image: 'https://images.test/debian.qcow2'}]}"
LARGE = """
cpu: 4
memory: 8Gi
disks:
- {name: root, size: 10Gi, image: 'docker://images.test/debian:13', boot: true}
- {name: data, size: 50Gi}
networks:
- {name: default}
- {name: lan, bridgeName: br0, vlanId: 42, ipConfig: {mode: static, address: 10.1.2.3/24, gateway: 10.1.2.1}}
"""


def a_wukong(spec: str = SMALL, name: str = "vm") -> Wukong:
    content = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": yaml.safe_load(spec)}
    return msgspec.convert(content, Wukong)


def a_class(name: str = "fast", *, waits: bool = False, grows: bool = True, default: bool = True) -> StorageClass:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return StorageClass(
        metadata=ObjectMeta(name=name, annotations=annotations),
        provisioner="test",
        volume_binding_mode="WaitForFirstConsumer" if waits else "Immediate",
        allow_volume_expansion=grows,
    )


def definition_of(kind: type[Object]) -> dict[str, Any]:
    resource = kind.resource
    anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    subresources: dict[str, Any] = {} if kind is VirtualMachineInstance else {"subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.plural_and_group},
        "spec": {
            "group": resource.group,
            "names": {"kind": resource.kind, "plural": resource.plural},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {"name": resource.version, "served": True, "storage": True, "schema": anything, **subresources}
            ],
        },
    }


class World:
    def __init__(
        self,
        *,
        lacking: Iterable[type[Object]] = (),
        waits: bool = False,
        grows: bool = True,
        csi: bool = False,
        pace_s: float = 1.0,
        seed: int = 1,
        collects: bool = True,
    ) -> None:
        """`collects`: Kubernetes' garbage collector knows of everything; one that does not does nothing by itself."""
        delay_s = 0.1 if collects else None
        self.server = FakeApiServer(seed=seed, namespaces=(NAMESPACE,), garbage_delay_s=delay_s)
        self.server.register(Wukong, status=True)
        self.server.register(WukongSnapshot, status=True)
        self.server.register(AddressPool, status=True)
        for kind in FOREIGN:
            if kind not in set(lacking):
                self.serve(kind)
        self.client = Client(self.server.connect("person"))
        self._class = a_class(waits=waits, grows=grows)
        self.standin = KubeVirtStandIn(Client(self.server.connect("kubevirt")), csi=csi, pace_s=pace_s)
        self.operator = Operator(self.server, self.build, seed=seed)
        self._tasks: list[asyncio.Task[None]] = []

    @staticmethod
    def build() -> AnyController:
        return controller()

    def serve(self, kind: type[Object]) -> None:
        """As when its definition is applied, which tells the operator of it."""
        self.server.add(definition_of(kind))

    def undefine(self, kind: type[Object]) -> None:
        """As when its definition is deleted: what is of the kind goes first."""
        self.server.unregister(kind)
        self.server.remove(CustomResourceDefinition, kind.resource.plural_and_group)

    async def begin(self, *objects: Object) -> None:
        """The world turns: the operator and the stand-in run, and a person makes these objects."""
        await self.client.create(self._class, field_manager="person")
        self.operator.start()
        self.standin_goes_on()
        for obj in objects:
            await self.client.create(obj, field_manager="person")

    def standin_rests(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def standin_goes_on(self) -> None:
        self._tasks.append(asyncio.create_task(self.standin.run()))

    async def days_pass(self, days: float) -> None:
        """Without the stand-in, whose looks would make up most of the time."""
        self.standin_rests()
        await asyncio.sleep(days * 24 * 3600)

    async def settled(self, within_s: float = 300.0) -> None:
        await converged(self.server, self.build, within_s=within_s, quiet_s=11.0)
        assert self.standin.refused == set()

    async def make(self, *objects: Object) -> None:
        await self.begin(*objects)
        await self.settled()

    async def add(self, *objects: Object) -> None:
        for obj in objects:
            await self.client.create(obj, field_manager="person")
        await self.settled()

    async def change(self, spec: Mapping[str, Any], name: str = "vm") -> None:
        await self.patch_wukong(spec, name)
        await self.settled()

    async def patch_wukong(self, spec: Mapping[str, Any], name: str = "vm") -> None:
        await self.patch(Wukong, name, {"spec": spec})

    async def patch(self, kind: type[Object], name: str, merge: Mapping[str, Any], subresource: str = "") -> None:
        await self.client.patch(
            kind,
            name,
            NAMESPACE,
            merge=merge,
            precondition=Precondition(),
            field_manager="person",
            subresource=subresource,
        )

    async def delete(self, kind: type[Object], name: str) -> None:
        await self.client.delete(kind, name, NAMESPACE, precondition=Precondition())

    async def wukong(self, name: str = "vm") -> Wukong:
        return await self.client.get(Wukong, name, NAMESPACE)

    async def machine(self, name: str = "vm") -> VirtualMachine:
        return await self.client.get(VirtualMachine, name, NAMESPACE)

    async def instance(self, name: str = "vm") -> VirtualMachineInstance:
        return await self.client.get(VirtualMachineInstance, name, NAMESPACE)

    async def claim(self, name: str) -> PersistentVolumeClaim:
        return await self.client.get(PersistentVolumeClaim, name, NAMESPACE)

    async def secret(self, name: str) -> Secret:
        return await self.client.get(Secret, name, NAMESPACE)

    async def condition(self, kind: str, name: str = "vm") -> tuple[str, str]:
        found = next(c for c in (await self.wukong(name)).status.conditions if c.type == kind)
        return found.status, found.reason

    def names(self, kind: type[Object]) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.server.all_of(kind, NAMESPACE)]

    def events(self, reason: str) -> list[str]:
        resource = Resource("events.k8s.io", "v1", "Event", "events", True)
        return [e["note"] for e in self.server.all_of(resource, NAMESPACE) if e["reason"] == reason]
