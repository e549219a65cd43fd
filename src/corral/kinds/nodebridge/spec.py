"""NodeBridge: a bridge on nodes, with one of their interfaces as its port. Of no namespace, so for admins only."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from corral.kinds.parts import BasicStatus
from corral.kinds.wukong.spec import CATEGORIES, GROUP, VERSION
from corral.kinds.wukong.spec_networks import LINK_NAME_MAX
from corral.kube.crd import Column, kind, rule
from corral.kube.meta import EMPTY, Model, Object

LinkName = Annotated[str, Meta(min_length=1, max_length=LINK_NAME_MAX, pattern=r"^[^\s/:]+$")]


class NodeBridgeSpec(Model, frozen=True, kw_only=True):
    bridge_name: Annotated[LinkName, rule("self == oldSelf", "a bridge keeps its name; make another NodeBridge")]
    type: Annotated[Literal["linux", "ovs"], rule("self == oldSelf", "a bridge stays what it is")] = "linux"
    port: Annotated[LinkName, Meta(description="The interface of the nodes that becomes its port.")]
    node_selector: Annotated[
        Mapping[str, str],
        Meta(
            max_length=16, description="Labels of the nodes. Empty: every node. Nodes that lose them lose the bridge."
        ),
    ] = EMPTY
    mtu: Annotated[int, Meta(ge=576, le=65535)] | None = None
    max_unavailable: Annotated[
        str, Meta(max_length=8, pattern=r"^[1-9][0-9]*%?$", description="How many nodes are changed at once.")
    ] = "1"


class NodeBridgeStatus(BasicStatus, frozen=True, kw_only=True):
    nodes: tuple[str, ...] = ()  # that have the bridge, as it is asked for


@kind(
    group=GROUP,
    version=VERSION,
    plural="nodebridges",
    namespaced=False,
    categories=CATEGORIES,
    columns=(Column("Bridge", "string", ".spec.bridgeName"), Column("Port", "string", ".spec.port")),
)
class NodeBridge(Object, frozen=True, kw_only=True):
    """A bridge on nodes, with one of their interfaces as its port."""

    spec: NodeBridgeSpec
    status: NodeBridgeStatus = NodeBridgeStatus()
