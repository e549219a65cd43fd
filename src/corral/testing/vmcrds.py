"""The real definitions of KubeVirt, CDI, Multus, NMState and CSI snapshots, from the Go modules of their projects.

    vm_crds()                              the definitions, as plain JSON values
    python -m corral.testing.vmcrds FILE   writes them as YAML; `make generate` makes our models from that file

None of these projects publishes definitions as a package: KubeVirt and CDI keep them as YAML inside Go sources, the
others as files. They are read from the modules, each pinned by its sum (see `gomodules`).
KubeVirt's are schemas only; the few lines around each (names, versions, subresources) are said in `KUBEVIRT`.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
import yaml

from corral.testing.gomodules import Definition, GoModule, downloaded, loaded, without_status


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """What KubeVirt's Go code says around a schema. `status`: whether its status is a subresource."""

    kind: str
    group: str
    version: str
    status: bool = True


KUBEVIRT_MODULE: Final = GoModule("kubevirt.io/kubevirt", "v1.9.0", "h1:eauQfI39dRALNciMIQtR7UsbTUjUft5V6IBO57Icl/k=")
CDI_MODULE: Final = GoModule(
    "kubevirt.io/containerized-data-importer", "v1.65.0", "h1:V2Yc+D+WeZ3uUubzxuOvMiXe5puIyekY5498xBmG3hA="
)
MULTUS_MODULE: Final = GoModule(
    "github.com/k8snetworkplumbingwg/network-attachment-definition-client",
    "v1.7.7",
    "h1:z4P744DR+PIpkjwXSEc6TvN3L6LVzmUquFgmNm8wSUc=",
)
NMSTATE_MODULE: Final = GoModule(
    "github.com/nmstate/kubernetes-nmstate", "v0.86.0", "h1:p6YmPV/kFpz9q+5EQ2TzE47bw90EQrJkbPcN2vDrduU="
)
SNAPSHOTTER_MODULE: Final = GoModule(
    "github.com/kubernetes-csi/external-snapshotter/client/v8",
    "v8.2.0",
    "h1:Q3jQ1NkFqv5o+F8dMmHd8SfEmlcwNeo1immFApntEwE=",
)

KUBEVIRT: Final = (
    Schema(kind="VirtualMachine", group="kubevirt.io", version="v1"),
    Schema(kind="VirtualMachineInstance", group="kubevirt.io", version="v1", status=False),
    Schema(kind="VirtualMachineInstanceMigration", group="kubevirt.io", version="v1"),
    Schema(kind="VirtualMachineSnapshot", group="snapshot.kubevirt.io", version="v1beta1"),
    Schema(kind="VirtualMachineSnapshotContent", group="snapshot.kubevirt.io", version="v1beta1"),
    Schema(kind="VirtualMachineRestore", group="snapshot.kubevirt.io", version="v1beta1"),
)
CDI: Final = ("datavolume", "datasource")
NMSTATE_FILES: Final = ("nodenetworkconfigurationpolicies", "nodenetworkstates")

_ENTRY = re.compile(r'^\t"(?P<name>\w+)": (?P<text>`[^`]*`(?: ?\+ ?"`" ?\+ ?`[^`]*`)*)', re.MULTILINE)
_QUOTED_BACKTICK = re.compile(r'` ?\+ ?"`" ?\+ ?`')


@cache
def vm_crds() -> tuple[Definition, ...]:
    """Every definition that the Wukong kinds build on. The first call ever downloads about 20 MB."""
    return (*_kubevirt(), *_cdi(), *_multus(), *_nmstate(), *_volume_snapshots())


def crd_of_kind(kind: str) -> Definition:
    return next(crd for crd in vm_crds() if crd["spec"]["names"]["kind"] == kind)


def as_yaml(crds: Sequence[Definition]) -> str:
    return yaml.dump_all(crds, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True)


def go_texts(source: str) -> dict[str, str]:
    """The entries of a Go map of raw strings. A backtick in one is written as a concatenation."""
    return {found["name"]: _QUOTED_BACKTICK.sub("`", found["text"])[1:-1] for found in _ENTRY.finditer(source)}


def _kubevirt() -> Iterator[Definition]:
    file = "pkg/virt-operator/resource/generate/components/validations_generated.go"
    texts = go_texts((downloaded(KUBEVIRT_MODULE) / file).read_text())
    for schema in KUBEVIRT:
        singular = schema.kind.lower()
        names = {"kind": schema.kind, "singular": singular, "plural": f"{singular}s", "listKind": f"{schema.kind}List"}
        version = {"name": schema.version, "served": True, "storage": True, "schema": loaded(texts[singular])}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{singular}s.{schema.group}"},
            "spec": {
                "group": schema.group,
                "names": names,
                "scope": "Namespaced",
                "versions": [{**version, "subresources": {"status": {}}} if schema.status else version],
            },
        }


def _cdi() -> Iterator[Definition]:
    texts = go_texts((downloaded(CDI_MODULE) / "pkg/operator/resources/crds_generated.go").read_text())
    for name in CDI:
        yield without_status(loaded(texts[name]))


def _multus() -> Iterator[Definition]:
    yield loaded((downloaded(MULTUS_MODULE) / "artifacts/networks-crd.yaml").read_text())


def _nmstate() -> Iterator[Definition]:
    folder = downloaded(NMSTATE_MODULE) / "deploy/crds"
    for name in NMSTATE_FILES:
        yield without_status(loaded((folder / f"nmstate.io_{name}.yaml").read_text()))


def _volume_snapshots() -> Iterator[Definition]:
    file = "config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml"
    yield without_status(loaded((downloaded(SNAPSHOTTER_MODULE) / file).read_text()))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(as_yaml(vm_crds()))
