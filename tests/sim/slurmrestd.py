"""slurmrestd before the model: HTTP answers in the shapes and with the lies of the real one, under the real client.

nodes, unchanged since `update_time`      304; also after the last node was deleted
jobs, unchanged since `update_time`       200, an empty list and last_update 0
a node that is not there                  GET: 200 with error number 0; POST and DELETE: 422 with 2018
slurmctld is away                         ping answers at once, everything else after 9 s with an error
by chance (`RestFaults`)                  refused, hanging, slow, answer lost, 200 with errors, 500, not JSON
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from corral.engine.clock import VIRTUAL_EPOCH
from corral.slurm.errors import Unreachable
from corral.slurm.transport import Endpoint, Request, Response, Transport
from tests.sim.records import ALL, Record, Refused, Reservation
from tests.sim.slurmctld import Slurmctld

API: Final = "v0.0.45"
_EPOCH_S: Final = VIRTUAL_EPOCH.timestamp()
_PATHS: Final = {
    "nodes/": ("get",),
    "node/{node_name}": ("get", "post", "delete"),
    "jobs/": ("get",),
    "jobs/state/": ("get",),
    "partitions/": ("get",),
    "ping/": ("get",),
    "reservations/": ("get",),
    "reservation": ("post",),
    "reservation/{reservation_name}": ("get", "delete"),
}
AWAY_AFTER_S = 9.0


class RestFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Chances, for each request."""

    refuse_p: float = 0.0
    hang_p: float = 0.0
    slow_p: float = 0.0
    lose_answer_p: float = 0.0
    errors_in_200_p: float = 0.0
    server_error_p: float = 0.0
    garbled_p: float = 0.0


CALM: Final = RestFaults()
ROUGH_REST: Final = RestFaults(
    refuse_p=0.03,
    hang_p=0.01,
    slow_p=0.1,
    lose_answer_p=0.03,
    errors_in_200_p=0.03,
    server_error_p=0.02,
    garbled_p=0.01,
)


