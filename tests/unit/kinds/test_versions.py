"""The order of an upgrade: dump, slurmdbd, slurmctld, the rest; and no way back."""

import pytest

from corral.kinds import versions
from corral.kinds.accounting.spec import Accounting, AccountingSpec, AccountingStatus
from corral.kinds.controller.spec import Controller, ControllerSpec, ControllerStatus
from corral.kinds.parts import External
from corral.kube.meta import ObjectMeta
from corral.kube.models.batch_v1 import Job, JobCondition, JobSpec, JobStatus
from corral.kube.models.core_v1 import PodSpec, PodTemplateSpec

META = ObjectMeta(name="demo", namespace="lab")
OLD, NEW = "24.11", "26.05"


def an_accounting(wanted: str, running: str = "", **spec: object) -> Accounting:
    full = AccountingSpec(version=wanted, **spec)  # type: ignore[arg-type]
    return Accounting(metadata=META, spec=full, status=AccountingStatus(slurm_version=running))


def a_controller(wanted: str, running: str = "") -> Controller:
    spec = ControllerSpec(version=wanted)  # type: ignore[arg-type]
    return Controller(metadata=META, spec=spec, status=ControllerStatus(slurm_version=running))


def a_job(*, succeeded: int = 0, failed: str = "") -> Job:
    conditions = (JobCondition(type="Failed", status="True", message=failed),) if failed else ()
    spec = JobSpec(template=PodTemplateSpec(spec=PodSpec(containers=())))
    return Job(metadata=META, spec=spec, status=JobStatus(succeeded=succeeded, conditions=conditions))


def told(step: versions.Step) -> tuple[str, str, bool]:
    return step.version, step.wait.reason if step.wait else "", bool(step.wait and step.wait.stalled)


@pytest.mark.parametrize(
    ("wanted", "installed", "job", "expected"),
    [
        (NEW, "", None, (NEW, "", False)),
        (NEW, NEW, None, (NEW, "", False)),
        (NEW, OLD, None, (OLD, "Dumping", False)),
        (NEW, OLD, a_job(), (OLD, "Dumping", False)),
        (NEW, OLD, a_job(failed="BackoffLimitExceeded"), (OLD, "DumpFailed", True)),
        (NEW, OLD, a_job(succeeded=1), (NEW, "", False)),
        (OLD, NEW, None, (NEW, "DowngradeRefused", True)),
    ],
    ids=["the first", "as asked", "dump first", "dumping", "dump failed", "dumped", "back"],
)
def test_slurmdbd_moves_on_when_its_database_is_dumped(
    wanted: str, installed: str, job: Job | None, expected: tuple[str, str, bool]
) -> None:
    step = versions.slurmdbd(an_accounting(wanted), installed, job, "demo-dump-24-11")

    assert told(step) == expected
    assert step.dumps == (expected[1] in ("Dumping", "DumpFailed"))


@pytest.mark.parametrize(
    ("controller", "accounting", "expected"),
    [
        (a_controller(NEW), an_accounting(NEW), (NEW, "", False)),
        (a_controller(NEW), None, (NEW, "", False)),
        (a_controller(NEW, "24.11.5"), None, (NEW, "", False)),
        (a_controller(NEW, "24.11.5"), an_accounting(NEW, OLD), (OLD, "AccountingFirst", False)),
        (a_controller(NEW, "24.11.5"), an_accounting(NEW, NEW), (NEW, "", False)),
        (a_controller(NEW, "24.11.5"), an_accounting(OLD, OLD), (OLD, "AccountingOlder", True)),
        (a_controller(NEW), an_accounting(OLD), (OLD, "AccountingOlder", True)),
        (a_controller(OLD, "24.11.5"), an_accounting(NEW, NEW), (OLD, "", False)),
        (a_controller(OLD, "26.05.5"), an_accounting(NEW, NEW), (NEW, "DowngradeRefused", True)),
        (
            a_controller(NEW, "24.11.5"),
            an_accounting(OLD, external=External(host="dbd", port=6819)),
            (NEW, "", False),
        ),
    ],
    ids=["first", "alone, first", "alone", "waits", "may", "never newer", "first, never newer", "older", "back", "ext"],
)
def test_slurmctld_waits_for_slurmdbd(
    controller: Controller, accounting: Accounting | None, expected: tuple[str, str, bool]
) -> None:
    assert told(versions.slurmctld(controller, accounting)) == expected


@pytest.mark.parametrize(
    ("controller", "wanted", "expected"),
    [
        (a_controller(NEW), None, (NEW, "", False)),
        (a_controller(NEW, "24.11.5"), None, (OLD, "ControllerFirst", False)),
        (a_controller(NEW, "26.05.5"), None, (NEW, "", False)),
        (a_controller(NEW, "26.05.5"), OLD, (OLD, "", False)),
        (a_controller(OLD, "24.11.5"), NEW, (OLD, "ControllerOlder", True)),
    ],
    ids=["first", "waits", "may", "mixed", "never newer"],
)
def test_workers_and_slurmrestd_wait_for_slurmctld(
    controller: Controller, wanted: str | None, expected: tuple[str, str, bool]
) -> None:
    assert told(versions.beside(controller, wanted, "workers")) == expected


def test_a_proven_version_is_news_and_another_condition_is_not() -> None:
    before, after = an_accounting(NEW, OLD), an_accounting(NEW, NEW)

    assert versions.spec_or_version_changed(before, after)
    assert not versions.spec_or_version_changed(before, before)
