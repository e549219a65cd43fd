"""Which version of Slurm each daemon runs now, and what it waits for. Pure, and the only place that decides it.

A new version goes through a cluster in one direction, and each step is proven before the next one begins:

    step        done by                           proven when
    dump        the Accounting's Job              the Job has succeeded: the file is complete
    slurmdbd    the Accounting; converts the      its pod is the present one and answers
                database
    slurmctld   the Controller; converts its      it has said its version
                state
    the rest    workers, one after another and    the worker is back in Slurm
                drained; slurmrestd; login nodes

An older daemon works with a newer one that is nearer to the database, never the other way round. Until its turn a
daemon stays at the version it has, whatever its manifest says. There is no way back: what was converted cannot be read
by the version before; a database can be restored from its dump.
"""

import re

import msgspec

from corral.engine import Wait, generation_changed
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller
from corral.kube.meta import Object, ObjectRef, ref
from corral.kube.models.batch_v1 import Job

LABEL = "app.kubernetes.io/version"  # on what runs one version of Slurm: which


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is what runs now. `wait`: why that is not what is asked for. `dumps`: a dump is what it waits for."""

    version: str
    wait: Wait | None = None
    dumps: bool = False

    @property
    def waits(self) -> tuple[Wait, ...]:
        return (self.wait,) if self.wait else ()


def release(version: str) -> str:
    """`26.05` of `26.05.5`; empty for what is no version. Releases compare as text."""
    found = re.match(r"\d\d\.\d\d", version)
    return found.group() if found else ""


def slurmdbd(accounting: Accounting, installed: str, dump: Job | None, dump_name: str) -> Step:
    """`installed`: the version that slurmdbd was told to run last; empty before the first time."""
    wanted = accounting.spec.version
    if not installed or installed == wanted:
        return Step(version=wanted)
    if wanted < installed:
        return _no_way_back(installed, wanted, "the database was converted")
    if dump is not None and is_complete(dump):
        return Step(version=wanted)
    on = ObjectRef("Job", accounting.metadata.namespace, dump_name)
    if dump is not None and (why := failure(dump)):
        failed = f"the dump of its database failed ({on}: {why})"
        message = f"slurmdbd stays at {installed}: {failed}; delete the Job to try again"
        return Step(version=installed, dumps=True, wait=Wait(reason="DumpFailed", message=message, on=on, stalled=True))
    message = f"slurmdbd stays at {installed} until its database is dumped ({on}); then it is upgraded to {wanted}"
    return Step(version=installed, dumps=True, wait=Wait(reason="Dumping", message=message, on=on))


def slurmctld(controller: Controller, accounting: Accounting | None) -> Step:
    wanted, running = controller.spec.version, release(controller.status.slurm_version)
    if wanted < running:
        return _no_way_back(running, wanted, "slurmctld's state was converted")
    if accounting is None or accounting.spec.external is not None:
        return Step(version=wanted)
    of = ref(accounting)
    asked, proven = accounting.spec.version, release(accounting.status.slurm_version)
    if asked < wanted:
        stays = running or asked
        message = (
            f"slurmctld stays at {stays}: it must not be newer than slurmdbd; "
            f"set spec.version of {of} to {wanted} first"
        )
        return Step(version=stays, wait=Wait(reason="AccountingOlder", message=message, on=of, stalled=True))
    if proven and proven < wanted:
        stays = running or proven
        message = f"slurmctld stays at {stays} until slurmdbd runs {wanted} ({of} runs {proven})"
        return Step(version=stays, wait=Wait(reason="AccountingFirst", message=message, on=of))
    return Step(version=wanted)


def beside(controller: Controller, wanted: str | None, what: str) -> Step:
    """Of whoever speaks to slurmctld (`what`: "slurmrestd", "workers"): as asked for, but never newer than it."""
    asked, running = wanted or controller.spec.version, release(controller.status.slurm_version)
    if not running or asked <= running:
        return Step(version=asked)
    of = ref(controller)
    if asked > controller.spec.version:
        message = f"{what} must not be newer than slurmctld ({running}): set spec.version of {of} to {asked} first"
        return Step(version=running, wait=Wait(reason="ControllerOlder", message=message, on=of, stalled=True))
    message = f"{what} must stay at {running} until slurmctld runs {asked} ({of} runs {running})"
    return Step(version=running, wait=Wait(reason="ControllerFirst", message=message, on=of))


def is_complete(job: Job) -> bool:
    return job.status.succeeded > 0 or any(c.type == "Complete" and c.status == "True" for c in job.status.conditions)


def failure(job: Job) -> str:
    failed = (c for c in job.status.conditions if c.type == "Failed" and c.status == "True")
    return next((c.message or c.reason or "no reason given" for c in failed), "")


def spec_or_version_changed(old: Object | None, new: Object | None) -> bool:
    """For those who watch an Accounting or a Controller: a version that was proven lets the next one begin."""
    if generation_changed(old, new):
        return True
    versions = [one.status.slurm_version for one in (old, new) if isinstance(one, Accounting | Controller)]
    return len(set(versions)) > 1


def _no_way_back(installed: str, wanted: str, why: str) -> Step:
    message = f"{why} to {installed}, which {wanted} cannot read: a downgrade is not possible; it stays at {installed}"
    return Step(version=installed, wait=Wait(reason="DowngradeRefused", message=message, stalled=True))
