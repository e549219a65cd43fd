"""What Prometheus is told of our objects; and that alerts and the dashboard ask only for what there is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.exposition import generate_latest

from corral.engine import Manager, Metrics, system_clock
from corral.engine.object_metrics import object_metrics
from corral.kinds.registry import KINDS
from corral.kinds.wukong.spec import Wukong, WukongSpec, WukongStatus
from corral.kinds.wukong.spec_disks import DiskConfig
from corral.kube.client import Client
from corral.kube.meta import Condition, ObjectMeta
from corral.kube.models.core_v1 import ConfigMap
from corral.testing.apiserver import FakeApiServer

MONITORING = Path(__file__).parents[2] / "deploy/monitoring"
# What virt-handler exports of each machine, as KubeVirt's docs/observability/metrics.md has it: processor, memory,
# disks, network. Its recording rules are not among them: they are renamed, and come only with KubeVirt's own alerts.
KUBEVIRTS = {
    "kubevirt_vmi_cpu_usage_seconds_total",
    "kubevirt_vmi_memory_available_bytes",
    "kubevirt_vmi_memory_usable_bytes",
    "kubevirt_vmi_storage_read_traffic_bytes_total",
    "kubevirt_vmi_storage_write_traffic_bytes_total",
    "kubevirt_vmi_network_receive_bytes_total",
    "kubevirt_vmi_network_transmit_bytes_total",
}
OURS = re.compile(r"\b(?:corral|controller_runtime|workqueue|leader_election|rest_client)_[a-z_]+")


def a_wukong(name: str, *conditions: Condition) -> Wukong:
    return Wukong(
        metadata=ObjectMeta(name=name, namespace="lab"),
        spec=WukongSpec(disks=(DiskConfig(name="root", size="1Gi"),)),
        status=WukongStatus(phase="Running" if conditions else None, conditions=conditions),
    )


def test_an_object_tells_whether_it_is_ready_and_in_which_phase_it_is() -> None:
    ready = Condition(type="Ready", status="True", reason="AsDesired", message="")
    paused = Condition(type="Ready", status="False", reason="MachinePaused", message="")
    objects = [a_wukong("a", ready), a_wukong("b", paused), a_wukong("c"), ConfigMap(metadata=ObjectMeta(name="d"))]
    (metric,) = object_metrics(objects)
    assert [(s.labels["name"], s.labels["phase"], s.labels["reason"], s.value) for s in metric.samples] == [
        ("a", "Running", "AsDesired", 1.0),
        ("b", "Running", "MachinePaused", 0.0),
        ("c", "", "NotLookedAt", 0.0),
    ]


def asked() -> Iterator[str]:
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
    for group in rules["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.looptime(noop_cycles=0)
async def test_alerts_and_the_dashboard_ask_only_for_what_the_operator_tells() -> None:
    server = FakeApiServer(namespaces=("lab",))
    for entry in KINDS:
        server.register(entry.kind, status=True)
    metrics = Metrics()
    client = Client(server.connect("us"), observer=metrics)
    controllers = [entry.build() for entry in KINDS]
    manager = Manager(client, controllers, clock=system_clock(), metrics=metrics, on_synced=lambda: None)
    await client.list(ConfigMap)
    metrics.leads.labels("corral").set(1)
    told = {line.split()[2] for line in generate_latest(metrics.registry).decode().splitlines() if "# TYPE" in line}
    wanted = {name for text in asked() for name in OURS.findall(text)}
    assert {name.removesuffix("_bucket") for name in wanted} <= told
    assert len(wanted) > 8
    assert manager.passes


def test_the_dashboard_asks_kubevirt_what_each_machine_uses() -> None:
    assert {name for text in asked() for name in re.findall(r"\bkubevirt_[a-z_]+", text)} == KUBEVIRTS
