"""What our own objects say of themselves, one series each: whether they are ready, why not, in which phase. Pure."""

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from prometheus_client.core import GaugeMetricFamily, Metric

from corral.kube.meta import Condition, Object

LABELS = ("kind", "namespace", "name", "phase", "reason")


@runtime_checkable
class Told(Protocol):
    @property
    def conditions(self) -> tuple[Condition, ...]: ...


def object_metrics(objects: Iterable[Object]) -> Iterator[Metric]:
    """A kind without conditions has no series; `phase` is empty where a kind has none."""
    ready = GaugeMetricFamily("corral_object_ready", "1 if its condition Ready is true.", labels=LABELS)
    for obj in objects:
        status = getattr(obj, "status", None)
        if not isinstance(status, Told):
            continue
        found = next((c for c in status.conditions if c.type == "Ready"), None)
        phase = str(getattr(status, "phase", "") or "")
        meta = obj.metadata
        labels = (obj.resource.kind, meta.namespace, meta.name, phase, found.reason if found else "NotLookedAt")
        ready.add_metric(labels, float(found is not None and found.status == "True"))
    yield ready
