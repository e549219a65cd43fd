"""`corral render` of the kinds of virtual machines: everything that they come to have, also what waits for the rest."""

from pathlib import Path

import pytest

from corral.cli.loading import manifests_in
from corral.cli.render import rendered
from corral.kinds.registry import KINDS
from corral.kube.meta import ref

WUKONG = """
apiVersion: vm.corral.dev/v1alpha1
kind: Wukong
metadata: {name: web}
spec:
  cpu: 2
  memory: 4Gi
  disks: [{name: root, size: 20Gi, image: 'docker://images.test/debian:13'}, {name: data, size: 50Gi}]
  networks: [{name: default}, {name: lan, bridgeName: br0}]
  service: {ports: [{name: ssh, port: 22}]}
"""
SNAPSHOT = """
apiVersion: vm.corral.dev/v1alpha1
kind: WukongSnapshot
metadata: {name: friday}
spec: {wukongName: web, disks: [data]}
"""
BRIDGE = """
apiVersion: vm.corral.dev/v1alpha1
kind: NodeBridge
metadata: {name: lan}
spec: {bridgeName: br0, port: ens4}
"""


@pytest.mark.parametrize(
    ("manifest", "made"),
    [
        (
            WUKONG,
            {
                "Secret lab/web-cloud-init",
                "DataVolume lab/web-root",
                "PersistentVolumeClaim lab/web-data",
                "NetworkAttachmentDefinition lab/web-lan-nad",
                "Service lab/web",
                "VirtualMachine lab/web",
            },
        ),
        (SNAPSHOT, {"VolumeSnapshot lab/friday-data"}),
        (SNAPSHOT.replace(", disks: [data]", ""), {"VirtualMachineSnapshot lab/friday"}),
        (BRIDGE, {"NodeNetworkConfigurationPolicy corral-lan.NODE"}),
    ],
    ids=["Wukong", "snapshot of disks", "snapshot", "NodeBridge"],
)
async def test_everything_that_a_manifest_becomes_is_shown(manifest: str, made: set[str], tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text(manifest)
    assert {str(ref(obj)) for obj in await rendered(manifests_in(file, KINDS, "lab"))} == made
