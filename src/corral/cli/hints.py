"""What to try next."""

import click


def echo_commands(*commands: tuple[str, str]) -> None:
    """Commands to try, each with what it is for."""
    width = max(len(command) for command, _meaning in commands)
    for command, meaning in commands:
        click.echo(f"  {command:{width}}   # {meaning}")
