"""The real definition of ServiceMonitor, from the Go module of Prometheus' operator."""

from typing import Final

from corral.testing.gomodules import Definition, GoModule, downloaded, loaded, without_status

PROMETHEUS_OPERATOR: Final = GoModule(
    "github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)
FILE: Final = "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"


def service_monitor_crd() -> Definition:
    return without_status(loaded((downloaded(PROMETHEUS_OPERATOR) / FILE).read_text()))
