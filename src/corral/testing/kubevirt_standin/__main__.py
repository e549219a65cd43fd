"""Play KubeVirt and CDI in a cluster that does not have them, until Ctrl-C: to try Wukongs, or to develop on them.

python -m corral.testing.kubevirt_standin                     with the real definitions, made known first
python -m corral.testing.kubevirt_standin --guests            machines boot a Debian, in a cluster of `corral up`
python -m corral.testing.kubevirt_standin --kubeconfig FILE   in another cluster than $KUBECONFIG's

Machines come to run, disks to be filled, snapshots to be taken. Without --guests nothing of it is real, and claims are
left to the cluster's own storage. `corral vm` needs virt-api, which nobody plays here.
"""

import argparse
import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from corral.kinds.wukong.power import SUBRESOURCES
from corral.kube import Client, CredentialsError, HttpTransport, load_credentials
from corral.kube.credentials import Credentials
from corral.kube.definitions import define
from corral.kube.models.apiextensions_v1 import CustomResourceDefinition
from corral.local.errors import LocalError
from corral.testing.guests.local import STORAGE, prepared
from corral.testing.kubevirt_standin.standin import KubeVirtStandIn
from corral.testing.vmcrds import vm_crds

NEXT = f"""\
Disks of storage class {STORAGE.metadata.name} boot, whatever their image is called, a Debian with cloud-init:
  corral crds | kubectl apply --server-side -f - && corral run --log-format console     the operator, if none runs
  kubectl apply -f FILE                                     a Wukong with sshKeySecret, and disks of that class
  kubectl logs -f POD                                       its console; POD is virt-launcher-..., 'guest is up' its end
  kubectl port-forward POD 2222:22 & ssh -p 2222 USER@localhost     on a network of type masquerade
"""


async def play(kubeconfig: Path | None, *, with_guests: bool) -> None:
    credentials = load_credentials(kubeconfig)
    async with Client(HttpTransport(credentials, component="kubevirt-standin")) as client:
        if await _has_kubevirt(client):
            raise SystemExit("error: this cluster has KubeVirt's controllers; a stand-in would work against them")
        crds = [msgspec.convert(crd, CustomResourceDefinition) for crd in vm_crds()]
        await define(client, crds, field_manager="kubevirt-standin")
        standin = await _with_guests(client, credentials) if with_guests else _alone(client)
        _say(f"{len(crds)} definitions are served; machines are played until Ctrl-C")
        await standin.run()


def _alone(client: Client) -> KubeVirtStandIn:
    return KubeVirtStandIn(client, real_binding=True, provisions=False, tell=_say)


async def _with_guests(client: Client, credentials: Credentials) -> KubeVirtStandIn:
    _say("preparing QEMU, a Debian, their image and storage class; the first time takes minutes")
    guests = await prepared(client, credentials)
    _say(NEXT.rstrip())
    return KubeVirtStandIn(client, real_binding=True, of_class=STORAGE.metadata.name, guests=guests, tell=_say)


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


async def _has_kubevirt(client: Client) -> bool:
    """Whether somebody serves the actions of machines: only KubeVirt's own API server does."""
    return any(served.resource.group == SUBRESOURCES for served in await client.resources())


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m corral.testing.kubevirt_standin", description=__doc__)
    words.formatter_class = argparse.RawDescriptionHelpFormatter
    words.add_argument("--kubeconfig", type=Path, default=None, help="default: as kubectl finds it")
    words.add_argument("--guests", action="store_true", help="machines boot real guests")
    asked = words.parse_args()
    with suppress(KeyboardInterrupt):
        try:
            asyncio.run(play(asked.kubeconfig, with_guests=asked.guests))
        except (LocalError, CredentialsError) as error:
            raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
