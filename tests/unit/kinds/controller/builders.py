"""Controllers and what is around them, with defaults, so that a test shows only what matters in it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from corral.engine import Apply, Create, Plan
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.plan import plan
from corral.kinds.controller.snapshot import FreshKeys, Running, Snapshot, pod_name
from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.nodeset.spec import NodeSet, NodeSetSpec, Partition
from corral.kinds.parts import Ref
from corral.kube.meta import EMPTY, Object, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Container, Pod, PodCondition, PodSpec, PodStatus, Secret

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="lab", uid=f"uid-{name}", resource_version="1", **more)


def a_controller(name: str = "demo", **spec: Any) -> Controller:
    return Controller(metadata=meta(name, generation=1), spec=ControllerSpec(**spec))


def a_nodeset(name: str = "gpu", *, partition: bool = False, config: str = "") -> NodeSet:
    spec = NodeSetSpec(controller_ref=Ref(name="demo"), partition=Partition(enabled=partition, config=config))
    return NodeSet(metadata=meta(name), spec=spec)


def an_accounting(name: str = "acct") -> Accounting:
    return Accounting(metadata=meta(name))


def a_config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=meta(name), data={key.replace("_", "."): value for key, value in data.items()})


def a_secret(name: str, data: Mapping[str, bytes]) -> Secret:
    return Secret(metadata=meta(name), data=data)


def a_pod(controller: Controller, *, ready: bool = True, annotations: Mapping[str, str] = EMPTY) -> Pod:
    condition = PodCondition(type="Ready", status="True" if ready else "False")
    return Pod(
        metadata=meta(pod_name(controller), annotations=annotations),
        spec=PodSpec(containers=(Container(name="slurmctld"),)),
        status=PodStatus(conditions=(condition,)),
    )


def running(digest: str) -> Running:
    return Running(digest=digest, version="26.05.5", up=True, as_of=NOW)


def a_snapshot(controller: Controller | None = None, **more: Any) -> Snapshot:
    return Snapshot(object=controller or a_controller(), now=NOW, fresh_keys=FreshKeys(b"s" * 128, b"j" * 32), **more)


def made_by(decided: Plan) -> tuple[Object, ...]:
    """The objects as they would be in the cluster, had the plan been carried out."""
    return tuple(
        msgspec.structs.replace(
            action.object,
            metadata=msgspec.structs.replace(
                action.object.metadata, uid=f"uid-{action.object.metadata.name}", resource_version="1"
            ),
        )
        for action in decided.actions
        if isinstance(action, Create | Apply)
    )


def settled(controller: Controller | None = None, **more: Any) -> Snapshot:
    """A cluster in which everything was done: the objects are there, and slurmctld runs what is in them."""
    start = a_snapshot(controller, **more)
    children = made_by(plan(start))
    digests = [
        one.data["corral-digest"] for one in children if isinstance(one, ConfigMap) and "corral-digest" in one.data
    ]
    return msgspec.structs.replace(
        start, children=children, pod=a_pod(start.object), running=running(digests[0]) if digests else None
    )
