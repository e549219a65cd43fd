"""`python -m bench.operator KUBECONFIG FILE`: what `corral run` runs, with a line in FILE for each request it sends."""

import asyncio
import sys
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from bench.lab import Sent
from corral.engine import Address, LeaseAddress, Metrics, run_until_signal
from corral.engine.logs import configure
from corral.kinds.registry import KINDS
from corral.kube import Client, HttpTransport, load_credentials


class Telling(Metrics):
    """The usual metrics, and each request as it is answered."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file

    def on_request(self, verb: str, kind: str, status: int, seconds: float) -> None:
        super().on_request(verb, kind, status, seconds)
        self._file.write(msgspec.json.encode(Sent(time.time(), verb, kind, status)) + b"\n")


async def main(kubeconfig: Path, file: Path) -> None:
    with file.open("ab", buffering=0) as requests:
        metrics = Telling(requests)
        async with Client(HttpTransport(load_credentials(kubeconfig), component="bench"), observer=metrics) as client:
            controllers = [entry.build() for entry in KINDS]
            health = Address(host="127.0.0.1", port=0)
            await run_until_signal(client, controllers, metrics=metrics, lease=LeaseAddress("default"), health=health)


if __name__ == "__main__":
    configure(form="json")
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
