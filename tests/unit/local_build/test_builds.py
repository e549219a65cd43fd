import io
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from corral.local import builds
from corral.local.builds import BINARIES, GIB, GO_STEP, Binary, Module
from corral.local.errors import LocalError
from corral.local.progress import Progress, State, Step
from corral.local.toolchain import Go

GO_MOD = "module m\n\ngo 1.26.0\n\nrequire example.org/tool v2.7.1\n"


@pytest.fixture
def module(tmp_path: Path) -> Module:
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text("example.org/tool v2.7.1 h1:x\n")
    return Module(folder=folder, path="example.org/tool", disk_bytes=GIB, stamped=("example.org/tool/version",))


@pytest.fixture
def tool(module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Binary:
    monkeypatch.setenv("CORRAL_CACHE", str(tmp_path / "cache"))
    return Binary("tool", module, module.path)


def a_go(tmp_path: Path, script: str) -> Go:
    """A stand-in for `go build -v FLAG FLAG -o FILE PACKAGE`: in the script, $6 is FILE."""
    program = tmp_path / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Go(program=program, version=(1, 26, 0))


WRITES_A_PROGRAM = 'echo compiled >"$6"; chmod 755 "$6"'


def test_the_programs_know_the_version_that_go_mod_asks_for(module: Module) -> None:
    _, linker = builds.flags(module)

    assert "-X=example.org/tool/version.gitVersion=v2.7.1" in linker
    assert "-X=example.org/tool/version.gitMinor=7" in linker


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_the_key_changes_with(module: Module, name: str) -> None:
    before = builds.key(module)

    file = module.folder / name
    file.write_text(file.read_text() + "\n// another dependency\n")

    assert builds.key(module) != before


def test_the_key_changes_with_the_flags(module: Module) -> None:
    unstamped = Module(folder=module.folder, path=module.path, disk_bytes=GIB)

    assert builds.key(unstamped) != builds.key(module)


def test_every_program_of_the_table_is_a_tool_of_its_module() -> None:
    for binary in BINARIES:
        tools = binary.module.folder.joinpath("go.mod").read_text().split("\nrequire", 1)[0]
        assert f"{binary.package}\n" in tools


def test_a_built_program_is_found_and_is_not_built_again(tool: Binary, tmp_path: Path, step: Step) -> None:
    builds.build_one(tool, a_go(tmp_path, WRITES_A_PROGRAM), step)
    progress = Progress((GO_STEP, "tool"), stream=io.StringIO(), environment={})

    builds.build(progress, (tool,))

    assert builds.place(tool).read_text() == "compiled\n"
    assert [row.state for row in progress.board.rows] == [State.CACHED, State.CACHED]


def test_a_failed_build_leaves_nothing_half_and_says_why(tool: Binary, tmp_path: Path, step: Step) -> None:
    go = a_go(tmp_path, 'echo half >"$6"; echo "write: no space left on device"; exit 1')

    with pytest.raises(LocalError, match=r"building tool v2\.7\.1 failed: the disk is full.*tool\.log"):
        builds.build_one(tool, go, step)

    assert list(builds.place(tool).parent.iterdir()) == []
    assert not builds.is_built(tool)


def test_a_build_interrupted_by_a_person_leaves_nothing_half(tool: Binary, tmp_path: Path) -> None:
    def interrupted(last_line: str) -> None:
        if last_line == "half-way":
            raise KeyboardInterrupt

    go = a_go(tmp_path, 'echo half >"$6"; echo half-way; exec sleep 600')

    with pytest.raises(KeyboardInterrupt):
        builds.build_one(tool, go, Step(lambda note="", last_line="": interrupted(last_line), nullcontext))

    assert list(builds.place(tool).parent.iterdir()) == []


def test_what_a_killed_build_left_does_not_disturb_the_next(tool: Binary, tmp_path: Path, step: Step) -> None:
    leftover = builds.place(tool).with_name(".tool.part")
    leftover.parent.mkdir(parents=True)
    leftover.write_text("half")

    builds.build_one(tool, a_go(tmp_path, WRITES_A_PROGRAM), step)

    assert [path.name for path in leftover.parent.iterdir()] == ["tool"]


def test_a_second_builder_waits_and_then_finds_the_program_built(tool: Binary, tmp_path: Path, step: Step) -> None:
    waits = threading.Event()
    go_that_must_not_run = a_go(tmp_path, "exit 1")
    second_step = Step(
        lambda note="", last_line="": waits.set() if "waiting for process" in last_line else None, nullcontext
    )
    second = threading.Thread(target=builds.build_one, args=(tool, go_that_must_not_run, second_step))

    with builds.build_lock(step):
        second.start()
        assert waits.wait(timeout=30)
        builds.place(tool).write_text("compiled by the first")
        builds.place(tool).chmod(0o755)
    second.join()

    assert builds.place(tool).read_text() == "compiled by the first"


def test_the_compiler_holds_the_lock_too(tool: Binary, tmp_path: Path, step: Step) -> None:
    """So that the next builder waits for it if we are killed and it goes on writing."""
    go = a_go(tmp_path, f"readlink /proc/$$/fd/* | grep -q 'build.lock$' || exit 1\n{WRITES_A_PROGRAM}")

    builds.build_one(tool, go, step)

    assert builds.is_built(tool)


def test_a_disk_that_is_too_small_is_told_before_anything_is_built(tool: Binary) -> None:
    with pytest.raises(LocalError, match=r"needs about 1 GiB on the disk of /small, and 0\.5 GiB are free"):
        builds.check_disk((tool, tool), {Path("/large"): 2 * GIB, Path("/small"): GIB // 2})


def test_a_program_that_is_not_built_is_named_with_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_CACHE", str(tmp_path))

    with pytest.raises(LocalError, match=r"etcd has not been built yet.*corral local prepare"):
        builds.binary("etcd")
