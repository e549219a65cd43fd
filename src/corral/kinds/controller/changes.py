"""What a new configuration changes, and what that takes: a reconfigure, a restart of a daemon, or no job left. Pure.

A change that running jobs would not survive waits until they have ended; until then nothing of the new configuration is
delivered, so that no restart for another reason can bring it in. New jobs are not kept from starting: when the cluster
should come to rest is for a person to say. Only in the last moment, when no job is left, starts are held back.
"""

import msgspec

from corral.engine import NOTHING, EmitEvent, Outside, Plan, Wait, target
from corral.kinds.controller import objects
from corral.kinds.controller.files import DIGEST_FILE, Files
from corral.kinds.controller.snapshot import HoldJobs, Snapshot, current, own_config_maps, pod_name, some
from corral.slurm.config.differences import Change, Differences, differences
from corral.slurm.config.effects import Effect
from corral.slurm.config.keys import key_table

ASK_JOBS_AGAIN_S = 10.0


class Rest(msgspec.Struct, frozen=True):
    """Which jobs must have ended, and because of what. No partitions: the jobs of all."""

    partitions: tuple[str, ...]
    causes: tuple[str, ...]


def changes(snapshot: Snapshot, files: Files) -> tuple[Differences, ...]:
    """What differs between the files delivered last and these, where Slurm's keys tell what it means."""
    before, version = current(snapshot), snapshot.object.spec.version
    if not before or before.get(DIGEST_FILE) == files.digest:
        return ()
    known = [file for file in key_table(version).files if file in before or file in files.content]
    found = (differences(file, before.get(file, ""), files.content.get(file, ""), version) for file in sorted(known))
    return tuple(one for one in found if one.changes)


def restart_mark(snapshot: Snapshot, files: Files | None) -> str:
    """The digest of the last configuration that needed a restart of slurmctld; empty when none ever did."""
    before = current(snapshot)
    first = next((one for one in own_config_maps(snapshot) if DIGEST_FILE in one.data), None)
    mark = first.metadata.annotations.get(objects.RESTART, "") if first else ""
    if files is None or not before or before.get(DIGEST_FILE) == files.digest:
        return mark
    return files.digest if any(needs_restart(change) for change in _each(snapshot, files)) else mark


def needs_restart(change: Change) -> bool:
    """A record that goes, or a smaller MaxNodeCount, costs jobs but no restart: slurmctld takes it in place."""
    if change.effect in (Effect.RESTART_SLURMCTLD, Effect.RESTART_ALL):
        return True
    return change.effect is Effect.DRAIN and not change.record and change.key != "MaxNodeCount"


def rest_needed(snapshot: Snapshot, files: Files | None) -> Rest | None:
    """None when no job is in the way of this configuration, or when there never was one."""
    if files is None or not snapshot.object.status.slurm_version:
        return None
    found = [change for change in _each(snapshot, files) if change.effect is Effect.DRAIN]
    if not found:
        return None
    gone = [change.record.partition("=")[2] for change in found if _is_partition_that_goes(change)]
    return Rest(tuple(sorted(gone)) if len(gone) == len(found) else (), tuple(_cause(change) for change in found))


def held_back(snapshot: Snapshot, rest: Rest) -> Wait | None:
    """Why the configuration is not delivered now; None when no job is left."""
    jobs = snapshot.jobs
    for_what = f"to change {', '.join(rest.causes)}"
    where = f" in partition {', '.join(rest.partitions)}" if rest.partitions else ""
    if jobs is None:
        return Wait(reason="JobsUnknown", message=f"{for_what}: waiting until slurmctld says which jobs run{where}")
    if jobs.count == 0:
        return None
    which = f"{jobs.count} job{'s' if jobs.count > 1 else ''} ({some(jobs.some)})"
    hint = "; to hold new jobs: scontrol update PartitionName=NAME State=DOWN" if not rest.partitions else ""
    return Wait(reason="WaitingForJobs", message=f"{for_what}: waiting for {which}{where} to end{hint}")


def last_moment(snapshot: Snapshot, rest: Rest | None) -> Plan:
    """Nothing starts any more from here until slurmctld has read the new configuration."""
    if rest is None:
        return NOTHING
    meta = snapshot.object.metadata
    hold = Outside(
        system=f"Slurm {meta.namespace}/{meta.name}",
        subject=", ".join(rest.partitions) or "all partitions",
        call=HoldJobs(pod=pod_name(snapshot.object), partitions=rest.partitions),
        reason="ConfigChanged",
        message=f"no jobs run; new jobs are held until the change of {', '.join(rest.causes)} is done",
    )
    return Plan(actions=(hold,))


def announced(snapshot: Snapshot, files: Files | None) -> Plan:
    """A restart is told before it happens, with the key that needs it."""
    found = _each(snapshot, files) if files is not None else ()
    ours = [_cause(change) for change in found if needs_restart(change)]
    theirs = [_cause(change) for change in found if change.effect is Effect.RESTART_SLURMD]
    told = []
    if ours:
        told.append(f"slurmctld will be restarted, because a reconfigure cannot change {', '.join(ours)}")
    if theirs:
        told.append(f"running workers keep the old value until their pods are replaced: {', '.join(theirs)}")
    regarding = target(snapshot.object)
    return Plan(actions=tuple(EmitEvent(regarding=regarding, reason="RestartNeeded", message=text) for text in told))


def taken_in_place(found: Differences) -> str:
    """What a reconfigure changes, and what else it costs."""
    costs = {change.why for change in found.changes if change.effect is not Effect.RECONFIGURE and change.why}
    count = "1 change" if len(found.changes) == 1 else f"{len(found.changes)} changes"
    effect = "; ".join(sorted(costs)) or "running jobs are not affected"
    return f"{found.file}: {count}, applied by a reconfigure; {effect}"


def _each(snapshot: Snapshot, files: Files) -> tuple[Change, ...]:
    return tuple(change for found in changes(snapshot, files) for change in found.changes)


def _is_partition_that_goes(change: Change) -> bool:
    return change.record.startswith("PartitionName=") and not change.key


def _cause(change: Change) -> str:
    return f"{change.record} {change.key}".strip() + f" ({change.why})"
