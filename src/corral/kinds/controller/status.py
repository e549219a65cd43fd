"""What a Controller's status says: the standard conditions, and ConfigApplied with desired and running digest. Pure.

ConfigApplied is True when slurmctld has confirmed the configuration and no slurmd is known to run another. A slurmd
that does not answer is counted apart: it fetches the configuration when it comes back.
"""

import hashlib
from collections.abc import Mapping

import msgspec

from corral.engine import SUSPENDED, Outcome, Outside, conditions, verdict
from corral.kinds.controller import rotation
from corral.kinds.controller.changes import held_back, rest_needed
from corral.kinds.controller.files import Files
from corral.kinds.controller.plan import configuration, in_turn
from corral.kinds.controller.snapshot import Running, Snapshot, slurmdbd, some
from corral.kinds.controller.spec import ControllerStatus, DaemonsStatus, KeysStatus
from corral.kube.meta import Condition

CONFIG_APPLIED = "ConfigApplied"


def status(snapshot: Snapshot, outcome: Outcome) -> ControllerStatus:
    controller, running = snapshot.object, snapshot.running
    before = controller.status
    spec = controller.spec
    if spec.suspend:
        said = SUSPENDED
        return msgspec.structs.replace(
            before,
            observed_generation=controller.metadata.generation,
            conditions=conditions(controller, before.conditions, said, snapshot.now),
        )
    ready = "slurmctld runs elsewhere" if spec.external else "slurmctld runs the desired configuration"
    said = verdict(outcome, ready_message=ready)
    snapshot, _turn = in_turn(snapshot)
    files, _why = configuration(snapshot) if spec.external is None else (None, None)
    more = () if spec.external else (config_applied(snapshot, outcome),)
    return ControllerStatus(
        observed_generation=controller.metadata.generation,
        conditions=conditions(controller, before.conditions, said, snapshot.now, *more),
        config_desired=files.digest if files else "",
        config_running=running.digest if running else "",
        slurm_version=running.version if running else before.slurm_version,
        daemons=daemons(snapshot, files) if files else before.daemons,
        keys=_keys(snapshot) if spec.external is None else before.keys,
        references=_references(snapshot),
    )


def daemons(snapshot: Snapshot, files: Files) -> Mapping[str, DaemonsStatus]:
    """Who runs the desired configuration. slurmdbd has its own, which its Accounting answers for."""
    running = snapshot.running
    if running is None or not running.digest:
        slurmctld, slurmd = DaemonsStatus(unknown=1), DaemonsStatus()
    elif running.digest != files.digest:
        taken = running.slurmd
        slurmctld, slurmd = DaemonsStatus(no=1), DaemonsStatus(no=taken.yes + taken.no, unknown=taken.unknown)
    else:
        taken = running.slurmd
        slurmctld, slurmd = DaemonsStatus(yes=1), DaemonsStatus(yes=taken.yes, no=taken.no, unknown=taken.unknown)
    found = {"slurmctld": slurmctld, "slurmd": slurmd}
    if snapshot.accounting is not None:
        found["slurmdbd"] = slurmdbd(snapshot.accounting)
    return found


def _keys(snapshot: Snapshot) -> KeysStatus:
    before, present = snapshot.object.status.keys, rotation.slurm_keys(snapshot)
    confirmed = not rotation.jwt_waits_for(snapshot)
    return KeysStatus(
        slurm=present.newest if present and rotation.has_settled(snapshot, present) else before.slurm,
        jwt=rotation.jwt_rotation(snapshot) if confirmed else before.jwt,
        slurm_stage=present.stage if present else "",
    )


def config_applied(snapshot: Snapshot, outcome: Outcome) -> Condition:
    """Yes, no or unknown: do the daemons run what is desired?"""
    files, why = configuration(snapshot)
    running = snapshot.running.digest if snapshot.running and snapshot.running.digest else ""
    if files is None:
        wait = why.waits[0]
        return _condition("False", wait.reason, f"running {running or 'unknown'}: {wait.message}")
    digests = f"desired {files.digest}, running {running or 'unknown'}"
    if snapshot.running is None or not running:
        return _condition("Unknown", "StateUnknown", f"{digests}: slurmctld has not reported its configuration")
    if running == files.digest:
        return _confirmed(digests, snapshot.running)
    rest = rest_needed(snapshot, files)
    if rest and (held := held_back(snapshot, rest)):
        return _condition("False", held.reason, f"{digests}: {held.message}")
    failed = next((r for r in outcome.results if isinstance(r.action, Outside) and r.state == "failed"), None)
    if failed is not None:
        return _condition("False", failed.reason, f"{digests}: {failed.message}")
    return _condition("False", "Delivering", digests)


def _confirmed(digests: str, running: Running) -> Condition:
    """slurmctld has it; what the workers have is known from when they started."""
    taken = running.slurmd
    if taken.no:
        late = f"slurmctld runs it, {taken.no} slurmd not yet ({some(taken.no_names)})"
        return _condition("False", "Delivering", f"{digests}: {late}")
    silent = f"; {taken.unknown} slurmd do not answer ({some(taken.unknown_names)})" if taken.unknown else ""
    return _condition("True", "Confirmed", f"{digests}{silent}")


def _condition(state: str, reason: str, message: str) -> Condition:
    return Condition(type=CONFIG_APPLIED, status=state, reason=reason, message=message)


def _references(snapshot: Snapshot) -> Mapping[str, str]:
    """Digests of the ConfigMaps; of Secrets only the version, since a short key could be guessed from its digest."""
    found = {
        f"ConfigMap/{name}": hashlib.sha256(msgspec.json.encode(dict(one.data), order="sorted")).hexdigest()[:16]
        for name, one in snapshot.config_maps.items()
    }
    found |= {f"Secret/{name}": one.metadata.resource_version for name, one in snapshot.secrets.items()}
    return dict(sorted(found.items()))
