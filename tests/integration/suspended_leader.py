"""A process that leads, waits for a line, and then tries to write once. Its parent suspends it in between.

python suspended_leader.py KUBECONFIG NAMESPACE
"""

import asyncio
import sys

from corral.engine.clock import system_clock
from corral.engine.lease import Election, Terms
from corral.kube import Client, HttpTransport, ObjectMeta, load_credentials
from corral.kube.errors import Refused
from corral.kube.models.core_v1 import ConfigMap

TERMS = Terms(duration_s=3, renew_deadline_s=2.0, retry_s=0.4)


async def main(kubeconfig: str, namespace: str) -> None:
    async with Client(HttpTransport(load_credentials(kubeconfig), component="leader")) as client:
        election = Election(client, system_clock(), name="lease", namespace=namespace, identity="first", terms=TERMS)
        await election.acquire()
        holding = asyncio.create_task(election.hold())
        print("leading", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        late = ConfigMap(metadata=ObjectMeta(name="late", namespace=namespace))
        try:
            await client.fenced(election.may_write).create(late, field_manager="test")
            print("wrote", flush=True)
        except Refused:
            print("refused", flush=True)
        holding.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
