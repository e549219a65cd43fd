"""`corral lint`: the place in the file that a person edits, the reason, what was probably meant; and the exit code."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from corral.cli.errors import Failure
from corral.cli.lint import lint_command, remarks_of
from corral.cli.lint_files import Level
from corral.cli.main import main
from corral.kinds.registry import KINDS

CONTROLLER = """\
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {name: demo}
spec:
  configFileRefs: [{name: files}]
  extraConf: |
    MaxJobCount=100
    MaxJobCuont=5
    PartitionName=night Nodes=worker
    SlurmctldParameters=enable_configles
    SwitchType=switch/none
---
apiVersion: slurm.corral.dev/v1alpha1
kind: NodeSet
metadata: {name: worker}
spec:
  controllerRef: {name: demo}
  extraConf: Wieght=10
  partition: {enabled: true, config: MaxTime=soon}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
data:
  cgroup.conf: |
    # ours
    CgroupPlugin=cgroup/v3
"""


def said(name: str, text: str, version: str | None = None) -> list[str]:
    return [str(remark) for remark in remarks_of({name: text}, version, None, KINDS)]


def lint(folder: Path, name: str, text: str, *options: str) -> Result:
    (folder / name).write_text(text)
    return CliRunner().invoke(lint_command, [str(folder / name), *options], standalone_mode=True)


@pytest.mark.parametrize(
    "remark",
    [
        (
            "m.yaml:8: error: Controller demo, spec.extraConf: MaxJobCuont is no key in slurm.conf of Slurm 26.05: "
            "did you mean MaxJobCount?"
        ),
        (
            "m.yaml:10: warning: Controller demo, spec.extraConf: SlurmctldParameters has no option enable_configles: "
            "did you mean enable_configless? Slurm ignores it silently"
        ),
        (
            "m.yaml:11: note: Controller demo, spec.extraConf: SwitchType needs more than a reconfigure when it "
            "changes: drain all jobs, then restart all daemons (records of running jobs may be lost)"
        ),
        (
            "m.yaml:18: error: NodeSet worker, spec.extraConf: Wieght is no key of a NodeName line of Slurm 26.05: "
            "did you mean Weight?"
        ),
        (
            "m.yaml:19: error: NodeSet worker, spec.partition.config: MaxTime is soon: expected minutes, "
            "hours:minutes:seconds, days-hours or UNLIMITED"
        ),
        "m.yaml:27: error: ConfigMap files, cgroup.conf: CgroupPlugin is cgroup/v3: did you mean cgroup/v2?",
    ],
)
def test_a_mistake_in_a_manifest_is_told_with_its_line_there(remark: str) -> None:
    assert remark in said("m.yaml", CONTROLLER)


def test_partitions_of_the_nodesets_in_the_same_files_are_known() -> None:
    assert not [line for line in said("m.yaml", CONTROLLER) if ":9:" in line]


def test_the_version_that_the_manifest_names_decides_unless_one_is_given() -> None:
    text = CONTROLLER.replace("MaxJobCuont=5", "MetricsType=metrics/openmetrics")
    foreign = [line for line in said("m.yaml", text, "24.11") if ":8: error" in line]

    assert not [line for line in said("m.yaml", text) if ":8: error" in line]
    assert foreign == [
        "m.yaml:8: error: Controller demo, spec.extraConf: MetricsType is a key of Slurm 26.05; 24.11 does not have it"
    ]


def test_a_field_that_the_kind_does_not_have_is_an_error_since_the_server_would_drop_it() -> None:
    text = CONTROLLER.replace("extraConf: |", "extraConfig: |")

    assert "m.yaml:6: error: Controller demo: spec.extraConfig is no field: did you mean extraConf?" in said(
        "m.yaml", text
    )


def test_a_config_map_that_is_not_there_is_a_note_and_no_error() -> None:
    text = CONTROLLER.partition("---")[0]
    notes = [line for line in said("m.yaml", text) if "ConfigMap files" in line]

    assert len(notes) == 1
    assert "m.yaml:1: note: Controller demo: ConfigMap files is not in these files" in notes[0]


def test_the_same_object_twice_is_an_error_that_names_both_places() -> None:
    text = f"{CONTROLLER}---\n{CONTROLLER.partition('---')[0]}"

    assert any("m.yaml:29: error: Controller demo is in m.yaml:1 already" in line for line in said("m.yaml", text))


def test_files_that_are_given_together_may_include_each_other() -> None:
    texts = {"slurm.conf": "ClusterName=c\nSlurmctldHost=h\nInclude nodes.conf\n"}
    alone = remarks_of(texts, None, None, KINDS)
    together = remarks_of({**texts, "x/nodes.conf": "NodeName=a\n"}, None, "slurm.conf", KINDS)

    assert any(remark.key == "Include" for remark in alone)
    assert not any(remark.key == "Include" for remark in together)


def test_a_password_is_in_no_remark() -> None:
    text = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Accounting
metadata: {name: demo}
spec:
  extraConf: |
    StoragePass=hunter2 hunter3
    DebugLevel=lots
"""
    lines = said("a.yaml", text)

    assert any("a.yaml:8: error: Accounting demo, spec.extraConf: DebugLevel is lots" in line for line in lines)
    assert any("a.yaml:7: error" in line for line in lines)
    assert "hunter" not in "".join(lines)


def test_the_exit_code_is_1_for_errors_and_for_warnings_only_when_strict(tmp_path: Path) -> None:
    fine = "ClusterName=c\nSlurmctldHost=h\n"
    doubtful = f"{fine}MaxJobCount=1\nMaxJobCount=2\n"

    assert lint(tmp_path, "slurm.conf", fine).exit_code == 0
    assert lint(tmp_path, "slurm.conf", doubtful).exit_code == 0
    assert lint(tmp_path, "slurm.conf", doubtful, "--strict").exit_code == 1
    assert lint(tmp_path, "slurm.conf", f"{fine}Nonsense=1\n").exit_code == 1


def test_json_has_every_remark_with_its_place(tmp_path: Path) -> None:
    done = lint(tmp_path, "slurm.conf", "ClusterName=c\nSlurmctldHost=h\nMaxJobCuont=1\n", "-o", "json")
    errors = [item for item in json.loads(done.stdout)["items"] if item["level"] == Level.ERROR.value]

    assert [(item["line"], item["key"]) for item in errors] == [(3, "MaxJobCuont")]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("slurm.cnof", "", "did you mean --as slurm.conf?"),
        ("a.yaml", "a: [", "a.yaml:1 is not YAML"),
        ("b.txt", "", "say which it is: --as acct_gather.conf|"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence(name: str, text: str, says: str) -> None:
    with pytest.raises(Failure) as refusal:
        remarks_of({name: text}, None, None, KINDS)

    assert says in refusal.value.message


def test_kubectl_finds_it_as_a_plugin_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-corral", "lint", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl corral lint")
