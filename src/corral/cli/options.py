"""The options that commands share, spelt as kubectl spells them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import click
import msgspec

from corral.cli.loading import kinds_of
from corral.engine.registry import KindController
from corral.kube import Client, Credentials, HttpTransport, load_credentials
from corral.kube.values import parse_duration

F = TypeVar("F", bound=Callable[..., Any])

Output: TypeAlias = Literal["text", "json"]


class Cluster(msgspec.Struct, frozen=True):
    """Which cluster, and where in it."""

    kubeconfig: Path | None
    context: str | None
    chosen_namespace: str | None

    @property
    def namespace(self) -> str:
        """As kubectl has it: the context's, where none was named."""
        return self.chosen_namespace or self.credentials().namespace

    @property
    def flags(self) -> str:
        """What a hint must add to ask the same cluster."""
        chosen = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return "".join(f" {option} {value}" for option, value in chosen if value)

    def credentials(self) -> Credentials:
        return load_credentials(self.kubeconfig, self.context)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with Client(HttpTransport(self.credentials(), component="cli")) as client:
            yield client


def cluster_options(command: F) -> F:
    """--kubeconfig, --context and -n, handed to the command as one `cluster`."""

    @click.option("--kubeconfig", type=click.Path(path_type=Path), help="Path of the kubeconfig file.")
    @click.option("--context", help="The kubeconfig's context to use.")
    @click.option("-n", "--namespace", help="The object's namespace.  [default: the context's]")
    def wrapped(kubeconfig: Path | None, context: str | None, namespace: str | None, **others: Any) -> Any:
        return command(cluster=Cluster(kubeconfig, context, namespace), **others)

    return _as_command(command, wrapped)


def kinds_option(command: F) -> F:
    """--load, handed to the command as `kinds`: ours, and those of the given files or modules."""

    @click.option(
        "--load",
        "sources",
        multiple=True,
        metavar="FILE|MODULE",
        help="Python that defines more kinds (a tuple KINDS). May be given several times.",
    )
    def wrapped(sources: tuple[str, ...], **others: Any) -> Any:
        return command(kinds=kinds_of(sources), **others)

    return _as_command(command, wrapped)


def output_option(command: F) -> F:
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
    )(command)


class DurationType(click.ParamType[float]):
    """`300`, `90s`, `5m`, `1h30m`: seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        text = str(value)
        try:
            return float(text) if text.isdigit() else parse_duration(text).total_seconds()
        except ValueError:
            self.fail(f"{text!r}: expected seconds or a duration such as 90s, 5m, 1h30m", param, ctx)


def duration_option(name: str, *, default: str, help: str) -> Callable[[F], F]:  # noqa: A002 - as click calls it
    return click.option(name, type=DurationType(), default=default, show_default=True, metavar="DURATION", help=help)


def _as_command(command: F, wrapped: Callable[..., Any]) -> F:
    """Carry name, help and the options already declared over to the wrapper."""
    wrapped.__name__ = command.__name__
    wrapped.__doc__ = command.__doc__
    own = getattr(command, "__click_params__", [])
    wrapped.__click_params__ = [*own, *wrapped.__click_params__]  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


Kinds: TypeAlias = tuple[KindController, ...]
