"""A process that leads, waits for a line, and then writes. Its parent suspends it before, or while its writes are sent.

python suspended_leader.py KUBECONFIG NAMESPACE late         one write, after the line
python suspended_leader.py KUBECONFIG NAMESPACE under-way    one of each kind at once, after the line
"""

import asyncio
import json
import sys
from collections.abc import Mapping

from corral.engine import Action, Apply, Create, Delete, Evict, Patch, target
from corral.engine.clock import system_clock
from corral.engine.lease import Election, Terms
from corral.engine.send import send, send_status
from corral.kube import Client, HttpTransport, ObjectMeta, load_credentials
from corral.kube.errors import KubeError, Refused
from corral.kube.models.core_v1 import ConfigMap, Pod
from corral.testing.toys import Toy, ToyStatus

TERMS = Terms(duration_s=3, renew_deadline_s=2.0, retry_s=0.4)
UNRENEWED = Terms(duration_s=12, renew_deadline_s=10.0, retry_s=0.4)
CONNECTIONS = 16  # open before the writes, which are then sent at once
OLDER = {"said": "older"}


async def late(client: Client, namespace: str) -> None:
    election = Election(client, system_clock(), name="lease", namespace=namespace, identity="first", terms=TERMS)
    await election.acquire()
    holding = asyncio.create_task(election.hold())
    await asked_to_write()
    made = ConfigMap(metadata=ObjectMeta(name="late", namespace=namespace))
    try:
        await client.fenced(election.may_write).create(made, field_manager="test")
        tell("wrote")
    except Refused:
        tell("refused")
    holding.cancel()


async def under_way(client: Client, namespace: str) -> None:
    """It does not renew its lease: what is under way when it is suspended are its writes alone."""
    names = ("applied", "patched", "gone")
    applied, patched, gone = [target(await client.get(ConfigMap, name, namespace)) for name in names]
    pod, toy = await client.get(Pod, "evicted", namespace), await client.get(Toy, "bear", namespace)
    await asyncio.gather(*(client.get(ConfigMap, "applied", namespace) for _ in range(CONNECTIONS)))
    election = Election(client, system_clock(), name="lease", namespace=namespace, identity="first", terms=UNRENEWED)
    await election.acquire()
    await asked_to_write()
    leader = client.fenced(election.may_write)
    actions: Mapping[str, Action] = {
        "apply": Apply(object=a_map("applied", namespace), over=applied, reason="", message=""),
        "patch": Patch(target=patched, merge={"data": OLDER}, reason="", message=""),
        "delete": Delete(target=gone, reason="", message=""),
        "evict": Evict(target=target(pod), reason="", message=""),
        "make": Apply(object=a_map("made", namespace), reason="", message=""),
        "create": Create(object=a_map("created", namespace), reason="", message=""),
    }
    writes = {name: send(action, leader, "test") for name, action in actions.items()}
    writes["status"] = send_status(ToyStatus(copies=1), toy, leader, "test", note=lambda _: None)
    answers = await asyncio.gather(*writes.values(), return_exceptions=True)
    tell(json.dumps({name: outcome(answer) for name, answer in zip(writes, answers, strict=True)}))


def a_map(name: str, namespace: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=OLDER)


def outcome(answer: object) -> str:
    if isinstance(answer, BaseException) and not isinstance(answer, KubeError):
        raise answer
    return type(answer).__name__ if isinstance(answer, KubeError) else "done"


async def asked_to_write() -> None:
    tell("leading")
    await asyncio.to_thread(sys.stdin.readline)


def tell(line: str) -> None:
    print(line, flush=True)


async def main(kubeconfig: str, namespace: str, what: str) -> None:
    async with Client(HttpTransport(load_credentials(kubeconfig), component="leader")) as client:
        await {"late": late, "under-way": under_way}[what](client, namespace)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
