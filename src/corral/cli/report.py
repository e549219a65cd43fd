"""`corral report`: everything a helper needs to understand a cluster, in one file that holds no secret."""

import asyncio
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import click

from corral import __version__
from corral.cli.bundle import Bundle, StillSecret, archived, bundled
from corral.cli.collect import collected, secret_values
from corral.cli.errors import Failure
from corral.cli.options import Cluster, Kinds, Output, cluster_options, kinds_option, output_option
from corral.cli.output import say_json
from corral.kube.errors import Forbidden


@click.command("report", short_help="A bundle for whoever helps you, without secrets")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="Where to write it.  [default: corral-report-TIME.tar.gz]"
)
@click.option(
    "--log-lines",
    type=click.IntRange(0),
    default=2000,
    show_default=True,
    help="At most this many log lines of each container.",
)
@output_option
@cluster_options
@kinds_option
def report_command(file: Path | None, log_lines: int, output: Output, cluster: Cluster, kinds: Kinds) -> None:
    """Write a bundle for whoever helps you: objects, conditions, events, logs, explanations, and what Slurm says.

    Secrets are listed with names and sizes only. Their values are searched for in all files, in every spelling, and
    removed. Look into the bundle before you send it. Exit code: 0 written, 2 an error.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    folder = f"corral-report-{now:%Y%m%d-%H%M%S}"

    async def ask() -> Bundle:
        async with cluster.client() as client:
            try:
                secrets = await secret_values(client, cluster.namespace)
            except Forbidden as error:
                raise Failure(
                    f"{error}; a report must know the Secrets to remove them: ask somebody who may read them"
                ) from error
            files = await collected(client, kinds, cluster.namespace, log_lines=log_lines, now=now, tell=_tell)
            files["about.txt"] = _about(cluster, now)
            return bundled(files, secrets)

    try:
        bundle = asyncio.run(ask())
    except StillSecret as error:
        raise Failure(f"nothing was written: {error} still contains a secret; please report this as a bug") from error
    where = file or Path(f"{folder}.tar.gz")
    _write(where, archived(bundle, folder, int(now.timestamp())))
    if output == "json":
        files = [{"name": name, "bytes": len(text.encode())} for name, text in sorted(bundle.files.items())]
        say_json("Report", {"file": str(where), "files": files, "redacted": list(bundle.changed)})
    else:
        click.echo(f"{where}: {len(bundle.files)} files, {where.stat().st_size / 1024:.0f} KiB; it contains no secrets")
        if bundle.changed:
            click.echo(f"secrets were removed from: {', '.join(bundle.changed)}")


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _about(cluster: Cluster, now: datetime) -> str:
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"corral {__version__}\nmade {now.isoformat()}\nof namespace {cluster.namespace}\non {system}\n"


def _write(file: Path, content: bytes) -> None:
    """For its owner alone: it tells much about a cluster, though no secret."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(content)
    except OSError as error:
        raise Failure(f"cannot write {file}: {error.strerror}") from error
