"""`python -m bench.operator KUBECONFIG [SLURM]`: what `corral run` runs, under a user agent of its own.

SLURM is where slurmrestd is asked instead of at its Service: see `bench.slurm_standin`.
"""

import asyncio
import sys
from pathlib import Path

from bench.lab import OPERATOR
from corral.engine import Address, LeaseAddress, Metrics, run_until_signal
from corral.engine.controller import AnyController
from corral.engine.logs import configure
from corral.kinds.nodeset.controller import controller as nodeset_controller
from corral.kinds.nodeset.rest import RestClusters
from corral.kinds.nodeset.spec import NodeSet
from corral.kinds.registry import KINDS
from corral.kube import Client, HttpTransport, load_credentials
from corral.slurm.http import HttpTransport as SlurmTransport
from corral.slurm.transport import Endpoint


def controllers(slurm: str) -> list[AnyController]:
    if not slurm:
        return [entry.build() for entry in KINDS]
    asked = RestClusters(transport=lambda _service: SlurmTransport(Endpoint(url=slurm)))
    others = [entry.build() for entry in KINDS if entry.kind is not NodeSet]
    return [*others, nodeset_controller(asked)]


async def main(kubeconfig: Path, slurm: str) -> None:
    metrics = Metrics()
    async with Client(HttpTransport(load_credentials(kubeconfig), component=OPERATOR), observer=metrics) as client:
        health = Address(host="127.0.0.1", port=0)
        await run_until_signal(
            client, controllers(slurm), metrics=metrics, lease=LeaseAddress("default"), health=health
        )


if __name__ == "__main__":
    configure(form="json")
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
