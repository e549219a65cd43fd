"""What the contract tests hold in their hands: one server, fake or real, a namespace of their own, and a few kinds.

A test that uses only this runs against both servers. Where they disagree the real one is right.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec

from corral.kube.client import Bookmark, Client, Gone, Put
from corral.kube.errors import NotFound, Subject
from corral.kube.meta import Resource
from corral.kube.selection import Precondition, Propagation, Selector
from corral.kube.transport import Request, Transport
from corral.kube.unstructured import Unstructured, untyped

CONFIG_MAP: Final = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
NAMESPACE: Final = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
POD: Final = Resource("", "v1", "Pod", "pods", namespaced=True)
SERVICE_ACCOUNT: Final = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
SECRET: Final = Resource("", "v1", "Secret", "secrets", namespaced=True)
DEPLOYMENT: Final = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
BUDGET: Final = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)
PLAYTHING: Final = Resource("contract.corral.dev", "v1", "Plaything", "playthings", namespaced=True)
DEFINITION: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)

WITHIN_S: Final = 30.0
ANYTHING: Final = Precondition()

_OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NAMED_PARTS: Final = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {**_OPEN, "required": ["name"], "properties": {"name": {"type": "string"}}},
}
_CONDITIONS: Final = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {**_OPEN, "required": ["type"], "properties": {"type": {"type": "string"}}},
}
PLAYTHING_DEFINITION: Final[Mapping[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "playthings.contract.corral.dev"},
    "spec": {
        "group": "contract.corral.dev",
        "scope": "Namespaced",
        "names": {"kind": "Plaything", "plural": "playthings", "singular": "plaything", "listKind": "PlaythingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                **_OPEN,
                                "properties": {
                                    "replicas": {"type": "integer"},
                                    "parts": _NAMED_PARTS,
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "words": {"type": "array", "items": {"type": "string"}},
                                },
                            },
                            "status": {**_OPEN, "properties": {"conditions": _CONDITIONS}},
                        },
                    }
                },
            }
        ],
    },
}


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: Any


class World:
    """See the module's docstring. `me` is the field manager of its writes, unless another is named."""

    me = "contract-test"

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        self.client = Client(transport)
        self.namespace = namespace
        self.here = Selector(namespace=namespace)
        self.ours = Selector(namespace=namespace, fields="metadata.name!=kube-root-ca.crt")  # the cluster's own

    # --- objects

    def thing(self, resource: Resource, name: str, **content: Any) -> Unstructured:
        """`metadata=` adds to the name and the namespace."""
        where = {"namespace": self.namespace} if resource.namespaced else {}
        metadata = {"name": name, **where, **content.pop("metadata", {})}
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return untyped(resource)(content={**head, **content})

    def config_map(self, name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> Unstructured:
        return self.thing(CONFIG_MAP, name, data=data or {"a": "1"}, metadata=metadata)

    def secret(self, name: str, **metadata: Any) -> Unstructured:
        """The kind of which nobody else makes any in a new namespace."""
        return self.thing(SECRET, name, metadata=metadata)

    def plaything(self, name: str, spec: Mapping[str, Any] | None = None, **metadata: Any) -> Unstructured:
        return self.thing(PLAYTHING, name, metadata=metadata, **({"spec": spec} if spec is not None else {}))

    def pod(self, name: str, **metadata: Any) -> Unstructured:
        """It is never scheduled, so nobody but the test touches it."""
        spec = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "nobody"}
        return self.thing(POD, name, spec=spec, metadata=metadata)

    # --- verbs, with what all these tests have in common filled in

    async def create(self, obj: Unstructured, *, dry_run: bool = False) -> Unstructured:
        return await self.client.create(obj, field_manager=self.me, dry_run=dry_run)

    async def apply(
        self,
        obj: Unstructured,
        manager: str = me,
        *,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Unstructured:
        return await self.client.apply(
            obj, field_manager=manager, force=force, subresource=subresource, dry_run=dry_run
        )

    async def get(self, resource: Resource, name: str) -> Unstructured:
        return await self.client.get(untyped(resource), name, self._in(resource))

    async def merge(
        self,
        obj: Unstructured,
        change: Mapping[str, Any],
        *,
        precondition: Precondition = ANYTHING,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Unstructured:
        return await self.client.patch(
            type(obj),
            obj.metadata.name,
            obj.metadata.namespace,
            merge=change,
            precondition=precondition,
            field_manager=self.me,
            subresource=subresource,
            dry_run=dry_run,
        )

    async def json_patch(self, obj: Unstructured, *operations: Mapping[str, Any]) -> Unstructured:
        return await self.client.patch(
            type(obj),
            obj.metadata.name,
            obj.metadata.namespace,
            json=operations,
            precondition=ANYTHING,
            field_manager=self.me,
        )

    async def delete(
        self,
        obj: Unstructured,
        *,
        precondition: Precondition = ANYTHING,
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> Unstructured | None:
        return await self.client.delete(
            type(obj),
            obj.metadata.name,
            obj.metadata.namespace,
            precondition=precondition,
            propagation=propagation,
            dry_run=dry_run,
        )

    async def raw(
        self,
        method: str,
        path: str,
        *query: tuple[str, str],
        body: object = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Past the client, for what it does not show or would not send."""
        sent = msgspec.json.encode(body) if body is not None else b""
        request = Request(
            subject=Subject(method.lower(), path),
            method=method,
            path=path,
            query=query,
            body=sent,
            content_type=content_type if sent else "",
        )
        response = await self.transport.request(request)
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return Answer(response.status, msgspec.json.decode(response.body) if is_json else response.body.decode())

    # --- waiting

    async def until_served(self, resource: Resource) -> None:
        """A definition is accepted at once, and served a moment later. The server's own pace is the pause."""
        async with asyncio.timeout(WITHIN_S):
            while (await self.raw("GET", resource.path(self.namespace))).status != 200:
                pass

    async def events(
        self,
        resource: Resource,
        count: int,
        *,
        since: str = "",
        initial_list: bool = False,
        where: Selector | None = None,
    ) -> list[tuple[str, str, str]]:
        """The first `count` events of a watch: what, which object, its version. Bookmarks only with `initial_list`."""
        found: list[tuple[str, str, str]] = []
        watch = self.client.watch(
            untyped(resource), where or self.ours, resource_version=since, initial_list=initial_list
        )
        async with asyncio.timeout(WITHIN_S), aclosing(watch):
            async for event in watch:
                match event:
                    case Put(obj, what):
                        found.append((what, obj.metadata.name, obj.metadata.resource_version))
                    case Gone(obj):
                        found.append(("DELETED", obj.metadata.name, obj.metadata.resource_version))
                    case Bookmark() if initial_list:
                        found.append(("END" if event.initial_list_ends else "BOOKMARK", "", event.resource_version))
                if len(found) == count:
                    return found
        raise AssertionError(f"the watch ended after {found}")

    async def until_gone(self, obj: Unstructured) -> None:
        """Wait for others (the garbage collector) to be done with an object."""
        page = await self.client.list_page(type(obj), Selector(obj.metadata.namespace), limit=0)
        try:
            found = await self.client.get(type(obj), obj.metadata.name, obj.metadata.namespace)
        except NotFound:
            return
        if found.metadata.uid != obj.metadata.uid:
            return
        watch = self.client.watch(type(obj), Selector(obj.metadata.namespace), resource_version=page.resource_version)
        async with asyncio.timeout(WITHIN_S), aclosing(watch):
            async for event in watch:
                if isinstance(event, Gone) and event.object.metadata.uid == obj.metadata.uid:
                    return
        raise AssertionError(f"{obj.metadata.name} is still there")

    def _in(self, resource: Resource) -> str:
        return self.namespace if resource.namespaced else ""


def owned_by(owner: Unstructured, *, blocks: bool = False) -> dict[str, Any]:
    """metadata of a dependent."""
    reference: dict[str, Any] = {
        "apiVersion": owner.resource.api_version,
        "kind": owner.resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        **({"blockOwnerDeletion": True} if blocks else {}),
    }
    return {"ownerReferences": [reference]}


def managers(obj: Unstructured) -> list[tuple[object, object, object]]:
    """Who owns fields of it, how, and through which subresource; sorted."""
    entries = obj.get("metadata", "managedFields", default=())
    assert isinstance(entries, tuple)
    return sorted((each["manager"], each["operation"], each.get("subresource", "")) for each in entries)
