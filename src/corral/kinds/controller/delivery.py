"""Carrying a configuration, and keys, over to the running slurmctld: the steps, or what holds them up. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from corral.engine import NOTHING, Action, EmitEvent, Outside, Patch, Plan, Wait, target
from corral.kinds import versions
from corral.kinds.controller import objects, rotation
from corral.kinds.controller.changes import changes, taken_in_place
from corral.kinds.controller.files import Files
from corral.kinds.controller.snapshot import ApplyConfig, Running, Snapshot, is_ready, pod_name
from corral.kinds.workloads import container_trouble
from corral.kube.meta import EMPTY, ref
from corral.kube.models.core_v1 import Pod

ASK_AGAIN_S = 10.0
CONFIRM_AGAIN_S = 1.0  # slurmd has a new configuration a second after slurmctld
SILENT_AGAIN_S = 60.0


def delivery(snapshot: Snapshot, files: Files | None, restart: str) -> Plan:
    """Without files the configuration stays as it is, and keys are delivered all the same."""
    pod, running = snapshot.pod, snapshot.running
    if pod is None:
        return _waiting("SlurmctldStarting", f"waiting for pod {pod_name(snapshot.object)}")
    if pod.metadata.annotations.get(objects.RESTART, "") != restart:
        return _waiting("SlurmctldRestarting", f"waiting for pod {pod.metadata.name} to be replaced")
    version = snapshot.object.spec.version
    if pod.metadata.labels.get(versions.LABEL, version) != version:
        message = f"waiting for pod {pod.metadata.name} to be replaced by one of Slurm {version}"
        return _waiting("SlurmctldRestarting", message)
    if not is_ready(pod):
        return _waiting("SlurmctldStarting", f"waiting for slurmctld in {ref(pod)}{container_trouble(pod)}")
    if running is None or not running.up or not running.digest:
        message = f"slurmctld in {ref(pod)} has not reported its configuration"
        return msgspec.structs.replace(_waiting("StateUnknown", message), again_after_s=ASK_AGAIN_S)
    return _brought_over(snapshot, pod, files, running)


def _brought_over(snapshot: Snapshot, pod: Pod, files: Files | None, running: Running) -> Plan:
    if files is not None and running.digest != files.digest:
        what = "; ".join(taken_in_place(found) for found in changes(snapshot, files))
        message = what or "a reconfigure replaces an old configuration"
        call = ApplyConfig(pod=pod.metadata.name, digest=files.digest)
        done = _done(snapshot, "Reconfigured", f"slurmctld runs configuration {files.digest}: {message}")
        return Plan(actions=(*_refreshed(pod, files.digest), _told(snapshot, call, "ConfigChanged", message), done))
    due = rotation.due(snapshot)
    for_tokens = {file: digest for file, digest in due.items() if file != rotation.slurm_file(snapshot)}
    if for_tokens:
        return _reloaded(snapshot, pod, for_tokens)
    if due and not rotation.not_mounted(snapshot):
        return _reloaded(snapshot, pod, due)
    if rotation.have_missed_it(snapshot):
        return _reloaded(snapshot, pod, EMPTY)
    return Plan(again_after_s=_look_again_s(running)) if not due else NOTHING


def _look_again_s(running: Running) -> float | None:
    """Until every slurmd has said that it started with this configuration; one that is silent may be so for long."""
    if running.slurmd.no:
        return CONFIRM_AGAIN_S
    return SILENT_AGAIN_S if running.slurmd.unknown else None


def _reloaded(snapshot: Snapshot, pod: Pod, keys: Mapping[str, str]) -> Plan:
    message = f"keys have changed ({', '.join(sorted(keys))})" if keys else "a daemon did not load the last keys"
    call = ApplyConfig(pod=pod.metadata.name, keys=keys)
    renewed = rotation.renewed(pod, rotation.mark_of_all(snapshot))
    told = _told(snapshot, call, "KeysChanged", message)
    done = _done(snapshot, "KeysLoaded", f"the daemons have loaded their keys: {message}")
    return Plan(actions=(*renewed, told, done))


def _told(snapshot: Snapshot, call: ApplyConfig, reason: str, message: str) -> Outside:
    meta, subject = snapshot.object.metadata, call.digest or "the mounted keys"
    return Outside(
        system=f"Slurm {meta.namespace}/{meta.name}", subject=subject, call=call, reason=reason, message=message
    )


def _done(snapshot: Snapshot, reason: str, message: str) -> EmitEvent:
    """After the step that it tells of: what fails ends the attempt, and this is not told."""
    return EmitEvent(regarding=target(snapshot.object), reason=reason, message=message, action="Deliver")


def _refreshed(pod: Pod, digest: str) -> Iterable[Action]:
    if pod.metadata.annotations.get(objects.DELIVERED) != digest:
        yield Patch(
            target=target(pod),
            merge={"metadata": {"annotations": {objects.DELIVERED: digest}}},
            reason="ConfigChanged",
            message="so that kubelet updates the mounted files at once",
        )


def _waiting(reason: str, message: str) -> Plan:
    return Plan(waits=(Wait(reason=reason, message=message),))
