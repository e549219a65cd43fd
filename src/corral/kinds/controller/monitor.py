"""The ServiceMonitor of Prometheus' operator, as far as we use it. The kind may be missing; then there is none."""

from typing import Annotated, ClassVar

from corral.kinds.controller.spec import Controller
from corral.kube.meta import Model, Object, ObjectMeta, Resource
from corral.kube.models.meta_v1 import LabelSelector
from corral.kube.values import keys

# 26.05: /metrics itself is only an index.
PATHS = tuple(f"/metrics/{what}" for what in ("jobs", "jobs-users-accts", "nodes", "partitions", "scheduler"))


class Endpoint(Model, frozen=True, kw_only=True):
    port: str = ""
    path: str = ""
    interval: str = ""


class ServiceMonitorSpec(Model, frozen=True, kw_only=True):
    endpoints: Annotated[tuple[Endpoint, ...], keys("path")] = ()
    selector: LabelSelector = LabelSelector()


class ServiceMonitor(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", True)

    spec: ServiceMonitorSpec = ServiceMonitorSpec()


def is_monitored(controller: Controller) -> bool:
    metrics = controller.spec.metrics
    return metrics.enabled and metrics.service_monitor and controller.spec.version != "24.11"


def service_monitor(controller: Controller, service: Object) -> ServiceMonitor:
    """Scrapes slurmctld through its Service, found by the labels that we gave it."""
    interval, labels = controller.spec.metrics.interval, service.metadata.labels
    return ServiceMonitor(
        metadata=ObjectMeta(name=service.metadata.name, labels=labels),
        spec=ServiceMonitorSpec(
            endpoints=tuple(Endpoint(port="slurmctld", path=path, interval=interval) for path in PATHS),
            selector=LabelSelector(match_labels=labels),
        ),
    )
