"""`python -m tests.sim 1000`: so many seeds; `python -m tests.sim =17,23`: just these. What fails is told, shrunk."""

import sys
import time

from tests.sim.conftest import quiet
from tests.sim.seeds import failure_of, shrunk

TOLD_EVERY = 50


def main() -> int:
    asked = sys.argv[1] if len(sys.argv) > 1 else "300"
    seeds = [int(word) for word in asked[1:].split(",")] if asked.startswith("=") else list(range(int(asked)))
    quiet()
    began_s, failed = time.monotonic(), 0
    for ran, seed in enumerate(seeds):
        if ran and ran % TOLD_EVERY == 0:
            print(f"{ran} seeds ran in {time.monotonic() - began_s:.0f} s, {failed} failed", flush=True)
        failure = failure_of(seed)
        if failure is not None:
            failed += 1
            print(f"\n{shrunk(failure)}\n", flush=True)
    print(f"{len(seeds)} seeds ran in {time.monotonic() - began_s:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
