"""What the server does not accept, and how it says so."""

import pytest

from corral.kube.errors import Forbidden, Invalid, NotFound
from corral.testing.contract import CONFIG_MAP, DEPLOYMENT, NAMESPACE, World


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({"name": "Not_A_Name"}, "metadata.name", id="upper case in a name"),
        pytest.param({"name": "a" * 254}, "metadata.name", id="a long name"),
        pytest.param({"labels": {"k": "no spaces"}}, "metadata.labels", id="a space in a label"),
        pytest.param({"labels": {"k": "x" * 64}}, "metadata.labels", id="a long label"),
        pytest.param({"labels": {"-k": "v"}}, "metadata.labels", id="a label that begins with a dash"),
        pytest.param({"annotations": {"k": "x" * 300_000}}, "metadata.annotations", id="a long annotation"),
    ],
)
async def test_bad_metadata_is_invalid_and_names_the_field(
    world: World, metadata: dict[str, object], field: str
) -> None:
    named = {"namespace": world.namespace, "name": "a", **metadata}

    answer = await world.raw(
        "POST",
        f"/api/v1/namespaces/{world.namespace}/configmaps",
        body={"kind": "ConfigMap", "apiVersion": "v1", "metadata": named},
    )
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}


async def test_an_object_without_any_name_is_invalid(world: World) -> None:
    with pytest.raises(Invalid) as caught:
        await world.create(world.config_map(""))

    assert [cause.field for cause in caught.value.causes] == ["metadata.name"]


async def test_nothing_is_created_in_a_namespace_that_is_not_there(world: World) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await world.create(world.config_map("a", namespace="nowhere"))


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted(world: World) -> None:
    other = await world.create(world.thing(NAMESPACE, f"{world.namespace}-x"))
    await world.create(world.config_map("keeper", namespace=other.metadata.name, finalizers=["contract.corral.dev/x"]))
    await world.delete(other)

    with pytest.raises(Forbidden, match="because it is being terminated"):
        await world.create(world.config_map("b", namespace=other.metadata.name))
    await world.merge(world.config_map("keeper", namespace=other.metadata.name), {"metadata": {"finalizers": None}})


async def test_a_body_over_the_limit_is_refused(world: World) -> None:
    answer = await world.raw(
        "POST",
        f"/api/v1/namespaces/{world.namespace}/configmaps",
        body={"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "x" * 3_200_000}},
    )

    assert answer.status == 413


async def test_a_config_map_holds_at_most_a_mebibyte(world: World) -> None:
    with pytest.raises(Invalid, match="may not be more than 1048576 bytes"):
        await world.create(world.config_map("a", {"k": "x" * (1 << 20) + "x"}))


async def test_an_immutable_config_map_stays_as_it_is(world: World) -> None:
    made = await world.create(world.thing(CONFIG_MAP, "a", data={"k": "v"}, immutable=True))

    with pytest.raises(Invalid) as caught:
        await world.merge(made, {"data": {"k": "other"}})
    assert caught.value.causes[0].field == "data"


async def test_the_selector_of_a_deployment_cannot_change(world: World) -> None:
    labels = {"app": "a"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    made = await world.create(world.thing(DEPLOYMENT, "a", spec=spec))

    with pytest.raises(Invalid) as caught:
        await world.merge(made, {"spec": {"selector": {"matchLabels": {"b": "c"}}}})
    assert "spec.selector" in {cause.field for cause in caught.value.causes}


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        pytest.param("/api/v1/nothings", (), 404, id="a kind that is not served"),
        pytest.param("/api/v1/configmaps", (("labelSelector", "a in ("),), 400, id="a broken label selector"),
        pytest.param("/api/v1/configmaps", (("fieldSelector", "data.x=1"),), 400, id="a field that cannot be selected"),
        pytest.param("/api/v1/configmaps", (("continue", "abc"),), 400, id="a token that is none"),
        pytest.param("/api/v1/configmaps", (("resourceVersion", "99999999999"),), 504, id="a version from the future"),
        pytest.param("/api/v1/configmaps", (("resourceVersionMatch", "Exact"),), 422, id="a match without a version"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    world: World, path: str, query: tuple[tuple[str, str], ...], status: int
) -> None:
    answer = await world.raw("GET", path, *query)

    assert (answer.status, answer.body["kind"]) == (status, "Status")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param({"apiVersion": "apps/v1"}, "version", id="another version"),
        pytest.param({"metadata": {"name": "a", "namespace": "other"}}, "namespace", id="another namespace"),
    ],
)
async def test_a_body_that_contradicts_its_path_is_refused(world: World, body: dict[str, object], says: str) -> None:
    whole = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, **body}

    answer = await world.raw("POST", f"/api/v1/namespaces/{world.namespace}/configmaps", body=whole)
    assert answer.status == 400
    assert says in answer.body["message"]
