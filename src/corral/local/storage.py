"""Volumes for claims: a provisioner that makes a directory in the cluster's own and a PersistentVolume that names it.

    python -m corral.local.storage KUBECONFIG DIRECTORY

All nodes see the same disk, so a volume may be used from every node at once (ReadWriteMany). Sizes are recorded and
not enforced. A released volume goes with its directory.
"""

import sys
from pathlib import Path

from corral.local.controlplane import API_SERVER, kubeconfig_path
from corral.local.home import Home
from corral.local.supervision import Component


def component(home: Home, python: Path) -> Component:
    return Component(
        name="storage",
        argv=(str(python), "-m", "corral.local.storage", str(kubeconfig_path(home, "storage")), str(home.volumes)),
        after=(API_SERVER,),
    )


def main(kubeconfig: str, directory: str) -> None:
    import time

    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
