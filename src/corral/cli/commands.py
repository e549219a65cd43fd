"""All commands of the program: parse, call, print. Decisions live elsewhere."""

from difflib import get_close_matches
from importlib import import_module

import click

from corral import __version__
from corral.cli import errors, local

ASKING = (
    "run",
    "plan",
    "explain",
    "render",
    "status",
    "crds",
    "rights",
    "lint",
    "check",
    "test",
    "report",
    "drain",
    "undrain",
    "rollback",
    "vm",
    "import",
)
"""Each is `NAME_command` in the module of its name, imported when used: the engine takes a while to load."""
OTHERWISE_NAMED = {"import": "importing"}  # `import` is a word of Python's


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        return [*self.commands, *ASKING]  # in the order in which a person meets them

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ASKING:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(f"corral.cli.{OTHERWISE_NAMED.get(cmd_name, cmd_name)}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)  # noqa: S101 - only our own mistake can break this
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean `{ctx.info_name} {near[0]}`?" if near else f"see `{ctx.info_name} --help`"
            raise errors.Failure(f"there is no command {args[0]}: {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="corral")
def cli() -> None:
    """Run Slurm clusters and virtual machines on Kubernetes, and explain their state."""


for command in local.commands:
    cli.add_command(command)
