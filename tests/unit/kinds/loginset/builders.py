"""LoginSets and what is around them, with defaults, so that a test shows only what matters in it."""

from datetime import UTC, datetime
from typing import Any

from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.identity import Identity, User
from corral.kinds.keys import slurm_key_of
from corral.kinds.loginset.plan import FreshKeys, Snapshot
from corral.kinds.loginset.spec import LoginSet, LoginSetSpec
from corral.kinds.parts import Ref
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Secret

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ALICE = Identity(users=(User(name="alice", uid=5001, authorized_keys=("ssh-ed25519 AAAA",)),))
HOST_KEYS = {"ssh_host_ed25519_key": b"private", "ssh_host_ed25519_key.pub": b"ssh-ed25519 AAAA\n"}


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="lab", uid=f"uid-{name}", resource_version="1", generation=1, **more)


def a_controller(**spec: Any) -> Controller:
    return Controller(metadata=meta("demo"), spec=ControllerSpec(**spec))


def a_loginset(**spec: Any) -> LoginSet:
    return LoginSet(metadata=meta("demo"), spec=LoginSetSpec(controller_ref=Ref(name="demo"), **spec))


def a_key(controller: Controller) -> Secret:
    key = slurm_key_of(controller)
    return Secret(metadata=meta(key.name), data={key.key: b"secret"})


def a_snapshot(loginset: LoginSet | None = None, controller: Controller | None = None, **more: Any) -> Snapshot:
    """Everything that a LoginSet needs is there."""
    controller = controller or a_controller(identity=ALICE)
    found: dict[str, Any] = {
        "slurm_key": a_key(controller),
        "people": ConfigMap(metadata=meta("demo-identity"), data={"passwd": "alice"}),
        "fresh_keys": FreshKeys(HOST_KEYS),
    }
    return Snapshot(object=loginset or a_loginset(), now=NOW, controller=controller, **(found | more))
