"""What the figures about Slurm need: images in the cluster, the operator beside it, and two ways to a Slurm cluster.

    ours    `kubectl apply` of examples/quickstart.yaml, the operator already running
    bare    bench/bare.yaml: the same daemons as plain pods, applied at once

Each lives in a namespace of its own, which is emptied and deleted before the next one begins.
"""

import base64
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from bench.audit import LEASES, AuditLog, Sent
from bench.process import MeasurementFailed, Settings
from bench.world import NAME
from corral.local import builds
from corral.local.controlplane import AUDIT
from corral.local.home import home_of
from corral.local.kubectl import memory
from corral.local.processes import memory_bytes

HERE = Path(__file__).parent
CHECKOUT = HERE.parent
IMAGES = ("slurm:26.05", "mariadb:11.8")
OUR_KINDS = "slurm"  # the category of all of them
OPERATOR = "bench-operator"  # as the API server sees it
WITHIN_S = 300.0
LOOK_EVERY_S = 0.1
WORKERS = 3
# A job that comes too early would wait where Slurm looks only every so often, so it comes when there are idle nodes.
FIRST_JOB = f"""
until [ "$(sinfo -h -t idle -o %D 2>/dev/null | head -n 1)" = {WORKERS} ]; do sleep 0.1; done
srun -N{WORKERS} hostname
"""


class Kubectl(msgspec.Struct, frozen=True):
    kubeconfig: str
    namespace: str = ""

    def __call__(self, *arguments: str, stdin: str = "", within_s: float = WITHIN_S) -> str:
        done = self.tried(*arguments, stdin=stdin, within_s=within_s)
        if done.returncode != 0:
            raise MeasurementFailed(f"kubectl {' '.join(arguments[:4])}: {done.stderr.strip()[-1000:]}")
        return done.stdout

    def tried(self, *arguments: str, stdin: str = "", within_s: float = WITHIN_S) -> subprocess.CompletedProcess[str]:
        ours = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={memory(Path(self.kubeconfig))}")
        command = [str(builds.binary("kubectl")), *ours, *self._namespace(), *arguments]
        try:
            return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=within_s, check=False)
        except subprocess.TimeoutExpired:
            raise MeasurementFailed(f"kubectl {' '.join(arguments[:4])} took more than {within_s:g} s") from None

    def _namespace(self) -> Sequence[str]:
        return ("-n", self.namespace) if self.namespace else ()


class Operator:
    """A running operator, and every request of it that the API server has answered."""

    def __init__(self, pid: int, audit: AuditLog) -> None:
        self._pid = pid
        self._audit = audit
        self._seen: list[Sent] = []

    @property
    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_bytes(self) -> int:
        return memory_bytes(self._pid)

    def sent(self, since: float) -> list[Sent]:
        self._seen += self._audit.news()
        return [one for one in self._seen if one.at >= since]


@contextmanager
def operator(settings: Settings, images: Sequence[str] = IMAGES, slurm: str = "") -> Iterator[Operator]:
    """Images and definitions in place, and `bench.operator` running, until the block ends.

    `slurm`: where every slurmrestd is asked, instead of at its Service.
    """
    kubectl = Kubectl(settings.kubeconfig)
    if images:
        _run([sys.executable, "-m", "images", *images, "--cluster", NAME])
    definitions = _run([sys.executable, "-c", "from corral.cli.main import main; main()", "crds"])
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=definitions)
    shutil.rmtree(memory(Path(settings.kubeconfig)), ignore_errors=True)  # it was filled before they were there
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as stderr, AuditLog(home_of(NAME).log(AUDIT), OPERATOR) as audit:
            command = [sys.executable, "-m", "bench.operator", settings.kubeconfig, slurm]
            process = subprocess.Popen(command, cwd=CHECKOUT, stderr=stderr)
            try:
                running = Operator(process.pid, audit)
                until("the operator leads", lambda: any(one.resource == LEASES for one in running.sent(0.0)))
                yield running
            except MeasurementFailed as error:
                raise MeasurementFailed(f"{error}\n{log.read_text(errors='replace')[-3000:]}") from None
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=60)


@contextmanager
def namespace(settings: Settings, name: str) -> Iterator[Kubectl]:
    kubectl = Kubectl(settings.kubeconfig, name)
    kubectl("create", "namespace", name)
    until("the service account", lambda: kubectl.tried("get", "serviceaccount", "default").returncode == 0)
    try:
        yield kubectl
    finally:
        kubectl("delete", OUR_KINDS, "--all", "--ignore-not-found")
        # Not waited for here: kubectl would ask for each of thousands; the namespace goes when they have gone.
        kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")
        kubectl("delete", "namespace", name)


def bare_manifests() -> str:
    """bench/bare.yaml, its workers, and a Secret with fresh keys."""
    keys = {"slurm.key": secrets.token_bytes(1024), "password": b"not-a-secret"}
    encoded = {name: base64.b64encode(value).decode() for name, value in keys.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": encoded}
    more = [secret, *(_bare_worker(number) for number in range(WORKERS))]
    return "\n---\n".join([(HERE / "bare.yaml").read_text(), *(json.dumps(one) for one in more)])


def _bare_worker(number: int) -> dict[str, object]:
    name = f"worker-{number}"
    slurmd = {
        "name": "slurmd",
        "image": "corral/slurm:26.05",
        "command": ["/usr/bin/tini", "-g", "--", "/usr/libexec/corral/slurmd-run"],
        "env": [
            {"name": "SLURM_CONF_SERVER", "value": "controller:6817"},
            {"name": "SLURM_NODE_CONF", "value": "CPUs=1 RealMemory=448"},
        ],
        "volumeMounts": [{"name": "keys", "mountPath": "/etc/corral/keys"}],
    }
    items = [{"key": "slurm.key", "path": "slurm.key"}]
    keys = {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400, "items": items}}
    spec = {"hostname": name, "terminationGracePeriodSeconds": 1, "containers": [slurmd], "volumes": [keys]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def first_job(kubectl: Kubectl, pod: str) -> float:
    """When its output was there, in seconds since the epoch.

    Whoever looks must not be in the way: kubectl watches, and looks are taken inside of the pod that runs already.
    """
    runs = '--for=jsonpath={.status.containerStatuses[?(@.name=="slurmctld")].state.running.startedAt}'
    for what in ("--for=create", runs):
        kubectl("wait", what, f"pod/{pod}", f"--timeout={WITHIN_S:g}s", within_s=WITHIN_S + 10)
    said = kubectl("exec", pod, "-c", "slurmctld", "--", "sh", "-c", FIRST_JOB)
    at = time.time()
    if len(said.split()) != WORKERS:
        raise MeasurementFailed(f"the first job said {said!r}: expected {WORKERS} host names")
    return at


def said_at(kubectl: Kubectl, pod: str, container: str, words: str) -> float:
    """When the log of a container first had these words; kubelet's clock is this machine's."""
    for line in kubectl("logs", pod, "-c", container, "--timestamps").splitlines():
        if words in line:
            whole, _, fraction = line.split(" ", 1)[0].rstrip("Z").partition(".")
            return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
    raise MeasurementFailed(f"pod {pod}: its log has no line with {words!r}")


def until(what: str, holds: Callable[[], bool], *, every_s: float = LOOK_EVERY_S) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise MeasurementFailed(f"waited {WITHIN_S:g} s in vain: {what}")
        time.sleep(every_s)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=CHECKOUT, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MeasurementFailed(f"{' '.join(command[:4])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout
