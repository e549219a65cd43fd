"""Who reaches a Wukong's guest in the pod network: its Service, and its NetworkPolicy. Pure.

Both find the machine's pod by a label: KubeVirt gives it the labels of the machine's template.
"""

from corral.kinds.wukong import names
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_machine import ExposedPort
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Service, ServicePort, ServiceSpec
from corral.kube.models.meta_v1 import LabelSelector
from corral.kube.models.networking_v1 import (
    NetworkPolicy,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)


def service_of(wukong: Wukong) -> Service | None:
    asked = wukong.spec.service
    if asked is None:
        return None
    return Service(
        metadata=ObjectMeta(name=names.service_name(wukong.metadata.name), labels=_labels(wukong)),
        spec=ServiceSpec(
            type=asked.type,
            selector=_selector(wukong),
            ports=tuple(_port(port) for port in asked.ports),
        ),
    )


def network_policy_of(wukong: Wukong) -> NetworkPolicy | None:
    """Without a rule nobody comes in; what the guest itself begins is never held back."""
    if wukong.spec.network_policy is None:
        return None
    return NetworkPolicy(
        metadata=ObjectMeta(name=names.network_policy_name(wukong.metadata.name), labels=_labels(wukong)),
        spec=NetworkPolicySpec(
            pod_selector=LabelSelector(match_labels=_selector(wukong)), policy_types=("Ingress",), ingress=_open(wukong)
        ),
    )


def _open(wukong: Wukong) -> tuple[NetworkPolicyIngressRule, ...]:
    exposed = wukong.spec.service.ports if wukong.spec.service else ()
    ports = tuple(NetworkPolicyPort(port=_in_guest(port), protocol=port.protocol) for port in exposed)
    match wukong.spec.network_policy:
        case "Namespace":
            neighbours = NetworkPolicyIngressRule(from_=(NetworkPolicyPeer(pod_selector=LabelSelector()),))
            return (neighbours,)
        case "Service" if ports:  # a rule without ports would open all of them
            return (NetworkPolicyIngressRule(ports=ports),)
        case _:
            return ()


def _labels(wukong: Wukong) -> dict[str, str]:
    return {**names.MANAGED_BY, **_selector(wukong)}


def _selector(wukong: Wukong) -> dict[str, str]:
    return {names.WUKONG_LABEL: wukong.metadata.name}


def _port(port: ExposedPort) -> ServicePort:
    return ServicePort(name=port.name, port=port.port, protocol=port.protocol, target_port=_in_guest(port))


def _in_guest(port: ExposedPort) -> int:
    return port.target_port or port.port
