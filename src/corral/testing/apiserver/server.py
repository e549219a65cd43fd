"""The fake API server: storage, verbs and faults put together, and the handles by which a test holds it.

It runs in the test's own event loop, without sockets or threads, and takes its time from that loop: under virtual time
hours pass in milliseconds. Two servers with the same seed and the same requests behave the same, to the byte.

    server = FakeApiServer(seed=7)
    client = Client(server.connect("operator"))
    server.fail_next(Fault.LOSE_ANSWER, method="POST", resource="pods")

`trace` has a line for each request and each step of the world; print it with the seed of a run that failed.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

import msgspec

from corral.kube.meta import Object, Resource
from corral.kube.transport import Request, Response
from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import Propagation
from corral.testing.apiserver.answers import Json, Rejection
from corral.testing.apiserver.builtin import BUILT_IN
from corral.testing.apiserver.connection import Connection, WatchStream
from corral.testing.apiserver.discovery import describe
from corral.testing.apiserver.dispatch import answer
from corral.testing.apiserver.faults import NONE, Chance, Fate, Fault, Faults, Scripted
from corral.testing.apiserver.garbage import collect_all
from corral.testing.apiserver.kinds import (
    Grace,
    Kinds,
    Prepare,
    Scale,
    Served,
    Validate,
    anything_goes,
    at_once,
    custom,
)
from corral.testing.apiserver.lists import Event, check_watch
from corral.testing.apiserver.objects import Objects, Options
from corral.testing.apiserver.routes import list_query, parse
from corral.testing.apiserver.storage import Change, Snapshot, Storage
from corral.testing.apiserver.topology import Topology
from corral.testing.apiserver.watches import Watch, line

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)  # when the loop's clock shows 0


class FakeApiServer:
    def __init__(
        self,
        *,
        seed: int = 0,
        faults: Faults = NONE,
        namespaces: Iterable[str] = ("default",),
        garbage_delay_s: float | None = 0.1,  # None: only `collect_garbage` collects
        epoch: datetime = EPOCH,
    ) -> None:
        self.faults = faults
        self.chance = Chance(seed)
        self.kinds = Kinds(BUILT_IN)
        self.storage = Storage()
        self.objects = Objects(self.kinds, self.storage, Random(f"{seed} names"), self.now)  # noqa: S311
        self.trace: list[str] = []
        self.streams: dict[WatchStream, None] = {}  # a set that keeps its order
        self._epoch = epoch
        self._now_s = 0.0
        self._scripted: list[Scripted] = []
        self._down_until_s = 0.0
        self._running = asyncio.Event()
        self._running.set()
        self._changed = asyncio.Event()
        self._garbage_delay_s = garbage_delay_s
        self._garbage_pass: asyncio.TimerHandle | None = None
        for name in namespaces:
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.storage.listen(self._on_change)

    # --- time

    def now_s(self) -> float:
        with suppress(RuntimeError):  # a test may prepare the world before the loop runs
            self._now_s = asyncio.get_running_loop().time()
        return self._now_s

    def now(self) -> datetime:
        return self._epoch + timedelta(seconds=self.now_s())

    # --- clients

    def connect(self, client: str = "") -> Connection:
        return Connection(self, client)

    # --- the world, as a test or a stand-in for another controller changes it: no faults, no permission asked

    def register(
        self,
        kind: Resource | type[Object],
        *,
        status: bool = True,
        scale: Scale | None = None,
        validate: Validate = anything_goes,
        topology: Topology | None = None,
        fields: Iterable[str] = (),
    ) -> None:
        """Serve a custom kind. Creating its CustomResourceDefinition does the same."""
        resource = resource_of(kind)
        self.kinds.add(
            custom(resource, status=status, scale=scale, validate=validate, topology=topology, fields=fields)
        )

    def unregister(self, kind: Resource | type[Object], *, ends_watches: bool = True) -> None:
        """Serve it no longer, as after its definition was deleted: its objects go, and its watches end, or may."""
        served = self.served(kind)
        for obj in self.all_of(kind):
            self.objects.delete(served, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self.kinds.remove(served)
        if ends_watches:
            self.drop_watches()

    def extend(self, kind: Resource | type[Object], *, grace: Grace = at_once, prepare: Prepare | None = None) -> None:
        """Change how a kind behaves: a pretended kubelet gives pods their grace, and ends them with grace 0."""
        found = self.served(kind)
        self.kinds.add(msgspec.structs.replace(found, grace=grace, prepare=prepare or found.prepare))

    def served(self, kind: Resource | type[Object]) -> Served:
        resource = resource_of(kind)
        found = self.kinds.find(resource.group, resource.version, resource.plural)
        if found is None:
            raise LookupError(f"the fake server does not serve {resource.plural_and_group}: register it first")
        return found

    def add(self, manifest: Json, *, manager: str = "test") -> Json:
        """Create what a manifest says. Its status, if any, is written too."""
        found = self.kinds.of_kind(manifest["apiVersion"], manifest["kind"])
        if found is None:
            raise LookupError(f"the fake server does not serve {manifest['apiVersion']} {manifest['kind']}")
        namespace = manifest["metadata"].get("namespace", "") or ("default" if found.resource.namespaced else "")
        stored = self.objects.create(found, namespace, manifest, Options(manager=manager))
        if found.status and manifest.get("status"):
            options = Options(manager=manager, subresource="status")
            name = stored["metadata"]["name"]
            stored = self.objects.merge(found, namespace, name, {"status": manifest["status"]}, options)
        return stored

    def get(self, kind: Resource | type[Object], name: str, namespace: str = "") -> Json | None:
        served = self.served(kind)
        return self.objects.get(served, namespace, name) if self.objects.exists(served, namespace, name) else None

    def all_of(self, kind: Resource | type[Object], namespace: str = "") -> list[Json]:
        return [value for _, value in self.storage.scan(resource_of(kind).plural_and_group, namespace)]

    def edit(
        self,
        kind: Resource | type[Object],
        name: str,
        namespace: str = "",
        *,
        merge: Json,
        manager: str = "test",
        subresource: str = "",
    ) -> Json:
        options = Options(manager=manager, subresource=subresource)
        return self.objects.merge(self.served(kind), namespace, name, merge, options)

    def remove(
        self,
        kind: Resource | type[Object],
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation = "",
        grace_s: int | None = None,
    ) -> None:
        self.objects.delete(self.served(kind), namespace, name, propagation=propagation, grace_s=grace_s)

    def collect_garbage(self) -> None:
        collect_all(self.objects)

    # --- faults on demand

    def fail_next(
        self,
        fault: Fault,
        *,
        method: str = "",
        resource: str = "",
        name: str = "",
        client: str = "",
        watch: bool | None = None,
        times: int = 1,
    ) -> None:
        if resource and self.kinds.of_storage(resource) is None:
            raise ValueError(f"no request can match {resource}: give a plural and group that is served")
        self._scripted.append(
            Scripted(fault=fault, method=method, resource=resource, name=name, client=client, watch=watch, times=times)
        )

    @property
    def is_out_of_faults(self) -> bool:
        """Whether everything that `fail_next` asked for has happened."""
        return not self._scripted

    def restart(self, down_s: float = 0.0) -> None:
        """Break every watch, and refuse connections for a while."""
        self.note("", f"RESTART, away for {down_s:.3f} s")
        self._down_until_s = self.now_s() + down_s
        self.drop_watches()

    def drop_watches(self, client: str | None = None, *, of: Resource | type[Object] | None = None) -> None:
        for stream in self._streams_of(client, of):
            stream.break_off()

    def stall_watches(self, client: str | None = None, *, of: Resource | type[Object] | None = None) -> None:
        """Half-open connections: the open watches get nothing more and are not closed."""
        for stream in self._streams_of(client, of):
            stream.stall()

    def pause(self) -> None:
        """Stopped, as by a debugger: connections stay, nothing is answered or sent until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()
        self.wake()

    def compact(self) -> None:
        """Forget all history: who resumes from an older version gets 410."""
        self.note("", f"COMPACT at {self.storage.version}")
        for stream in self.streams:
            stream.catch_up()
        self.storage.compact(self.storage.version)

    def snapshot(self) -> Snapshot:
        return self.storage.snapshot()

    def restore(self, snapshot: Snapshot, *, down_s: float = 0.0) -> None:
        """An etcd restore: the past is the present again, and versions are given out a second time."""
        self.note("", f"RESTORE from {self.storage.version} to {snapshot.version}")
        self.storage.restore(snapshot)
        self.restart(down_s)

    def stop_faults(self) -> None:
        """From now on everything works: what is left must converge."""
        self.faults = NONE
        self._scripted.clear()
        self._down_until_s = 0.0
        self.resume()

    # --- what a connection asks for

    @property
    def is_down(self) -> bool:
        return self.now_s() < self._down_until_s

    @property
    def is_paused(self) -> bool:
        return not self._running.is_set()

    async def passable(self, is_cut: Callable[[], bool]) -> None:
        while is_cut() or self.is_paused:
            self._changed.clear()
            await self._changed.wait()

    def fate_of(self, request: Request, client: str) -> Fate:
        try:
            call = parse(request, self.kinds)
        except Rejection:
            return Fate()
        for position, scripted in enumerate(self._scripted):
            if scripted.matches(call, client):
                self._scripted[position : position + 1] = (
                    [msgspec.structs.replace(scripted, times=scripted.times - 1)] if scripted.times > 1 else []
                )
                slow_s = self.faults.slow_s_max if scripted.fault is Fault.SLOW else 0.0
                return Fate(fault=scripted.fault, after_s=slow_s, retry_after_s=self.faults.retry_after_s)
        return self.chance.request_fate(self.faults, call)

    def carry_out(self, request: Request, fate: Fate, client: str) -> Response:
        """One request, in one step that nothing can interrupt."""
        response = self._respond(request, fate)
        if fate.compact:
            self.compact()
        fault = f" [{fate.fault.name}]" if fate.fault else ""
        what = f"{request.method} {request.path}{shown(request.query)}"
        self.note(client, f"{what} -> {response.status} v{self.storage.version}{fault}")
        return response

    def open_watch(self, request: Request, fate: Fate, client: str) -> tuple[Response, Watch | None]:
        self.note(
            client, f"WATCH {request.path}{shown(request.query)}" + (f" [{fate.fault.name}]" if fate.fault else "")
        )
        try:
            if refusal := refusal_by(fate):
                raise refusal
            call = parse(request, self.kinds)
            if not call.is_watch:
                return self._respond(request, fate), None
            query = list_query(call)
            check_watch(query)
            if fate.fault is Fault.EXPIRE_IN_STREAM:
                rejection = answers.too_old(int(query.version or 0), self.storage.version)
                return ok(line(Event("ERROR", rejection.body()))), None
            return ok(b""), Watch(self.storage, query, self.now_s())
        except Rejection as rejection:
            return refused(rejection), None

    def wake(self) -> None:
        self._changed.set()
        for stream in self.streams:
            stream.wake()

    def stop_collecting(self) -> None:
        if self._garbage_pass:
            self._garbage_pass.cancel()
            self._garbage_pass = None

    def note(self, client: str, text: str) -> None:
        self.trace.append(f"{self.now_s():10.3f} {client or '-'} {text}")

    # --- inside

    def _respond(self, request: Request, fate: Fate) -> Response:
        try:
            if refusal := refusal_by(fate):
                raise refusal
            if (said := describe(request.path, self.kinds)) is not None:
                return ok(msgspec.json.encode(said))
            status, value = answer(self.objects, parse(request, self.kinds))
        except Rejection as rejection:
            return refused(rejection)
        body = b"\x00not json" if fate.fault is Fault.GARBLE else msgspec.json.encode(value)
        return Response(status=status, headers={"content-type": "application/json"}, body=body)

    def _on_change(self, change: Change) -> None:
        self.wake()
        if self._garbage_delay_s is None or self._garbage_pass is not None or not may_leave_garbage(change):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._garbage_pass = loop.call_later(self._garbage_delay_s, self._collect)

    def _collect(self) -> None:
        self._garbage_pass = None
        before = self.storage.version
        self.collect_garbage()
        self.stop_collecting()  # what collecting itself asked for is done already
        if self.storage.version != before:
            self.note("", f"garbage collected, v{self.storage.version}")

    def _streams_of(self, client: str | None, of: Resource | type[Object] | None = None) -> list[WatchStream]:
        resource = None if of is None else resource_of(of)
        return [
            stream for stream in self.streams if client in (None, stream.client) and resource in (None, stream.resource)
        ]


