"""Corral's own image: another source is another image, it runs as nobody special, its bill names Python packages."""

import json
from pathlib import Path

import pytest

from corral.local.progress import Step
from images.archive import configuration
from images.layer import Layer
from images.program import MADE_FROM, SOURCES, _run, find_uv, sources_digest
from images.recipes import CORRAL_UID, corral, slurm
from images.sbom import bill, python_packages

LAYER = Layer(file=Path("layer.tar.gz"), diff_id="sha256:0")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in MADE_FROM:
        (tmp_path / name).write_text(name)
    (tmp_path / SOURCES / "__pycache__").mkdir(parents=True)
    (tmp_path / SOURCES / "code.py").write_text("x = 1\n")
    return tmp_path


@pytest.mark.parametrize("changed", [*MADE_FROM, f"{SOURCES}/code.py", f"{SOURCES}/new.py"])
def test_whatever_the_program_is_made_from_makes_another_image(checkout: Path, changed: str) -> None:
    before = sources_digest(checkout)
    (checkout / changed).write_text("changed")
    assert sources_digest(checkout) != before


def test_bytecode_that_somebody_left_makes_no_other_image(checkout: Path) -> None:
    before = sources_digest(checkout)
    (checkout / SOURCES / "__pycache__/code.pyc").write_bytes(b"compiled")
    assert sources_digest(checkout) == before


def test_the_operator_runs_as_nobody_special_unless_told_otherwise() -> None:
    config = configuration(corral(), (LAYER,))["config"]
    assert isinstance(config, dict)
    assert config["User"] == f"{CORRAL_UID}:{CORRAL_UID}"
    other = configuration(slurm("26.05"), (LAYER,))["config"]
    assert isinstance(other, dict)
    assert "User" not in other


def test_pythons_packages_are_in_the_bill() -> None:
    metadata = "Metadata-Version: 2.4\nName: prometheus_client\nVersion: 0.26.0\n\nName: not a field\n"
    components = json.loads(bill("corral/corral:1", python_packages([metadata])))["components"]
    assert [component["purl"] for component in components] == ["pkg:pypi/prometheus-client@0.26.0"]


def test_uv_is_found_where_the_person_had_it_before_sudo(tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.touch(mode=0o755)
    assert find_uv({"UV": str(uv), "HOME": str(tmp_path)}) == str(uv)


def test_what_uv_downloads_for_an_image_is_not_in_the_persons_own_cache_of_uv(
    tmp_path: Path, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_CACHE", str(tmp_path))

    _run(("sh", "-c", "echo $UV_CACHE_DIR"), "asking", step)

    assert (tmp_path / "logs/image-asking.log").read_text().splitlines()[-1] == str(tmp_path / "uv-downloads")
