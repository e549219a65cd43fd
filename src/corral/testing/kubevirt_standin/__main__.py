"""Play KubeVirt and CDI in a cluster that does not have them, until Ctrl-C: to try Wukongs, or to develop on them.

python -m corral.testing.kubevirt_standin                     with the real definitions, made known first
python -m corral.testing.kubevirt_standin --kubeconfig FILE   in another cluster than $KUBECONFIG's

Machines come to run, disks to be filled, snapshots to be taken, and nothing of it is real. Claims are left to the
cluster's own storage. `corral vm` needs virt-api, which nobody plays here.
"""

import argparse
import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from corral.kinds.wukong.power import SUBRESOURCES
from corral.kube import Client, HttpTransport, load_credentials
from corral.kube.definitions import define
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.testing.kubevirt_standin.standin import KubeVirtStandIn
from corral.testing.vmcrds import vm_crds


async def play(kubeconfig: Path | None) -> None:
    async with Client(HttpTransport(load_credentials(kubeconfig), component="kubevirt-standin")) as client:
        if await _has_kubevirt(client):
            raise SystemExit("error: this cluster has KubeVirt's controllers; a stand-in would work against them")
        crds = [msgspec.convert(crd, CustomResourceDefinition) for crd in vm_crds()]
        await define(client, crds, field_manager="kubevirt-standin")
        sys.stderr.write(f"{len(crds)} definitions are served; machines are played until Ctrl-C\n")
        standin = KubeVirtStandIn(client, real_binding=True, provisions=False)
        await standin.run()


async def _has_kubevirt(client: Client) -> bool:
    """Whether somebody serves the actions of machines: only KubeVirt's own API server does."""
    return any(served.resource.group == SUBRESOURCES for served in await client.resources())


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m corral.testing.kubevirt_standin", description=__doc__)
    words.formatter_class = argparse.RawDescriptionHelpFormatter
    words.add_argument("--kubeconfig", type=Path, default=None, help="default: as kubectl finds it")
    with suppress(KeyboardInterrupt):
        asyncio.run(play(words.parse_args().kubeconfig))


if __name__ == "__main__":
    main()
