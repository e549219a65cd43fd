"""An operator for one namespace sees, makes and asks for nothing of another one."""

import pytest

from corral.engine.controller import AnyController, confined
from corral.kube.models.core_v1 import ConfigMap
from corral.testing.apiserver import FakeApiServer
from corral.testing.operators import Operator, converged
from examples.note import Note, controller

pytestmark = pytest.mark.looptime(noop_cycles=0)


def of_lab() -> AnyController:
    return confined(controller(), "lab")


async def test_only_the_objects_of_its_namespace_are_looked_at() -> None:
    server = FakeApiServer(seed=1, namespaces=("lab", "office"))
    server.register(Note, status=True)
    for namespace in ("lab", "office"):
        note = {"apiVersion": Note.resource.api_version, "kind": "Note", "spec": {"text": "hello"}}
        server.add({**note, "metadata": {"name": "hello", "namespace": namespace}})
    Operator(server, of_lab, seed=1).start()
    await converged(server, of_lab, within_s=60, quiet_s=11)
    assert [obj["metadata"]["name"] for obj in server.all_of(ConfigMap, "lab")] == ["hello-0"]
    assert server.all_of(ConfigMap, "office") == []
