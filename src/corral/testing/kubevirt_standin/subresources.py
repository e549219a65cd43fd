"""virt-api's part: the actions and the console that KubeVirt serves below machines and instances.

    Client(StandInApi(server.connect("person"), standin))

A way to the API server on which `subresources.kubevirt.io` is answered here, as its aggregation would have it answered
by virt-api; everything else passes.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from corral.kinds.wukong.api.kubevirt import VirtualMachine, VirtualMachineInstance
from corral.kinds.wukong.power import BY_HAND, SUBRESOURCES
from corral.kube.codec import error_of
from corral.kube.transport import Request, Response, Socket, Stream, Transport
from corral.testing.kubevirt_standin.access import Access
from corral.testing.kubevirt_standin.standin import KubeVirtStandIn

ROOT = f"/apis/{SUBRESOURCES}/v1/namespaces/"
GREETING = b"\r\nvm login: "


class StandInApi:
    """`Transport`. `runs`: whether virt-api is there to answer."""

    def __init__(self, behind: Transport, standin: KubeVirtStandIn) -> None:
        self._behind = behind
        self._access: Access = standin.access
        self._machines = standin.machines
        self.runs = True

    async def request(self, request: Request) -> Response:
        if not request.path.startswith(ROOT):
            return await self._behind.request(request)
        if not self.runs:
            return _refusal(503, "ServiceUnavailable", "no endpoints available for service virt-api")
        namespace, _kind, name, action = request.path.removeprefix(ROOT).split("/")
        if request.method == "GET":
            return self._told(name, action)
        options = msgspec.json.decode(request.body, type=dict[str, Any])
        return await self._act(namespace, name, action, options)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._behind.stream(request)

    @asynccontextmanager
    async def socket(self, request: Request, subprotocols: tuple[str, ...]) -> AsyncIterator[Socket]:
        namespace, _kind, name, action = request.path.removeprefix(ROOT).split("/")
        assert action == "console"
        instance = await self._access.find(VirtualMachineInstance, name, namespace)
        if instance is None:
            refused = _refusal(404, "NotFound", f"virtualmachineinstance {name} not found")
            raise error_of(request.subject, refused.status, refused.headers, refused.body)
        yield EchoConsole(subprotocols[0])

    async def close(self) -> None:
        await self._behind.close()

    def _told(self, name: str, what: str) -> Response:
        assert what == "filesystemlist", what
        if self._machines.is_agentless(name):
            return _refusal(409, "Conflict", "VMI does not have guest agent connected")
        body = {"items": self._machines.file_systems.get(name, [])}
        return Response(status=200, headers={}, body=msgspec.json.encode(body))

    async def _act(self, namespace: str, name: str, action: str, options: Mapping[str, Any]) -> Response:
        machine = await self._access.find(VirtualMachine, name, namespace)
        instance = await self._access.find(VirtualMachineInstance, name, namespace)
        if machine is None or (instance is None and action not in ("start", "stop")):
            return _refusal(404, "NotFound", f"virtualmachineinstances.kubevirt.io {name!r} not found")
        strategy = machine.spec.run_strategy or ""
        match action:
            case "start" if strategy in BY_HAND:
                self._machines.started.add(name)
            case "stop":
                self._machines.started.discard(name)
                if strategy not in ("Manual", "Halted"):
                    await self._access.patch(machine, {"spec": {"runStrategy": "Halted"}})
                if instance is not None and options.get("gracePeriod") == 0:
                    await self._access.delete(instance)
            case "restart" if instance is not None and strategy != "Halted":
                await self._access.delete(instance)
            case "pause" if instance is not None:
                self._machines.paused.add(name)
            case "unpause" if instance is not None:
                self._machines.paused.discard(name)
            case "freeze" | "unfreeze" if instance is not None and not self._machines.is_agentless(name):
                self._machines.freezes.append(action)
                status = {"fsFreezeStatus": "frozen" if action == "freeze" else ""}
                await self._access.set_status(instance, status, subresource=False)
            case "softreboot" if not self._machines.is_agentless(name):
                self._machines.soft_reboots.append(name)
            case _:
                return _refusal(409, "Conflict", f"{strategy} does not support manual {action} requests")
        return Response(status=202, headers={}, body=b"")


class EchoConsole:
    """A guest that greets and then says back what it is told."""

    def __init__(self, subprotocol: str) -> None:
        self.subprotocol = subprotocol
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._said.put_nowait(GREETING)

    async def send(self, message: bytes) -> None:
        self._said.put_nowait(message)

    async def receive(self) -> bytes | None:
        return await self._said.get()


def _refusal(status: int, reason: str, message: str) -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "code": status, "reason": reason, "message": message}
    return Response(status=status, headers={}, body=msgspec.json.encode(body))
