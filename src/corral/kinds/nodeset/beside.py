"""What slurmrestd cannot do is done by a command in the pod of slurmctld, if Corral runs that."""

from corral.engine import OutsideFailed
from corral.kinds.controller.shell import PodShell
from corral.kinds.controller.snapshot import pod_name
from corral.kinds.controller.spec import Controller
from corral.kube.errors import KubeError
from corral.kube.meta import ref

COMMAND_S_MAX = 15.0
RETRY_S = 5.0
TOLD_MAX = 300


async def run_beside_slurmctld(shell: PodShell | None, controller: Controller | None, command: tuple[str, ...]) -> None:
    words = " ".join(command)
    if shell is None or controller is None or controller.spec.external is not None:
        message = f"slurmrestd of this version cannot do it, and slurmctld runs elsewhere; run it there: {words}"
        raise OutsideFailed("SlurmUnsupported", message, stalled=True)
    pod = pod_name(controller)
    try:
        done = await shell.run(controller.metadata.namespace, pod, command, run_s_max=COMMAND_S_MAX)
    except KubeError as error:
        message = f"{ref(controller)}: pod {pod} cannot run {words}: {error}"
        raise OutsideFailed("SlurmUnreachable", message, retry_after_s=RETRY_S) from None
    if done.exit_code != 0:
        told = done.stderr.decode(errors="replace").strip()[-TOLD_MAX:]
        raise OutsideFailed("SlurmRefused", f"{ref(controller)}: {words}: {told}", retry_after_s=RETRY_S)
