"""Lists: order, selectors, pages of one version."""

import pytest

from corral.kube.client import Page
from corral.kube.errors import NotFound
from corral.kube.selection import Selector
from corral.kube.unstructured import Unstructured, untyped
from corral.testing.contract import CONFIG_MAP, POD, World

KIND = untyped(CONFIG_MAP)


def names(page: Page[Unstructured]) -> list[str]:
    return [each.metadata.name for each in page.items if each.metadata.name != "kube-root-ca.crt"]


async def test_a_list_is_sorted_by_name_and_has_a_version(world: World) -> None:
    for name in ("b", "a"):
        await world.create(world.config_map(name))
    last = await world.create(world.config_map("c"))

    page = await world.client.list(KIND, world.here)
    assert names(page) == ["a", "b", "c"]
    assert int(page.resource_version) >= int(last.metadata.resource_version)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        pytest.param("tier=web", ["a", "b"], id="equal"),
        pytest.param("tier==web,zone=x", ["a"], id="two"),
        pytest.param("tier,tier!=web", ["c"], id="not equal"),
        pytest.param("tier in (web, db),!zone", ["c"], id="in, absent"),
        pytest.param("tier,zone notin (x)", ["b", "c"], id="notin also finds what has none"),
        pytest.param("zone", ["a", "b"], id="present"),
    ],
)
async def test_label_selectors_select(world: World, labels: str, found: list[str]) -> None:
    await world.create(world.config_map("a", labels={"tier": "web", "zone": "x"}))
    await world.create(world.config_map("b", labels={"tier": "web", "zone": "y"}))
    await world.create(world.config_map("c", labels={"tier": "db"}))

    page = await world.client.list(KIND, Selector(world.namespace, labels=labels))
    assert names(page) == found


async def test_field_selectors_select(world: World) -> None:
    for name in ("a", "b"):
        await world.create(world.config_map(name))
        await world.create(world.pod(name))

    by_name = await world.client.list(KIND, Selector(world.namespace, fields="metadata.name=a"))
    by_phase = await world.client.list(
        untyped(POD), Selector(world.namespace, fields="status.phase=Pending,metadata.name!=a")
    )
    by_node = await world.client.list(untyped(POD), Selector(world.namespace, fields="spec.nodeName=n"))
    assert (names(by_name), names(by_phase), names(by_node)) == (["a"], ["b"], [])


async def test_all_pages_are_of_the_version_of_the_first(world: World) -> None:
    for name in "abcde":
        await world.create(world.config_map(name, labels={"x": "y"}))
    where = Selector(world.namespace, labels="x=y")
    first = await world.client.list_page(KIND, where, limit=2)
    await world.delete(world.config_map("d"))
    await world.create(world.config_map("f", labels={"x": "y"}))

    second = await world.client.list_page(KIND, where, limit=2, continue_token=first.continue_token)
    third = await world.client.list_page(KIND, where, limit=2, continue_token=second.continue_token)
    assert [names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert {page.resource_version for page in (first, second, third)} == {first.resource_version}
    assert third.continue_token == ""


async def test_a_page_says_how_many_remain_unless_there_is_a_selector(world: World) -> None:
    for name in "abc":
        await world.create(world.pod(name, labels={"x": "y"}))
    path = f"/api/v1/namespaces/{world.namespace}/pods"

    plain = await world.raw("GET", path, ("limit", "1"))
    selected = await world.raw("GET", path, ("limit", "1"), ("labelSelector", "x=y"))
    assert plain.body["metadata"]["remainingItemCount"] == 2
    assert "remainingItemCount" not in selected.body["metadata"]


@pytest.mark.usefixtures("playthings")
async def test_items_of_built_in_kinds_do_not_say_their_kind(world: World) -> None:
    await world.create(world.pod("a"))
    await world.create(world.plaything("a", {}))

    pods = await world.raw("GET", f"/api/v1/namespaces/{world.namespace}/pods")
    playthings = await world.raw("GET", f"/apis/contract.corral.dev/v1/namespaces/{world.namespace}/playthings")
    assert (pods.body["kind"], "kind" in pods.body["items"][0]) == ("PodList", False)
    assert (playthings.body["kind"], playthings.body["items"][0]["kind"]) == ("PlaythingList", "Plaything")


async def test_an_exact_version_shows_the_past(world: World) -> None:
    made = await world.create(world.config_map("a"))
    await world.delete(made)
    path = f"/api/v1/namespaces/{world.namespace}/configmaps"
    query = (("resourceVersion", made.metadata.resource_version), ("resourceVersionMatch", "Exact"))

    past = await world.raw("GET", path, *query)
    assert "a" in {item["metadata"]["name"] for item in past.body["items"]}
    assert past.body["metadata"]["resourceVersion"] == made.metadata.resource_version


async def test_a_collection_can_be_deleted_by_selector(world: World) -> None:
    await world.create(world.config_map("a", labels={"x": "y"}))
    await world.create(world.config_map("b"))

    await world.raw("DELETE", f"/api/v1/namespaces/{world.namespace}/configmaps", ("labelSelector", "x=y"))
    assert names(await world.client.list(KIND, world.here)) == ["b"]
    with pytest.raises(NotFound):
        await world.get(CONFIG_MAP, "a")
