"""The `corral` command, also installed as `kubectl-corral`. Interrupted at any moment, it says so in one sentence.

Loading the commands takes a while, in which a person may have changed her mind: so that is within the border too.
"""

import sys
from pathlib import Path


def main() -> None:
    started_by_kubectl = Path(sys.argv[0]).name == "kubectl-corral"
    name = "kubectl corral" if started_by_kubectl else "corral"
    try:
        from corral.cli import errors
        from corral.cli.commands import cli
    except KeyboardInterrupt:
        sys.exit(interrupted())
    errors.run(lambda: cli.main(prog_name=name, standalone_mode=False))


def interrupted() -> int:
    sys.stderr.write("corral: interrupted\n")
    return 130
