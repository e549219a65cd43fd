import pytest

from corral.kube import Client, Invalid, Resource, ServedResource
from corral.kube.transport import Request, Response
from tests.unit.kube.memory import DEPLOYMENTS, MemoryTransport, answer, refusal

JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True)
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)

OLD = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
            {"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1", "version": "v1"}]},
        ],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "resources": [{"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["get"], "shortNames": ["no"]}],
    },
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["get", "list"]},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": True, "verbs": ["get"]},
        ],
    },
}
AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {"name": "batch"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "jobs",
                            "responseKind": {"group": "batch", "version": "v1", "kind": "Job"},
                            "scope": "Namespaced",
                            "verbs": ["get"],
                            "categories": ["all"],
                            "subresources": [{"subresource": "status"}],
                        }
                    ],
                }
            ],
        }
    ],
}
NONE = {"kind": "APIGroupDiscoveryList", "items": []}


def client(served: dict[str, object]) -> tuple[Client, MemoryTransport]:
    async def reply(request: Request) -> Response:
        return answer(served[request.path]) if request.path in served else refusal(404, "NotFound")

    transport = MemoryTransport(reply)
    return Client(transport), transport


async def test_everything_is_asked_for_in_two_requests() -> None:
    it, transport = client({"/api": NONE, "/apis": AGGREGATED})

    assert await it.resources() == (
        ServedResource(JOBS, verbs=("get",), subresources=("status",), categories=("all",)),
    )
    assert len(transport.requests) == 2
    assert "as=APIGroupDiscoveryList" in transport.requests[0].accept


async def test_a_server_that_answers_in_the_old_way_is_asked_group_by_group() -> None:
    """The metrics server of this one is down; the rest is served all the same."""
    it, _ = client(OLD)

    assert await it.resources() == (
        ServedResource(NODES, verbs=("get",), short_names=("no",)),
        ServedResource(DEPLOYMENTS, verbs=("get", "list"), subresources=("scale",)),
    )


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (DEPLOYMENTS, True),
        (Resource("apps", "v2", "Deployment", "deployments", namespaced=True), False),
        (Resource("apps", "v1", "Daemon", "daemons", namespaced=True), False),
        (JOBS, False),
    ],
)
async def test_a_kind_is_served_or_not(resource: Resource, expected: bool) -> None:
    it, _ = client(OLD)

    assert await it.served(resource) is expected


@pytest.mark.parametrize(("minor", "number"), [("36", (1, 36)), ("33+", (1, 33))])
async def test_a_servers_version_can_be_compared(minor: str, number: tuple[int, int]) -> None:
    it, _ = client({"/version": {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}})

    assert (await it.server_version()).number == number


async def test_openapi_documents_come_as_they_are() -> None:
    where = "/openapi/v3/api/v1?hash=ABC"
    it, transport = client({"/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": where}}}, where[:18]: {"x": 1}})
    paths = await it.openapi_paths()

    assert await it.openapi(paths["api/v1"]) == b'{"x":1}'
    assert transport.requests[-1].query == (("hash", "ABC"),)


async def test_no_other_path_is_asked_for_as_a_document() -> None:
    it, transport = client({})

    with pytest.raises(Invalid):
        await it.openapi("/api/v1/secrets")
    assert transport.requests == []
