"""The generated part of deploy/: definitions, rights and policies, as files by their path below it. Pure.

`make generate` writes them, `make check` compares them; nothing edits them.
"""

from collections.abc import Iterable, Mapping

import msgspec
import yaml

from corral.engine.registry import KindController
from corral.install.policies import policies
from corral.install.rbac import operator_objects, people_objects
from corral.kube.codec import encode
from corral.kube.crd import crd_of, to_yaml
from corral.kube.meta import Object

HEADER = "# Written by `make generate`; edits are overwritten.\n"
FOLDERS = ("crds", "rbac", "policies")


def generated(kinds: Iterable[KindController]) -> Mapping[str, str]:
    entries = tuple(kinds)
    crds = {f"crds/{_file_name(entry.kind)}": to_yaml(crd_of(entry.kind)) for entry in entries}
    rbac = {
        "rbac/operator.yaml": manifests(operator_objects(entry.build() for entry in entries)),
        "rbac/people.yaml": manifests(people_objects(entry.kind for entry in entries)),
    }
    files = {**crds, **rbac, "policies/nodesets.yaml": manifests(policies())}
    for folder in FOLDERS:
        files[f"{folder}/kustomization.yaml"] = kustomization(name for name in files if name.startswith(f"{folder}/"))
    return {name: HEADER + text for name, text in sorted(files.items())}


def manifests(objects: Iterable[Object]) -> str:
    documents = [msgspec.json.decode(encode(obj)) for obj in objects]
    return yaml.dump_all(
        documents, Dumper=yaml.CSafeDumper, sort_keys=False, width=120, explicit_start=True, default_flow_style=None
    )


def kustomization(names: Iterable[str]) -> str:
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": sorted(name.rpartition("/")[2] for name in names),
    }
    return yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True)


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the files that are there, as sentences."""
    missing = [f"{name} is missing" for name in wanted.keys() - found.keys()]
    unknown = [f"{name} belongs to nothing" for name in found.keys() - wanted.keys()]
    outdated = [f"{name} is out of date" for name in wanted.keys() & found.keys() if wanted[name] != found[name]]
    return tuple(sorted((*missing, *unknown, *outdated)))


def _file_name(kind: type[Object]) -> str:
    return f"{kind.resource.plural}.{kind.resource.group}.yaml"