class Slurmrestd:
    """One for the cluster; every client has a connection of its own, under its name."""

    def __init__(self, slurmctld: Slurmctld, now_s: Callable[[], float], chance: Random) -> None:
        self.slurmctld, self._now_s, self._chance = slurmctld, now_s, chance
        self.faults = CALM
        self.up = True
        self.hangs = False
        self.shows_no_nodes = False  # a list of none, as if it were the truth
        self.asked: Counter[str] = Counter()  # by path
        self._scripted: list[tuple[str, int]] = []
        self.writes: list[tuple[str, str, str]] = []  # client, method, node: what was carried out
        self.looked: dict[tuple[str, str], float] = {}  # client and node: when it was asked for last
        self.on_request: Callable[[str, str, list[str], bytes], None] = lambda *_: None  # client, method, path, body
        self.before_write: Callable[[str, str, str, bytes], None] = lambda *_: None
        self.after_write: Callable[[str], None] = lambda _client: None

    def connect(self, client: str) -> Callable[[Endpoint], Transport]:
        return lambda _endpoint: _Connection(self, client)

    def fail_next(self, method: str, *, number: int) -> None:
        """The next such request is answered with 200 and an error of this number, and nothing is done."""
        self._scripted.append((method, number))

    async def answer(self, request: Request, client: str) -> Response:
        if not self.up or self._happens(self.faults.refuse_p):
            raise Unreachable(request.subject, "connection refused", sent=False)
        if self.hangs or self._happens(self.faults.hang_p):
            await asyncio.sleep(request.deadline_s)
            raise Unreachable(request.subject, "no answer in time")
        if self._happens(self.faults.slow_p):
            await asyncio.sleep(self._chance.uniform(0, min(8.0, request.deadline_s / 2)))
        if request.path == "/openapi/v3":
            return Response(status=200, body=_OPENAPI)
        path = request.path.removeprefix(f"/slurm/{API}/").strip("/")
        self.asked[path] += 1
        self.on_request(client, request.method, path.split("/"), request.body)
        if not self.slurmctld.up and path != "ping":
            await asyncio.sleep(min(AWAY_AFTER_S, request.deadline_s))
            return _refusal(500, 1001, "Unable to contact slurm controller (connect failure)")
        if self._happens(self.faults.server_error_p):
            return _refusal(500, -1, "Unspecified error")
        if self._happens(self.faults.errors_in_200_p):
            return _refusal(200, self._chance.choice((0, -1, 9000)), "something went wrong on the way")
        for scripted in self._scripted:
            if scripted[0] == request.method:
                self._scripted.remove(scripted)
                return _refusal(200, scripted[1], "something went wrong on the way")
        response = self._carried_out(request, path, client)
        await asyncio.sleep(0.003)
        if request.method != "GET" and self._happens(self.faults.lose_answer_p):
            raise Unreachable(request.subject, "connection reset by peer")
        if self._happens(self.faults.garbled_p):
            return Response(status=200, body=b"<html>gateway</html>")
        return response

    def _happens(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability

    def _carried_out(self, request: Request, path: str, client: str) -> Response:
        since_s = int(dict(request.query).get("update_time", 0)) - _EPOCH_S
        match request.method, path.split("/"):
            case "GET", ["ping"]:
                return _body(pings=[{"hostname": "slurm-controller-0", "responding": self.slurmctld.up}])
            case "GET", ["nodes"]:
                return self._nodes(since_s if request.query else None)
            case "GET", ["jobs", "state"]:
                states = [{"job_id": str(job.id), "state": [job.state]} for job in self.slurmctld.jobs.values()]
                return _body(jobs=states)
            case "GET", ["jobs"]:
                return self._jobs(since_s if request.query else None)
            case "GET", ["partitions"]:
                found = self.slurmctld.partitions.items()
                return _body(partitions=[_partition(name, state) for name, state in found], last_update=self._stamp())
            case "GET", ["node", name]:
                self.looked[client, name] = self._now_s()
                record = self.slurmctld.nodes.get(name)
                return _body(nodes=[self._node(record)]) if record else _refusal(200, 0, "no such node", nodes=[])
            case "POST" | "DELETE", ["node", name]:
                return self._write(request, name, client)
            case "GET", ["reservations"]:
                return _body(reservations=[_reservation(one) for one in self.slurmctld.reservations.values()])
            case "POST" | "DELETE", ["reservation", *rest]:
                return self._reserve(request, rest, client)
        return Response(status=404)

    def _write(self, request: Request, name: str, client: str) -> Response:
        self.before_write(client, request.method, name, request.body)
        self.writes.append((client, request.method, name))
        try:
            if request.method == "DELETE":
                self.slurmctld.delete(name, client)
            else:
                self._update(name, msgspec.json.decode(request.body), client)
        except Refused as no:
            return _refusal(422, no.number, no.text)
        self.after_write(client)
        return _body()

    def _reserve(self, request: Request, rest: list[str], client: str) -> Response:
        try:
            if request.method == "DELETE":
                self.slurmctld.unreserve(rest[0], client)
            else:
                self._reserve_or_narrow(msgspec.json.decode(request.body, type=_Wanted), client)
        except Refused as no:
            return _refusal(422, no.number, no.text)
        self.after_write(client)
        return _body()

    def _reserve_or_narrow(self, wanted: "_Wanted", client: str) -> None:
        if wanted.start_time is None or wanted.duration is None:
            self.slurmctld.narrow(wanted.name, wanted.node_list, client)
            return
        start_s = wanted.start_time.number - _EPOCH_S
        end_s = start_s + wanted.duration.number * 60
        self.slurmctld.reserve(Reservation(wanted.name, wanted.node_list, start_s, end_s), client)

    def _update(self, name: str, wanted: dict[str, object], client: str) -> None:
        match wanted.get("state"):
            case ["DRAIN"]:
                self.slurmctld.drain(name, str(wanted.get("reason", "")), client)
            case ["UNDRAIN"]:
                self.slurmctld.undrain(name, client)

    def _nodes(self, since_s: float | None) -> Response:
        records = () if self.shows_no_nodes else tuple(self.slurmctld.nodes.values())
        if since_s is not None and (not records or int(self.slurmctld.nodes_changed_s) < int(since_s)):
            return Response(status=304)
        return _body(nodes=[self._node(record) for record in records], last_update=self._stamp())

    def _jobs(self, since_s: float | None) -> Response:
        if since_s is not None and int(self.slurmctld.jobs_changed_s) < int(since_s):
            return _body(jobs=[], last_update=_number(0))
        return _body(
            jobs=[
                {
                    "job_id": job.id,
                    "job_state": [job.state],
                    "partition": job.partition,
                    "nodes": ",".join(job.nodes),
                    "start_time": _number(int(_EPOCH_S + job.start_s)) if job.nodes else _number(0),
                    "end_time": _number(int(_EPOCH_S + job.start_s + job.runs_s)) if job.nodes else _number(0),
                    "time_limit": _number(int(job.runs_s // 60) + 1),
                }
                for job in self.slurmctld.jobs.values()
            ],
            last_update=self._stamp(),
        )

    def _node(self, record: Record) -> dict[str, object]:
        return {
            "name": record.name,
            "state": self.slurmctld.words(record),
            "reason": record.reason,
            "reason_set_by_user": record.reason_by,
            "reason_changed_at": _number(int(_EPOCH_S + record.reason_s)),
            "cpus": record.cpus,
            "features": list(record.features),
            "active_features": list(record.features),
            "partitions": [name for name in self.slurmctld.partitions if name == ALL or name in record.features],
            "slurmd_start_time": _number(int(_EPOCH_S + record.started_s) if record.started_s is not None else 0),
        }

    def _stamp(self) -> dict[str, object]:
        return _number(int(_EPOCH_S + self._now_s()))


class _Connection:
    def __init__(self, restd: Slurmrestd, client: str) -> None:
        self._restd, self._client = restd, client

    async def request(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(request.deadline_s):
                return await self._restd.answer(request, self._client)
        except TimeoutError:
            raise Unreachable(request.subject, "no answer in time") from None

    async def close(self) -> None:
        return None


class _Number(msgspec.Struct):
    number: int


class _Wanted(msgspec.Struct):
    name: str
    node_list: tuple[str, ...]
    start_time: _Number | None = None
    duration: _Number | None = None


def _reservation(one: Reservation) -> dict[str, object]:
    times = {"start_time": _number(int(_EPOCH_S + one.start_s)), "end_time": _number(int(_EPOCH_S + one.end_s))}
    return {"name": one.name, "node_list": ",".join(one.nodes), "flags": ["MAINT"], **times}


def _partition(name: str, state: str) -> dict[str, object]:
    return {"name": name, "node_sets": "ALL" if name == ALL else name, "partition": {"state": [state]}}


def _number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


def _body(status: int = 200, **content: object) -> Response:
    meta = {"slurm": {"release": "26.05.5", "cluster": "slurm"}}
    return Response(status=status, body=msgspec.json.encode({"meta": meta, "errors": [], **content}))


def _refusal(status: int, number: int, text: str, **content: object) -> Response:
    return _body(status, errors=[{"description": text, "error_number": number, "error": text}], **content)


_OPENAPI: Final = msgspec.json.encode(
    {"paths": {f"/slurm/{API}/{path}": {method: {} for method in methods} for path, methods in _PATHS.items()}}
)
