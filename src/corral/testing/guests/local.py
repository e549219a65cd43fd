"""What guests need of a local cluster: an image with bash in its nodes, a folder for disks, and a storage class."""

import asyncio

from corral.kube import Client, load_credentials
from corral.kube.credentials import Credentials
from corral.kube.meta import ObjectMeta
from corral.kube.models.storage_v1 import StorageClass
from corral.local import images
from corral.local.errors import LocalError
from corral.local.home import Home, existing_names, home_of
from corral.testing.guests.contents import Contents
from corral.testing.guests.disk import debian_disk, qemu_root
from corral.testing.guests.pods import MANAGER, Guests
from corral.testing.guests.processor import accelerator

STORAGE = StorageClass(
    metadata=ObjectMeta(name="guests"),
    provisioner="kubevirt-standin.corral.dev/none",  # the stand-in looks for claims of the class itself
    allow_volume_expansion=True,
)


async def prepared(client: Client, credentials: Credentials) -> Guests:
    """What is missing is made: QEMU and a Debian take minutes, once a user. Disks go with the cluster."""
    home = home_behind(credentials)
    guests = await asyncio.to_thread(_made, client, home)
    await client.apply(STORAGE, field_manager=MANAGER, force=True)
    return guests


def home_behind(credentials: Credentials) -> Home:
    for home in map(home_of, existing_names()):
        if home.kubeconfig.is_file() and load_credentials(home.kubeconfig).server.url == credentials.server.url:
            return home
    raise LocalError(
        f"guests run in a cluster of this machine, and {credentials.server.url} is none: "
        "run `corral up --bare`, and set KUBECONFIG as it says"
    )


def _made(client: Client, home: Home) -> Guests:
    spec = home.read_spec()
    if spec is None:
        raise LocalError(f"cluster {home.path.name} is not up: run `corral up --bare --name {home.path.name}`")
    images.ensure(home, spec, images.toolbox())
    return Guests(
        client,
        Contents(home.path / "guests", debian_disk()),
        tools=qemu_root(),
        image=images.TOOLBOX_IMAGE,
        accelerator=accelerator(),
    )
