"""One measurement in a process of its own: `python -m bench.creation engine SETTINGS` prints its answer as JSON.

Memory and CPU time belong to a process, so what is measured shares its process with nothing else. Logs are formatted
as in production and thrown away.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TypeVar

import msgspec

from corral.engine.logs import configure

A = TypeVar("A", bound=msgspec.Struct)
WITHIN_S = 900.0


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    runs: int = 5
    creations: int = 2_000
    workers: int = 16
    pods: int = 10_000
    events: int = 5_000
    tickets: int = 5_000
    idle_s: float = 60.0
    nodes: int = 1_000
    nodes_more: int = 3_000
    slurm_nodes: int = 5_000
    wukongs: int = 500


SMOKE = Sizes(
    runs=1,
    creations=200,
    pods=500,
    events=200,
    tickets=500,
    idle_s=5.0,
    nodes=100,
    nodes_more=200,
    slurm_nodes=500,
    wukongs=40,
)


class Settings(msgspec.Struct, frozen=True):
    """`is_ours`: the cluster was started to measure on, and may be thrown away."""

    kubeconfig: str
    sizes: Sizes
    is_ours: bool = False


Part = Callable[[Settings], Coroutine[None, None, msgspec.Struct]]


class MeasurementFailed(Exception):
    pass


def measured(module: str, part: str, settings: Settings, answer: type[A]) -> A:
    """Run one part of a figure to its end in a process of its own."""
    argv = command(module, part, settings)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    if done.returncode != 0:
        raise MeasurementFailed(f"{module} {part} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return msgspec.json.decode(done.stdout, type=answer)


def command(module: str, part: str, settings: Settings) -> list[str]:
    return [sys.executable, "-m", module, part, msgspec.json.encode(settings).decode()]


def answer(parts: Mapping[str, Part]) -> None:
    """The other side of `measured`: a figure's module calls it when it is run as a program."""
    _, part, settings = sys.argv
    with open(os.devnull, "w") as nowhere:
        configure(form="json", stream=nowhere)
        result = asyncio.run(parts[part](msgspec.json.decode(settings, type=Settings)))
    sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
