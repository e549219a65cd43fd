"""A changed key of slurm.conf, from `kubectl patch` until every daemon is confirmed to run with it.

Ours: the operator lints, tries, delivers, reconfigures and asks every daemon; the change counts as confirmed when the
Controller says so (ConfigApplied, for the new generation) and the files of all workers have the new value. By hand: the
same daemons as plain pods (bench/bare.yaml); the file is edited in the controller's pod, `scontrol reconfigure`
follows, and the same files are looked at. Both clusters run at the same time, and changes alternate.
"""

import json
import time
from collections.abc import Callable, Iterator

from bench.claims import Claim, Run
from bench.lab import CHECKOUT, WORKERS, Kubectl, bare_manifests, first_job, namespace, operator, until
from bench.process import Settings
from bench.quickstart import all_ready

FIRST_VALUE = 1000

CONFIRMED = Claim(
    key="reconfigure",
    title="A changed key is confirmed on all daemons, later than by hand",
    unit="s",
    bound=5.0,
    compare="difference",
    measured="with the operator",
    measured_unit="s",
    baseline="by hand: edit, `scontrol reconfigure`, look",
)
CLAIMS = (CONFIRMED,)


def measure(settings: Settings) -> Iterator[dict[str, Run]]:
    with operator(settings), namespace(settings, "by-hand") as bare, namespace(settings, "by-operator") as ours:
        bare("apply", "-f", "-", stdin=bare_manifests())
        first_job(bare, "controller")
        ours("apply", "-f", str(CHECKOUT / "examples" / "quickstart.yaml"))
        first_job(ours, "demo-controller-0")
        until("all of the quickstart is ready", lambda: all_ready(ours))
        for value in range(FIRST_VALUE, FIRST_VALUE + settings.sizes.runs):
            by_hand_s = timed(by_hand, bare, value)
            yield {CONFIRMED.key: Run(timed(by_operator, ours, value), by_hand_s)}


def timed(change: Callable[[Kubectl, int], None], kubectl: Kubectl, value: int) -> float:
    began_s = time.monotonic()
    change(kubectl, value)
    return time.monotonic() - began_s


def by_hand(kubectl: Kubectl, value: int) -> None:
    edit = f"sed -i /MinJobAge=/d /etc/slurm/slurm.conf && echo MinJobAge={value} >>/etc/slurm/slurm.conf"
    kubectl("exec", "controller", "-c", "slurmctld", "--", "sh", "-c", f"{edit} && scontrol reconfigure")
    until("slurmctld runs it", lambda: runs_in_slurmctld(kubectl, "controller", value))
    until("all workers have it", lambda: all_workers_have(kubectl, value))


def by_operator(kubectl: Kubectl, value: int) -> None:
    patch = json.dumps({"spec": {"extraConf": f"MinJobAge={value}"}})
    kubectl("patch", "controllers.slurm.corral.dev", "demo", "--type=merge", "-p", patch)
    until("the Controller confirms it", lambda: is_confirmed(kubectl))
    until("slurmctld runs it", lambda: runs_in_slurmctld(kubectl, "demo-controller-0", value))
    until("all workers have it", lambda: all_workers_have(kubectl, value))


def runs_in_slurmctld(kubectl: Kubectl, pod: str, value: int) -> bool:
    said = kubectl.tried("exec", pod, "-c", "slurmctld", "--", "scontrol", "show", "config").stdout
    return any(line.split()[:3] == ["MinJobAge", "=", str(value)] for line in said.splitlines())


def all_workers_have(kubectl: Kubectl, value: int) -> bool:
    """The files that slurmd got from slurmctld."""
    look = ("grep", "-q", f"MinJobAge={value}", "/run/slurm/conf/slurm.conf")
    return all(
        kubectl.tried("exec", f"worker-{number}", "-c", "slurmd", "--", *look).returncode == 0
        for number in range(WORKERS)
    )


def is_confirmed(kubectl: Kubectl) -> bool:
    found = json.loads(kubectl("get", "controllers.slurm.corral.dev", "demo", "-o", "json"))
    generation = found["metadata"]["generation"]
    return any(
        one["type"] == "ConfigApplied" and one["status"] == "True" and one.get("observedGeneration") == generation
        for one in found["status"].get("conditions", ())
    )
