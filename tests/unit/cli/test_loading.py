"""What a person names is found, or refused in one sentence that says what to do."""

from pathlib import Path

import pytest

from corral.cli.errors import Failure
from corral.cli.loading import kind_named, kinds_of, manifests_in

NOTE = str(Path(__file__).parents[3] / "examples" / "note.py")
MANIFEST = """
apiVersion: demo.corral.dev/v1alpha1
kind: Note
metadata: {name: hello}
spec: {text: Hello}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "manifest.yaml"
    file.write_text(text)
    return file


def test_an_object_without_a_namespace_goes_where_the_command_says(tmp_path: Path) -> None:
    (found,) = manifests_in(written(tmp_path, MANIFEST), kinds_of([NOTE]), "lab")

    assert (found.object.metadata.namespace, found.object.metadata.name) == ("lab", "hello")


def test_every_document_of_a_file_is_read_and_empty_ones_are_skipped(tmp_path: Path) -> None:
    text = f"---\n{MANIFEST}---\n---\n{MANIFEST.replace('hello', 'bye')}"

    found = manifests_in(written(tmp_path, text), kinds_of([NOTE]), "lab")

    assert [each.object.metadata.name for each in found] == ["hello", "bye"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "contains no object", id="an empty file"),
        pytest.param("a: [", "is not YAML", id="broken YAML"),
        pytest.param("- 1", "expected an object with apiVersion and kind, found list", id="a list"),
        pytest.param("apiVersion: v1\nkind: Pod", "no kind v1 Pod here; known kinds: demo", id="a kind of others"),
        pytest.param(MANIFEST.replace("{text: Hello}", "{}"), "Note hello: Object missing required field", id="a gap"),
        pytest.param(MANIFEST.replace("Hello", "3"), "Expected `str`, got `int` - at `$.spec.text`", id="a wrong type"),
        pytest.param(MANIFEST.replace("name: hello", ""), "metadata.name is missing", id="no name"),
    ],
)
def test_a_manifest_is_refused_in_one_sentence_for(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"manifest\.yaml") as refusal:
        manifests_in(written(tmp_path, text), kinds_of([NOTE]), "lab")

    assert says in refusal.value.message


@pytest.mark.parametrize("word", ["note", "Note", "notes", "notes.demo.corral.dev"])
def test_a_kind_is_found_by_any_name_that_kubectl_knows(word: str) -> None:
    assert kind_named(kinds_of([NOTE]), word).kind.resource.kind == "Note"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("no/such.py", "no such file"),
        ("no.such.module", "No module named"),
        ("json", "expected a tuple KINDS"),
    ],
)
def test_code_that_cannot_be_loaded_is_named(source: str, says: str) -> None:
    with pytest.raises(Failure, match=source) as refusal:
        kinds_of([source])

    assert says in refusal.value.message


def test_a_kind_that_is_there_already_is_not_loaded_again() -> None:
    with pytest.raises(Failure, match=r"notes\.demo\.corral\.dev is loaded already; leave this --load out"):
        kinds_of([NOTE, NOTE])
