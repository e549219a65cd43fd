import io
import json
import tarfile

from corral.local.images import Image, archive

IMAGE = Image(name="corral.local/x:1", files={"/bin/x": b"x"}, links={"/bin/y": "x"}, command=("/bin/x",))


def members(content: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {entry.name: entry for entry in tar}


def extracted(content: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


def test_the_same_files_give_the_same_bytes() -> None:
    assert archive(IMAGE) == archive(IMAGE)


def test_an_archive_names_its_image_configuration_and_layer() -> None:
    content = archive(IMAGE)
    (manifest,) = json.loads(extracted(content, "manifest.json"))

    assert manifest["RepoTags"] == ["corral.local/x:1"]
    assert {manifest["Config"], *manifest["Layers"]} <= set(members(content))
    assert json.loads(extracted(content, manifest["Config"]))["config"]["Cmd"] == ["/bin/x"]


def test_the_layer_has_executable_files_links_and_their_directories() -> None:
    layer = members(extracted(archive(IMAGE), "layer.tar"))

    assert layer["bin"].isdir()
    assert layer["bin/x"].mode == 0o755
    assert layer["bin/y"].linkname == "x"
