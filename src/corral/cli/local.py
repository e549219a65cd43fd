"""`corral up`, `down`, `local` and `kubectl`: the local cluster's commands. They parse, call and print."""

import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from corral.cli import foreign
from corral.cli.errors import one_sentence
from corral.cli.hints import echo_commands
from corral.local.commands import find_administration
from corral.local.errors import LocalError

if TYPE_CHECKING:
    from corral.local.spec import Spec

DEFAULT_NAME = "dev"
_PASSED_THROUGH_SUDO = ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "CORRAL_CACHE", "TERM", "CI")

name_option = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="Which local cluster; several may run side by side."
)


@click.command("up", short_help="Start a local Kubernetes with Corral and a Slurm cluster")
@name_option
@click.option("--nodes", type=click.IntRange(1, 5), help="How many nodes.  [default: 1, or as many as it has]")
@click.option("--bare", is_flag=True, help="Only Kubernetes, without Corral.")
@click.option("--audit", is_flag=True, help="Log the requests to the API server: `corral local logs audit`.")
@click.option(
    "--context", metavar="NAME", help="Use an existing cluster: a context of your kubeconfig, with its namespace."
)
@click.option(
    "--image-prefix", default="", metavar="PREFIX", help="With --context: HOST/PATH that you pushed the images to."
)
def up_command(name: str, nodes: int | None, bare: bool, audit: bool, context: str | None, image_prefix: str) -> None:
    """Start a real Kubernetes on this machine with Corral and a small Slurm cluster in it, and run a first job.

    What is there already is kept, or repaired.
    """
    if image_prefix and not context:
        raise click.UsageError("--image-prefix needs --context: a local cluster gets the images that are built here")
    if audit and context:
        raise click.UsageError("--audit is for a local cluster, not for --context")
    with one_sentence():
        if context:
            foreign.up(context, bare, image_prefix)
            return
        find_administration()
        if os.geteuid() != 0:
            _way_to_root()  # better told now than after a quarter of an hour of building
        if bare:
            _start_bare(name, nodes, audit)
        else:
            _start(name, nodes, audit)


@click.command("down", short_help="Remove the local cluster completely")
@name_option
@click.option("--all", "everything", is_flag=True, help="Every local cluster.")
@click.option("--context", metavar="NAME", help="Remove what `up --context NAME` installed there; volumes stay.")
def down_command(name: str, everything: bool, context: str | None) -> None:
    """Remove a local cluster, with everything it left on this machine."""
    from corral.local import cluster
    from corral.local.home import existing_names, home_of

    if context and everything:
        raise click.UsageError("--all is for local clusters: leave out --context")
    with one_sentence():
        if context:
            foreign.down(context)
            return
        find_administration()
        names = existing_names() if everything else (name,)
        if any(home_of(each).path.exists() for each in names):
            _become_root()
        for each in names:
            was_there = cluster.down(each)
            click.echo(f"Cluster {each} was removed." if was_there else f"There is no cluster {each}.", err=True)


@click.group("local", short_help="The local Kubernetes itself: its processes and their logs")
def local_group() -> None:
    """Look at the local cluster itself: its processes, their logs, what it needs."""


@local_group.command("status")
@name_option
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status_command(name: str, output: str) -> None:
    """Which components run, since when, how often they were restarted. Exits with 1 unless all run and are ready."""
    from corral.cli.output import age, say_json, table
    from corral.local.home import home_of
    from corral.local.status import status

    with one_sentence():
        found = status(home_of(name))
    if output == "json":
        say_json("LocalStatus", {**msgspec.to_builtins(found), "well": found.is_well})
    else:
        now = datetime.now(UTC)
        rows = [
            (
                c.name,
                str(c.pid or "-"),
                c.state,
                age(c.since, now),
                str(c.restarts),
                _mebibytes(c.memory_bytes),
                c.detail,
            )
            for c in found.components
        ]
        click.echo(table(("COMPONENT", "PID", "STATE", "SINCE", "RESTARTS", "MEMORY", "LAST END"), rows))
        click.echo()
        click.echo(table(("NODE", "STATE"), [(n.name, n.state) for n in found.nodes]))
    if not found.is_well:
        raise click.exceptions.Exit(1)


@local_group.command("logs")
@click.argument("component")
@name_option
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines.")
def logs_command(component: str, name: str, follow: bool) -> None:
    """Print a component's log, e.g. kube-apiserver, node-1.kubelet, or kubelet for the first node's."""
    from corral.local.home import home_of

    with one_sentence():
        _print_log(_log_of(home_of(name).logs, component), follow)


@local_group.command("prepare")
def prepare_command() -> None:
    """Install and build everything that `up` needs, and start nothing."""
    from corral.local import builds
    from corral.local.progress import Progress

    with one_sentence(), Progress(builds.PREPARE_STEPS) as progress:
        find_administration()
        builds.prepare(progress)


