"""One border where what went wrong becomes one sentence and an exit code.

    0    it is as you want it (`plan`: nothing to change)
    1    it is not: `plan` has changes, `status --wait` is not ready, `lint`, `check` or `test` found something wrong
    2    what you asked for cannot be done: the sentence says why and what to do (wrong usage too, as click does)
    3    `plan`: nothing can go on before a person has acted
    130  interrupted

`kubectl diff` uses 0, 1 and "more than 1" in the same way.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from corral.kube.errors import KubeError
from corral.local.errors import LocalError

CHANGES = 1
FAILED = 2
STUCK = 3
INTERRUPTED = 130


class Failure(click.ClickException):
    """A command cannot go on; the message tells the person what to do."""

    exit_code = FAILED

    def show(self, file: object = None) -> None:
        del file
        click.echo(f"corral: {self.message}", err=True)


@contextmanager
def one_sentence() -> Iterator[None]:
    """For what works on this machine: whatever it raises becomes one sentence."""
    try:
        yield
    except LocalError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt as interruption:
        raise click.Abort from interruption
    except OSError as error:
        # A full disk and a forbidden file come from anywhere; the operating system's sentence names the file.
        raise Failure(f"{error.strerror or error}: {error.filename}" if error.filename else str(error)) from error


def run(command: Callable[[], object]) -> NoReturn:
    """Run the whole command line and leave the process with the right code."""
    try:
        code = command()  # click returns the code of an Exit instead of raising it
    except (click.Abort, KeyboardInterrupt):
        click.echo("corral: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as failure:
        failure.show()
        sys.exit(failure.exit_code)
    except KubeError as error:
        click.echo(f"corral: {error}", err=True)
        sys.exit(FAILED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(FAILED)
    sys.exit(code if isinstance(code, int) else 0)
