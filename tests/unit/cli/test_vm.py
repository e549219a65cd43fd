"""`corral vm`: what each word and option on the command line comes to. What is done about it is tested elsewhere."""

import msgspec
import pytest
from click.testing import CliRunner, Result

from corral.cli import vm
from corral.cli.commands import cli
from corral.cli.options import Cluster
from corral.cli.vm import Decide
from corral.kinds.wukong.api.kubevirt import InstanceStatus, ReportedCondition, VirtualMachineInstance
from corral.kinds.wukong.power import INSTANCES, MACHINES, Act, Machine, Move, Step
from corral.kube.meta import ObjectMeta
from tests.unit.kinds.wukong.world import a_wukong

# One that people start and stop: each word is an action of KubeVirt's then, none an edit.
WUKONG = a_wukong(
    "{cpu: 1, memory: 1Gi, disks: [{name: root, size: 1Gi}], startStrategy: {runStrategy: Manual}}", "web"
)
RUNS = VirtualMachineInstance(
    metadata=ObjectMeta(name="web"), status=InstanceStatus(phase="Running", node_name="node-a")
)
PAUSED = msgspec.structs.replace(
    RUNS, status=InstanceStatus(phase="Running", conditions=(ReportedCondition(type="Paused", status="True"),))
)

Seen = list[tuple[str | None, str, tuple[Step, ...]]]


def said(monkeypatch: pytest.MonkeyPatch, instance: VirtualMachineInstance | None, *words: str) -> tuple[Result, Seen]:
    """What the command printed, and what it would have done: to whom, and which steps."""
    seen: Seen = []

    def record(cluster: Cluster, name: str, decide: Decide) -> None:
        decision = decide(Machine(WUKONG, has_machine=True, instance=instance))
        seen.append((cluster.chosen_namespace, name, decision.steps))

    monkeypatch.setattr(vm, "_carry_out", record)
    return CliRunner().invoke(cli, ["vm", *words]), seen


CASES: list[tuple[tuple[str, ...], VirtualMachineInstance | None, Step]] = [
    (("start", "web"), None, Act(MACHINES, "start")),
    (("stop", "web"), RUNS, Act(MACHINES, "stop")),
    (("stop", "web", "--force"), RUNS, Act(MACHINES, "stop", {"gracePeriod": 0})),
    (("restart", "web"), RUNS, Act(MACHINES, "restart", {})),
    (("restart", "web", "--force"), RUNS, Act(MACHINES, "restart", {"gracePeriodSeconds": 0})),
    (("restart", "web", "--soft"), RUNS, Act(INSTANCES, "softreboot")),
    (("pause", "web"), RUNS, Act(INSTANCES, "pause")),
    (("unpause", "web"), PAUSED, Act(INSTANCES, "unpause")),
    (("migrate", "web"), RUNS, Move("")),
    (("migrate", "web", "--node", "node-b"), RUNS, Move("node-b")),
]


@pytest.mark.parametrize(("words", "instance", "step"), CASES, ids=[" ".join(case[0]) for case in CASES])
def test_each_word_and_option_reaches_the_decision(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], instance: VirtualMachineInstance | None, step: Step
) -> None:
    done, seen = said(monkeypatch, instance, *words, "-n", "lab")
    assert done.exit_code == 0, done.output
    assert seen == [("lab", "web", (step,))]


def test_a_restart_is_either_forced_or_soft(monkeypatch: pytest.MonkeyPatch) -> None:
    done, seen = said(monkeypatch, RUNS, "restart", "web", "--force", "--soft")
    assert (done.exit_code, seen) == (2, [])
    assert "choose one of --force and --soft" in done.output


def test_what_is_not_known_of_a_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--force` on a start would look as if it were carried out."""
    for words in (("start", "web", "--force"), ("pause", "web", "--soft"), ("stop", "web", "--node", "node-b")):
        done, seen = said(monkeypatch, RUNS, *words)
        assert (done.exit_code, seen) == (2, []), words
