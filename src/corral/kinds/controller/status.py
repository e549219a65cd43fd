"""What a Controller's status says: the standard conditions, and ConfigApplied with desired and running digest. Pure."""

import hashlib
from collections.abc import Mapping

import msgspec

from corral.engine import SUSPENDED, Outcome, Outside, conditions, verdict
from corral.kinds.controller.plan import Snapshot, configuration, in_turn
from corral.kinds.controller.spec import ControllerStatus
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
        references=_references(snapshot),
    )


def config_applied(snapshot: Snapshot, outcome: Outcome) -> Condition:
    """Yes, no or unknown: does slurmctld run what is desired?"""
    files, why = configuration(snapshot)
    running = snapshot.running.digest if snapshot.running and snapshot.running.digest else ""
    if files is None:
        wait = why.waits[0]
        return _condition("False", wait.reason, f"running {running or 'unknown'}: {wait.message}")
    digests = f"desired {files.digest}, running {running or 'unknown'}"
    if not running:
        return _condition("Unknown", "StateUnknown", f"{digests}: slurmctld has not said what it runs")
    if running == files.digest:
        return _condition("True", "Confirmed", digests)
    failed = next((r for r in outcome.results if isinstance(r.action, Outside) and r.state == "failed"), None)
    if failed is not None:
        return _condition("False", failed.reason, f"{digests}: {failed.message}")
    return _condition("False", "Delivering", digests)


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