def resource_of(kind: Resource | type[Object]) -> Resource:
    return kind if isinstance(kind, Resource) else kind.resource


def may_leave_garbage(change: Change) -> bool:
    if change.after is None:
        return True
    metadata = change.after["metadata"]
    return "deletionTimestamp" in metadata or (change.before is None and bool(metadata.get("ownerReferences")))


def refusal_by(fate: Fate) -> Rejection | None:
    match fate.fault:
        case Fault.CONFLICT:
            return Rejection(409, "Conflict", f"Operation cannot be fulfilled: {answers.STALE}")
        case Fault.THROTTLE:
            return answers.too_many_requests(fate.retry_after_s)
        case Fault.SERVER_ERROR:
            return answers.internal_error("etcdserver: request timed out")
        case Fault.UNAVAILABLE:
            return Rejection(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        case Fault.TIMEOUT:
            return Rejection(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
        case Fault.UNAUTHORIZED:
            return Rejection(401, "Unauthorized", "Unauthorized")
        case Fault.FORBID:
            return Rejection(403, "Forbidden", 'forbidden: User "test" cannot do this')
        case Fault.EXPIRE:
            return answers.expired("too old resource version")
        case _:
            return None


def ok(body: bytes) -> Response:
    return Response(status=200, headers={"content-type": "application/json"}, body=body)


def refused(rejection: Rejection) -> Response:
    if isinstance(rejection, answers.NoSuchPage):
        return Response(status=404, headers={"content-type": "text/plain"}, body=rejection.TEXT)
    headers = {"content-type": "application/json"}
    if rejection.retry_after_s is not None:
        headers["retry-after"] = str(rejection.retry_after_s)
    return Response(status=rejection.status, headers=headers, body=msgspec.json.encode(rejection.body()))


def shown(query: tuple[tuple[str, str], ...]) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in query) if query else ""
