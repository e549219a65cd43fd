"""The `corral` command, also installed as `kubectl-corral`: parse, call, print. Decisions live elsewhere."""

import sys
from pathlib import Path

import click

from corral import __version__
from corral.cli import errors, local
from corral.cli.crds import crds_command
from corral.cli.explain import explain_command
from corral.cli.plan import plan_command
from corral.cli.render import render_command
from corral.cli.run import run_command
from corral.cli.status import status_command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="corral")
def cli() -> None:
    """Slurm clusters and virtual machines on Kubernetes: made true, kept true, explained."""


for command in (
    *local.commands,
    run_command,
    plan_command,
    explain_command,
    render_command,
    status_command,
    crds_command,
):
    cli.add_command(command)


def main() -> None:
    started_by_kubectl = Path(sys.argv[0]).name == "kubectl-corral"
    name = "kubectl corral" if started_by_kubectl else "corral"
    errors.run(lambda: cli.main(prog_name=name, standalone_mode=False))
