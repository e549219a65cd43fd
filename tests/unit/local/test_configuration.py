from datetime import UTC, datetime
from pathlib import Path

import yaml

from corral.local import controlplane, node
from corral.local.certificates import Wanted, issue
from corral.local.configuration import revision
from corral.local.home import Home, write
from corral.local.kubeconfig import kubeconfig
from corral.local.spec import Spec
from corral.local.supervision import Component

SPEC = Spec("dev", 2, 0)
HOME = Home(Path("/state"))
PROGRAMS = {
    name: Path("/bin") / name
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
}


def test_a_component_gets_a_new_revision_when_a_file_changes_that_its_configuration_mentions(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write(home.pki / "node-1.crt", "old")
    write(home.config / "kubelet.yaml", f"tlsCertFile: {home.pki / 'node-1.crt'}\n")
    component = Component(name="kubelet", argv=("kubelet", f"--config={home.config / 'kubelet.yaml'}"))
    before = revision(component, home)

    assert revision(component, home) == before
    write(home.pki / "node-1.crt", "new")
    assert revision(component, home) != before


def test_a_change_elsewhere_restarts_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    component = Component(name="etcd", argv=("etcd", f"--cert-file={home.pki / 'etcd.crt'}"))
    before = revision(component, home)

    write(home.pki / "node-1.crt", "new")

    assert revision(component, home) == before


def test_the_api_server_and_the_kubelets_know_nobody_without_a_certificate_or_token() -> None:
    api_server = next(c for c in controlplane.components(SPEC, HOME, PROGRAMS) if c.name == "kube-apiserver")
    kubelet = node.kubelet(SPEC, HOME, SPEC.nodes[0], lowers_oom_scores=True)

    assert "--anonymous-auth=false" in api_server.argv
    assert "--authorization-mode=Node,RBAC" in api_server.argv
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authorization"] == {"mode": "Webhook"}


def test_an_audit_log_is_kept_where_logs_are_and_only_when_asked_for() -> None:
    quiet, audited = (
        next(c for c in controlplane.components(spec, HOME, PROGRAMS) if c.name == "kube-apiserver").argv
        for spec in (SPEC, Spec("dev", 2, 0, audit=True))
    )

    assert f"--audit-log-path={HOME.log('audit')}" in audited
    assert not any("audit" in word for word in quiet)
    assert [rule["level"] for rule in controlplane.audit_policy()["rules"]] == ["Metadata"]  # secrets stay in objects


def test_no_secret_stands_on_a_command_line() -> None:
    components = (
        *controlplane.components(SPEC, HOME, PROGRAMS),
        *(c for each in SPEC.nodes for c in node.components(HOME, each, PROGRAMS)),
    )

    assert not any("PRIVATE KEY" in word or "token" in word for c in components for word in c.argv)


def test_a_machine_that_forbids_lower_oom_scores_is_not_asked_for_them() -> None:
    config = Path("/cni")

    assert "restrict_oom_score_adj = true" in node.containerd(config, lowers_oom_scores=False)
    assert "restrict_oom_score_adj = false" in node.containerd(config, lowers_oom_scores=True)
    assert node.kubelet(SPEC, HOME, SPEC.nodes[0], lowers_oom_scores=False)["oomScoreAdj"] == 0


def test_a_kubeconfig_holds_everything_and_names_its_own_context() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    pair = issue(Wanted(file="ca", authority="ca", user="x"), None, now)

    written = yaml.safe_load(
        kubeconfig(context="corral-dev", server="https://198.18.0.2:6443", authority=b"ca", user="me", credentials=pair)
    )

    assert written["current-context"] == "corral-dev"
    assert written["clusters"][0]["cluster"]["certificate-authority-data"] == "Y2E="
    assert set(written["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