@click.command(
    "kubectl",
    short_help="kubectl on the local cluster: corral kubectl -- get pods",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@name_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl_command(name: str, arguments: tuple[str, ...]) -> None:
    """Run kubectl on the local cluster: corral kubectl -- get pods."""
    from corral.local import builds
    from corral.local.home import home_of
    from corral.local.kubectl import memory

    with one_sentence():
        kubeconfig = home_of(name).kubeconfig
        if not kubeconfig.exists():
            raise LocalError(f"there is no cluster {name}: run `corral up --name {name}`")
        program = str(builds.binary("kubectl"))
        environment = {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(memory(kubeconfig))}
        os.execve(program, [program, *arguments], {**os.environ, **environment})  # noqa: S606 it replaces us


commands: tuple[click.Command, ...] = (up_command, down_command, local_group, kubectl_command)


def _start_bare(name: str, nodes: int | None, audit: bool) -> None:
    from corral.local import builds, cluster
    from corral.local.home import home_of
    from corral.local.progress import Progress

    home = home_of(name)
    _prepare_as_user()
    with Progress((*builds.PREPARE_STEPS, *cluster.UP_STEPS)) as progress:
        builds.prepare(progress)
        spec = cluster.up(name, nodes, progress, audit=audit)
    flag = _name_flag(name)
    click.echo(f"\n{_introduction(spec)}\n")
    echo_commands(
        (f"corral kubectl{flag} -- get nodes", "use it"),
        (f"corral local status{flag}", "what runs, and what was restarted"),
        (f"corral down{flag}", "remove it"),
        (f"export KUBECONFIG={home.kubeconfig}", f"context {spec.context}"),
    )


def _start(name: str, nodes: int | None, audit: bool) -> None:
    from corral.install import up
    from corral.kube import load_credentials
    from corral.local import builds, checkout, cluster
    from corral.local.home import home_of
    from corral.local.progress import Progress

    home = home_of(name)
    recipes = checkout.recipes_of(up.image_references())
    images = tuple(recipe.name for recipe in recipes)
    _prepare_as_user()
    with Progress((*builds.PREPARE_STEPS, *images, *cluster.UP_STEPS, checkout.IMPORT, *up.STEPS)) as progress:
        builds.prepare(progress)
        archives = checkout.build_all(recipes, progress)
        spec = cluster.up(name, nodes, progress, audit=audit)
        checkout.load(name, archives, progress)
        job = up.bring_up(load_credentials(home.kubeconfig), progress, image_key=recipes[0].key)
    click.echo(f"\n{_introduction(spec)} Corral and a Slurm cluster run in it.\n\n{job.text}\n\nTry next:\n")
    click.echo(f"  export KUBECONFIG={home.kubeconfig}{_export_of_path()}")
    flag = _name_flag(name)
    echo_commands(
        ("corral status", "all objects, and whether they are ready"),
        (f"corral kubectl{flag} -- exec -it {job.login}", "a user's shell: sbatch, squeue, sacct"),
        (f"corral kubectl{flag} -- scale nodeset worker --replicas 1", "drains two workers, then removes them"),
        ("corral explain nodeset worker", "what it does, and why"),
        (f"corral down{flag}", "remove everything"),
    )


def _export_of_path() -> str:
    """Empty when a shell finds `corral` already."""
    return "" if shutil.which("corral") else f' PATH="{Path(sys.executable).parent}:$PATH"'


def _prepare_as_user() -> None:
    """As the user: what is built goes into the user's cache, and the state directory's parents stay the user's."""
    from corral.local import builds
    from corral.local.home import clusters_root
    from corral.local.progress import Progress

    if os.geteuid() == 0:
        return
    clusters_root().mkdir(parents=True, exist_ok=True)
    with Progress(builds.PREPARE_STEPS) as progress:
        builds.prepare(progress)
    _become_root()


def _name_flag(name: str) -> str:
    return "" if name == DEFAULT_NAME else f" --name {name}"


def _introduction(spec: "Spec") -> str:
    from corral.local import builds

    nodes = "1 node" if spec.node_count == 1 else f"{spec.node_count} nodes"
    return f"Kubernetes {builds.version(builds.KUBERNETES)} runs as cluster {spec.name}: {nodes}, {spec.server}."


def _become_root() -> None:
    """Start over through sudo, as the same person with the same directories."""
    if os.geteuid() == 0:
        return
    sudo = _way_to_root()
    kept = [f"{variable}={os.environ[variable]}" for variable in _PASSED_THROUGH_SUDO if variable in os.environ]
    if uv := shutil.which("uv"):  # it may be on nobody's PATH but the user's
        kept.append(f"UV={uv}")
    program = [sys.executable, "-c", "from corral.cli.main import main; main()", *sys.argv[1:]]
    os.execv(sudo, [sudo, "env", *kept, *program])  # noqa: S606 it replaces us


def _way_to_root() -> str:
    sudo = shutil.which("sudo")
    if sudo is None:
        raise LocalError("a local cluster needs root (namespaces, mounts), and there is no sudo here: run it as root")
    may_ask = sys.stdin.isatty()
    if not may_ask and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode != 0:
        raise LocalError(
            "a local cluster needs root, and sudo needs a password, but there is no terminal: run it as root"
        )
    return sudo


def _log_of(logs: Path, component: str) -> Path:
    files = {file.stem: file for file in sorted(logs.glob("*.log"))}
    for name, file in files.items():
        if name == component or name.partition(".")[2] == component:
            return file
    known = ", ".join(files) or "none: the cluster is not up"
    raise LocalError(f"no log of component {component!r}; there are: {known}")


def _print_log(log: Path, follow: bool) -> None:
    from corral.local import following

    def wait() -> bool:
        time.sleep(0.2)
        return log.parent.exists()  # else the cluster is gone

    for line in following.follow(log, wait if follow else lambda: False):
        click.echo(line, nl=False)


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f}Mi" if count else "-"
