"""`corral rollback` against the fake API server, with revisions as the operator keeps them."""

from typing import Any

import msgspec
import pytest

from corral.cli.errors import Failure
from corral.cli.rollback import rolled_back, told
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.nodeset.revision import kept, revision_of
from corral.kinds.nodeset.rollback import Rollback
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.client import Client
from corral.kube.models.apps_v1 import ControllerRevision
from corral.testing.apiserver import FakeApiServer

pytestmark = pytest.mark.looptime(noop_cycles=0)
API = "slurm.corral.dev/v1alpha1"
OLD: dict[str, Any] = {"slurmd": {"image": "slurm:old", "env": [{"name": "A", "value": "1"}]}, "extraConf": "Weight=1"}
NEW: dict[str, Any] = {"slurmd": {"image": "slurm:new", "resources": {"limits": {"cpu": "2"}}}}


def present(server: FakeApiServer) -> NodeSet:
    return msgspec.convert(server.get(NodeSet, "gpu", "lab"), NodeSet)


def remember(server: FakeApiServer) -> None:
    """As a pass of the operator does."""
    nodeset = present(server)
    controller = msgspec.convert(server.get(Controller, "slurm", "lab"), Controller)
    known = [msgspec.convert(one, ControllerRevision) for one in server.all_of(ControllerRevision)]
    for one in kept(nodeset, controller, known, ()):
        if one.metadata.name not in {other.metadata.name for other in known}:
            content = msgspec.to_builtins(one)
            owner = {"apiVersion": API, "kind": "NodeSet", "name": "gpu", "uid": nodeset.metadata.uid}
            content["metadata"] |= {"namespace": "lab", "ownerReferences": [{**owner, "controller": True}]}
            server.add({"apiVersion": "apps/v1", "kind": "ControllerRevision", **content})


@pytest.fixture
def server() -> FakeApiServer:
    server = FakeApiServer(namespaces=("lab",))
    for kind in (NodeSet, Controller):
        server.register(kind)
    meta = {"namespace": "lab"}
    server.add({"apiVersion": API, "kind": "Controller", "metadata": {"name": "slurm", **meta}, "spec": {}})
    spec = {"controllerRef": {"name": "slurm"}, "replicas": 3, **OLD}
    server.add({"apiVersion": API, "kind": "NodeSet", "metadata": {"name": "gpu", **meta}, "spec": spec})
    remember(server)
    change = {**NEW, "slurmd": {**NEW["slurmd"], "env": None}, "extraConf": None, "replicas": 5}
    server.edit(NodeSet, "gpu", "lab", merge={"spec": change})
    remember(server)
    return server


async def test_workers_are_asked_for_as_they_were_before_and_nothing_else_changes(server: FakeApiServer) -> None:
    done = await rolled_back(Client(server.connect("cli")), "gpu", "lab", "")
    after = server.get(NodeSet, "gpu", "lab")
    assert after is not None
    assert after["spec"] == {"controllerRef": {"name": "slurm"}, "replicas": 5, **OLD}
    assert done.number == 1
    controller = msgspec.convert(server.get(Controller, "slurm", "lab"), Controller)
    assert revision_of(present(server), controller) == done.revision


@pytest.mark.parametrize("by", ["number", "digest", "name"])
async def test_a_revision_is_named_by_its_number_its_digest_or_its_name(server: FakeApiServer, by: str) -> None:
    first = min(server.all_of(ControllerRevision), key=lambda one: int(one["revision"]))
    meta = first["metadata"]
    to = {"number": "1", "digest": meta["labels"][names.REVISION_LABEL], "name": meta["name"]}[by]
    assert (await rolled_back(Client(server.connect("cli")), "gpu", "lab", to)).number == 1
    assert present(server).spec.slurmd["image"] == "slurm:old"


async def test_the_present_revision_changes_nothing(server: FakeApiServer) -> None:
    before = server.get(NodeSet, "gpu", "lab")
    done = await rolled_back(Client(server.connect("cli")), "gpu", "lab", "2")
    assert done.patch == ()
    assert server.get(NodeSet, "gpu", "lab") == before


async def test_a_version_of_slurm_that_is_the_controllers_anyway_stays_the_controllers(server: FakeApiServer) -> None:
    await rolled_back(Client(server.connect("cli")), "gpu", "lab", "1")
    assert present(server).spec.version is None


async def test_another_version_of_slurm_is_asked_for_by_name(server: FakeApiServer) -> None:
    server.edit(NodeSet, "gpu", "lab", merge={"spec": {"version": "24.11"}})
    remember(server)
    server.edit(NodeSet, "gpu", "lab", merge={"spec": {"version": None}})
    await rolled_back(Client(server.connect("cli")), "gpu", "lab", "")
    assert present(server).spec.version == "24.11"


@pytest.mark.parametrize(
    ("name", "to", "says"),
    [
        ("gpu", "7", "gpu has no revision 7; its revisions: 1, 2"),
        ("tpu", "", "there is no NodeSet lab/tpu"),
    ],
)
async def test_what_cannot_be_is_said(server: FakeApiServer, name: str, to: str, says: str) -> None:
    with pytest.raises(Failure, match=says):
        await rolled_back(Client(server.connect("cli")), name, "lab", to)


async def test_with_one_revision_there_is_nothing_to_go_back_to(server: FakeApiServer) -> None:
    for one in server.all_of(ControllerRevision):
        if one["revision"] == 1:
            server.remove(ControllerRevision, one["metadata"]["name"], "lab")
    with pytest.raises(Failure, match="there is no other revision to roll back to"):
        await rolled_back(Client(server.connect("cli")), "gpu", "lab", "")


def test_who_goes_back_is_told_how_to_follow_it_and_who_is_there_is_not() -> None:
    going = told(Rollback(number=2, revision="abc", patch=({"op": "replace"},)), "gpu", "lab")
    there = told(Rollback(number=2, revision="abc", patch=()), "gpu", "lab")

    assert going[-1].endswith("kubectl -n lab get nodeset gpu --watch")
    assert there == ("NodeSet lab/gpu: revision 2 (abc) is what is asked for already",)
