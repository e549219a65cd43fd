"""nmstate.io: what nodes are to do with their network interfaces, and what they have."""

from collections.abc import Mapping
from typing import ClassVar

from corral.kinds.wukong.api.kubevirt import ReportedCondition
from corral.kube.meta import EMPTY, Model, Object, Resource
from corral.kube.values import IntOrString, Json

GROUP = "nmstate.io"


class PolicySpec(Model, frozen=True, kw_only=True):
    node_selector: Mapping[str, str] = EMPTY
    desired_state: Mapping[str, Json] = EMPTY
    max_unavailable: IntOrString | None = None


class PolicyStatus(Model, frozen=True, kw_only=True):
    conditions: tuple[ReportedCondition, ...] = ()


class NodeNetworkConfigurationPolicy(Object, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource(
        GROUP, "v1", "NodeNetworkConfigurationPolicy", "nodenetworkconfigurationpolicies", False
    )

    spec: PolicySpec = PolicySpec()
    status: PolicyStatus = PolicyStatus()


class StateStatus(Model, frozen=True, kw_only=True):
    current_state: Mapping[str, Json] = EMPTY


class NodeNetworkState(Object, frozen=True, kw_only=True):
    """What a node has now; called as the node."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1beta1", "NodeNetworkState", "nodenetworkstates", False)

    status: StateStatus = StateStatus()
