"""Write everything the components read: certificates, kubeconfigs, configuration files, and the list of components.

Each file follows from the description, so writing them again changes nothing; a component's revision is a digest of
its command line and of every file that it mentions, directly or through another one.
"""

import hashlib
import os
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from corral.local import builds, certificates, cgroups, controlplane, dns, node
from corral.local.home import Home, write
from corral.local.kubeconfig import kubeconfig
from corral.local.spec import Spec
from corral.local.supervision import Component

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
)
_CAP_SYS_RESOURCE = 24


def configure(spec: Spec, home: Home) -> None:
    programs = {name: builds.binary(name) for name in PROGRAMS}
    _write_credentials(spec, home)
    _write_if_changed(home.config / "Corefile", dns.corefile(spec, home))
    _write_if_changed(controlplane.audit_policy_path(home), msgspec.json.encode(controlplane.audit_policy()).decode())
    privileged = _has_capability(_CAP_SYS_RESOURCE, Path("/proc/self/status").read_text())
    for each in spec.nodes:
        cgroups.prepare_node(spec.cgroup, each.name)
        for path, text in node.files(spec, home, each, lowers_oom_scores=privileged).items():
            _write_if_changed(path, text)
    for directory in (home.logs, home.records, home.volumes):
        directory.mkdir(parents=True, exist_ok=True)
    write(
        home.components, msgspec.json.encode(tuple(_with_revision(c, home) for c in _components(spec, home, programs)))
    )


def _components(spec: Spec, home: Home, programs: dict[str, Path]) -> tuple[Component, ...]:
    return (
        *controlplane.components(spec, home, programs),
        dns.component(home, programs["coredns"]),
        _storage(home),
        *(component for each in spec.nodes for component in node.components(home, each, programs)),
    )


def _storage(home: Home) -> Component:
    # By name and not by import: `up` need not load the client that the provisioner speaks through.
    arguments = (str(controlplane.kubeconfig_path(home, "storage")), str(home.volumes))
    return Component(
        name="storage",
        argv=(sys.executable, "-m", "corral.local.provisioner", *arguments),
        after=(controlplane.API_SERVER,),
    )


def _write_credentials(spec: Spec, home: Home) -> None:
    certificates.ensure(home.pki, certificates.wanted(spec), datetime.now(UTC))
    certificates.ensure_service_account_key(home.pki)
    home.pki.chmod(0o700)
    users = {**controlplane.USERS, **{each.name: f"system:node:{each.name}" for each in spec.nodes}}
    for file, user in users.items():
        _write_if_changed(controlplane.kubeconfig_path(home, file), _kubeconfig(spec, home, file, user), 0o600)
    _write_if_changed(home.kubeconfig, _kubeconfig(spec, home, "admin", spec.context), 0o600)
    _give_to_invoker(home.kubeconfig)


def _kubeconfig(spec: Spec, home: Home, file: str, user: str) -> str:
    return kubeconfig(
        context=spec.context,
        server=spec.server,
        authority=(home.pki / "ca.crt").read_bytes(),
        user=user,
        credentials=certificates.read(home.pki, file),
    )


def _give_to_invoker(path: Path) -> None:
    """Who came here through sudo uses the cluster without it."""
    if "SUDO_UID" in os.environ and "SUDO_GID" in os.environ:
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def _has_capability(number: int, status: str) -> bool:
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(mask, 16) >> number & 1)


def _write_if_changed(path: Path, text: str, mode: int = 0o644) -> None:
    if not path.exists() or path.read_text() != text:
        write(path, text, mode)


def _with_revision(component: Component, home: Home) -> Component:
    return msgspec.structs.replace(component, revision=revision(component, home))


def revision(component: Component, home: Home) -> str:
    digest = hashlib.sha256("\0".join(component.argv).encode())
    mention = re.compile(rf"{re.escape(str(home.path))}/(?:pki|config)/[\w./-]+")
    seen: set[str] = set()
    pending = mention.findall("\0".join(component.argv))
    while pending:
        path = pending.pop(0)
        if path in seen or not os.path.isfile(path):
            continue
        seen.add(path)
        text = Path(path).read_text()
        digest.update(f"{path}\0{text}\0".encode())
        pending += mention.findall(text)
    return digest.hexdigest()[:16]
