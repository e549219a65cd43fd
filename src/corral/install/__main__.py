"""`python -m corral.install FOLDER`: write the generated part of deploy/; with --check, say whether it is."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from corral.install.generated import FOLDERS, differences, generated
from corral.kinds.registry import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m corral.install", description="Write what of deploy/ is generated.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 when something would change")
    arguments = parser.parse_args()
    wanted, found = generated(KINDS), read(arguments.folder)
    wrong = differences(wanted, found)
    for sentence in wrong:
        print(f"{arguments.folder}: {sentence}", file=sys.stderr)  # noqa: T201
    if arguments.check:
        if wrong:
            print(f"write it anew: python -m corral.install {arguments.folder}", file=sys.stderr)  # noqa: T201
        return 1 if wrong else 0
    write(arguments.folder, wanted, found)
    return 0


def read(folder: Path) -> Mapping[str, str]:
    files = [path for part in FOLDERS for path in (folder / part).glob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def write(folder: Path, wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    for name in found.keys() - wanted.keys():
        (folder / name).unlink()
    for name, text in wanted.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
