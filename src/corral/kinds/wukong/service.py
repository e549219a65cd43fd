"""The Service that leads to a Wukong's guest. Pure. KubeVirt gives the machine's pod the labels of its template."""

from corral.kinds.wukong import names
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_machine import ExposedPort
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Service, ServicePort, ServiceSpec


def service_of(wukong: Wukong) -> Service | None:
    asked = wukong.spec.service
    if asked is None:
        return None
    labels = {**names.MANAGED_BY, names.WUKONG_LABEL: wukong.metadata.name}
    return Service(
        metadata=ObjectMeta(name=names.service_name(wukong.metadata.name), labels=labels),
        spec=ServiceSpec(
            type=asked.type,
            selector={names.WUKONG_LABEL: wukong.metadata.name},
            ports=tuple(_port(port) for port in asked.ports),
        ),
    )


def _port(port: ExposedPort) -> ServicePort:
    return ServicePort(
        name=port.name, port=port.port, protocol=port.protocol, target_port=port.target_port or port.port
    )
