"""Merge patches (RFC 7396) and JSON patches (RFC 6902)."""

from typing import Any

import pytest

from corral.kube.errors import Invalid, NotFound
from corral.testing.contract import CONFIG_MAP, World


async def test_a_merge_patch_adds_changes_and_removes(world: World) -> None:
    made = await world.create(world.config_map("a", {"keep": "1", "change": "1", "remove": "1"}))

    changed = await world.merge(made, {"data": {"change": "2", "remove": None, "add": "1"}})
    assert changed.get("data") == {"keep": "1", "change": "2", "add": "1"}


async def test_a_json_patch_is_done_in_order(world: World) -> None:
    made = await world.create(world.config_map("a", {"x": "1"}, annotations={"k": "v"}))

    changed = await world.json_patch(
        made,
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "add", "path": "/metadata/annotations/corral.dev~1x", "value": "2"},
        {"op": "copy", "from": "/data/x", "path": "/data/y"},
        {"op": "move", "from": "/data/x", "path": "/data/z"},
        {"op": "replace", "path": "/data/y", "value": "3"},
    )
    assert changed.get("data") == {"y": "3", "z": "1"}
    assert changed.metadata.annotations == {"k": "v", "corral.dev/x": "2"}


async def test_a_json_patch_can_insert_into_a_list(world: World) -> None:
    made = await world.create(world.config_map("a", finalizers=["contract.corral.dev/b"]))

    changed = await world.json_patch(
        made,
        {"op": "add", "path": "/metadata/finalizers/0", "value": "contract.corral.dev/a"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "contract.corral.dev/c"},
    )
    assert [each[-1] for each in changed.metadata.finalizers] == ["a", "b", "c"]
    await world.merge(made, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/data/a", "value": "other"}, id="a test that fails"),
        pytest.param({"op": "remove", "path": "/data/nothing"}, id="removing what is not there"),
        pytest.param({"op": "add", "path": "/nothing/x", "value": "1"}, id="adding to what is not there"),
        pytest.param({"op": "invent", "path": "/data/a"}, id="an operation that is none"),
    ],
)
async def test_a_json_patch_that_cannot_be_done_changes_nothing(world: World, operation: dict[str, Any]) -> None:
    made = await world.create(world.config_map("a"))

    with pytest.raises(Invalid):
        await world.json_patch(made, {"op": "add", "path": "/data/b", "value": "2"}, operation)
    assert await world.get(CONFIG_MAP, "a") == made


async def test_replacing_a_field_that_is_not_there_adds_it(world: World) -> None:
    """The RFC forbids that; the server does it."""
    made = await world.create(world.config_map("a"))

    changed = await world.json_patch(made, {"op": "replace", "path": "/data/b", "value": "2"})
    assert changed.get("data", "b") == "2"


async def test_a_patch_of_what_is_missing_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        await world.merge(world.config_map("a"), {"data": {"b": "2"}})


async def test_a_patch_cannot_rename(world: World) -> None:
    made = await world.create(world.config_map("a"))

    with pytest.raises(Invalid, match="does not match the name on the URL"):
        await world.merge(made, {"metadata": {"name": "b"}})


async def test_a_patch_of_an_unknown_type_is_refused(world: World) -> None:
    await world.create(world.config_map("a"))
    path = f"/api/v1/namespaces/{world.namespace}/configmaps/a"

    answer = await world.raw("PATCH", path, body={}, content_type="application/surprise")
    assert answer.status == 415
