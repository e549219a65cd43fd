"""`corral lint`: slurm.conf and its kin, and Slurm's lines in manifests, checked before a daemon reads them."""

import sys
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from corral.cli.errors import CHANGES, Failure
from corral.cli.lint_files import FILES, Level, Remark, ordered, remarks_of_file
from corral.cli.lint_manifests import (
    Document,
    NotYaml,
    by_level,
    read,
    remarks_of_loose_files,
    remarks_of_manifests,
    without_repeated,
)
from corral.cli.options import Kinds, Output, kinds_option, output_option
from corral.cli.output import say_json
from corral.kinds.controller.spec import Controller
from corral.slurm.config.keys import VERSIONS, nearest

NEWEST = Controller().spec.version


@click.command("lint", short_help="Find mistakes in Slurm's files and in manifests")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--slurm-version",
    type=click.Choice(VERSIONS),
    help=f"Version of Slurm that reads them.  [default: what a manifest says; {NEWEST} for other files]",
)
@click.option("--as", "name", help="Which file of Slurm it is, if it has another name: slurm.conf, gres.conf, ...")
@click.option("--strict", is_flag=True, help="Warnings are errors too.")
@click.option("-q", "--quiet", is_flag=True, help="No notes, no summary.")
@output_option
@kinds_option
def lint_command(
    files: tuple[Path, ...],
    slurm_version: str | None,
    name: str | None,
    strict: bool,
    quiet: bool,
    output: Output,
    kinds: Kinds,
) -> None:
    """Check Slurm's files, and the settings of Slurm inside manifests. Needs no cluster.

    Several FILEs are checked together. A note says what a later change of a key would cost.
    Exit code: 0 nothing wrong, 1 errors, 2 a file cannot be read.
    """
    texts = {str(file): _text(file) for file in files}
    remarks = remarks_of(texts, slurm_version, name, kinds)
    counts = by_level(remarks)
    if output == "json":
        say_json("LintResult", {"items": msgspec.to_builtins(remarks)})
    else:
        _say(remarks, counts, len(texts), quiet=quiet)
    if counts[Level.ERROR] or (strict and counts[Level.WARNING]):
        raise click.exceptions.Exit(CHANGES)


def remarks_of(texts: Mapping[str, str], version: str | None, name: str | None, kinds: Kinds) -> tuple[Remark, ...]:
    beside = frozenset(Path(shown).name for shown in texts)
    remarks: list[Remark] = []
    manifests: list[Document] = []
    for shown, text in texts.items():
        file = name or Path(shown).name
        if file in FILES:
            remarks += remarks_of_file(shown, file, text, version or NEWEST, beside)
            continue
        if Path(shown).suffix not in (".yaml", ".yml") and shown != "-":
            guess = nearest(file, tuple(FILES))
            hint = f"did you mean --as {guess}?" if guess else f"say which it is: --as {'|'.join(sorted(FILES))}"
            raise Failure(f"{shown}: neither a file that Slurm knows by this name nor a manifest (.yaml); {hint}")
        try:
            documents, unreadable = read(shown, text, kinds)
        except NotYaml as error:
            raise Failure(str(error)) from error
        manifests += documents
        remarks += unreadable
    once, repeated = without_repeated(manifests)
    remarks += repeated
    remarks += remarks_of_manifests(once, version)
    remarks += remarks_of_loose_files(once, version or NEWEST)
    return ordered(remarks)


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise Failure(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"cannot read {file}: expected UTF-8, found byte {error.start} to be something else") from error


COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "cyan"}


def _say(remarks: tuple[Remark, ...], counts: Mapping[Level, int], files: int, *, quiet: bool) -> None:
    for remark in remarks:
        if not (quiet and remark.level is Level.NOTE):
            said = remark.level.value
            click.echo(str(remark).replace(f" {said}: ", f" {click.style(said, fg=COLOURS[remark.level])}: ", 1))
    if not quiet:
        checked = "1 file" if files == 1 else f"{files} files"
        click.echo(f"{checked}: " + ", ".join(_count(level, number) for level, number in counts.items()))


def _count(level: Level, number: int) -> str:
    return f"{number} {level.value}" + ("" if number == 1 else "s")
