"""`corral drain` and `undrain` against the fake API server."""

import asyncio

import pytest

from corral.cli.drain import emptied, set_cordon, waiting_for, who_asks, workers_on
from corral.cli.errors import Failure
from corral.kinds import names
from corral.kube.client import Client
from corral.kube.models.core_v1 import Node, Pod
from corral.testing.apiserver import FakeApiServer

pytestmark = pytest.mark.looptime(noop_cycles=0)


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer(namespaces=("lab",))
    server.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m"}, "spec": {"podCIDR": "10.0.0.0/24"}})
    labels = {names.NODESET_LABEL: "gpu"}
    for name, node, marked in (("gpu-0", "m", labels), ("gpu-1", "other", labels), ("web", "m", {})):
        meta = {"name": name, "namespace": "lab", "labels": marked}
        server.add({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": node, "containers": []}})
    return server


async def test_a_node_is_cordoned_with_a_reason_and_given_back_and_nothing_else_of_it_changes(
    server: FakeApiServer,
) -> None:
    client = Client(server.connect("cli"))
    before = server.get(Node, "m")
    await set_cordon(client, "m", reason="new fan", by="alice")
    cordoned = server.get(Node, "m")
    assert before is not None
    assert cordoned is not None
    assert cordoned["spec"] == {**before["spec"], "unschedulable": True}
    assert cordoned["metadata"]["annotations"] == {names.DRAIN_REASON: "new fan", names.DRAINED_BY: "alice"}
    await set_cordon(client, "m", reason=None)
    back = server.get(Node, "m")
    assert back is not None
    assert back["spec"] == before["spec"]
    assert not back["metadata"].get("annotations")


async def test_who_asks_is_whom_the_server_knows_and_where_it_does_not_tell_whom_this_machine_does(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "bob")
    assert await who_asks(Client(server.connect("cli"))) == "bob"


async def test_only_workers_of_that_node_are_waited_for(server: FakeApiServer) -> None:
    client = Client(server.connect("cli"))
    assert await workers_on(client, "m") == ("lab/gpu-0",)
    said: list[str] = []
    asyncio.get_running_loop().call_later(5, lambda: server.remove(Pod, "gpu-0", "lab", grace_s=0))
    assert await emptied(client, "m", 60, said.append)
    assert said == ["waiting for 1 workers: lab/gpu-0", "no worker is left on node m"]


async def test_a_node_that_is_not_there_is_told(server: FakeApiServer) -> None:
    with pytest.raises(Failure, match="there is no Kubernetes node nowhere"):
        await set_cordon(Client(server.connect("cli")), "nowhere", reason="x")


def test_many_workers_are_not_all_named() -> None:
    assert waiting_for(tuple("abcdefg")) == "waiting for 7 workers: a, b, c, d, e and 2 more"
