"""One cluster's slurmrestd, as verbs on values.

    client = SlurmClient("lab/slurm", transport, tokens, clock)
    listing = await client.nodes()
    await client.drain("gpu-3", "corral: scale-in")

Every verb has a deadline, raises only SlurmError, and is repeated after a failure only where a repeat is harmless (see
`corral.slurm.calls`). Nothing here remembers an answer: `corral.slurm.poller` does.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from corral.slurm import decode
from corral.slurm.answers import Envelope
from corral.slurm.calls import Call, Calls, Repeat
from corral.slurm.clock import Clock
from corral.slurm.errors import Garbled, NotFound, ServerError, Subject, Unsupported
from corral.slurm.hostlist import fold
from corral.slurm.tokens import Tokens
from corral.slurm.transport import Transport
from corral.slurm.values import (
    AccountingJob,
    Diag,
    Job,
    Listing,
    Mark,
    Node,
    NodeUpdate,
    Partition,
    Ping,
    Reservation,
    ReservationRequest,
    RunningConf,
    Server,
    Share,
)

LIST_WITHIN_S = 30.0  # 5,000 nodes take a second; a busy slurmctld lets one wait
ONE_WITHIN_S = 15.0
PING_WITHIN_S = 5.0
CONVERT_AT_ONCE_MAX = 500  # more than these become values in a thread

E = TypeVar("E", bound=Envelope)
W = TypeVar("W")
V = TypeVar("V")


class SlurmClient:
    def __init__(self, cluster: str, transport: Transport, tokens: Tokens, clock: Clock) -> None:
        self.cluster = cluster
        self._calls = Calls(cluster, transport, tokens, clock)

    def __repr__(self) -> str:
        return f"<SlurmClient of {self.cluster}>"

    async def server(self) -> Server:
        """API version and release of whom we speak to: of the last answer, or asked for now."""
        if self._calls.server is None:
            await self.ping()
        return self._calls.server or Server(api="")

    async def ping(self) -> tuple[Ping, ...]:
        """Which slurmctld answers slurmrestd. Quick even when none does."""
        answer = await self._read("ping", decode.PingAnswer, deadline_s=PING_WITHIN_S)
        return tuple(decode.ping(wire) for wire in self._given(answer.pings, "ping"))

    async def nodes(self, *, unless: Mark | None = None) -> Listing[Node] | None:
        """All nodes; None when nothing has changed since `unless`."""
        answer = await self._changed_nodes(unless)
        if answer is None:
            return None
        return Listing(
            items=await _converted(decode.node, self._given(answer.nodes, "nodes")),
            mark=decode.mark(answer.last_update),
        )

    async def jobs(self, *, unless: Mark | None = None) -> Listing[Job] | None:
        """All jobs that slurmctld remembers, ended ones for a while too; None when nothing has changed."""
        answer = await self._calls.answer(self._list("jobs", unless), decode.JobsAnswer)
        if answer is None:
            return None
        mark = decode.mark(answer.last_update)
        jobs = self._given(answer.jobs, "jobs")
        if unless is not None and mark is None and not jobs:
            return None  # an empty list that means "as before": not "no jobs"
        return Listing(items=await _converted(decode.job, jobs), mark=mark)

    async def job_states(self) -> Mapping[str, tuple[str, ...]]:
        """State by Slurm's name of the job (`17`, `18_4`): cheap, and enough to see that something changed."""
        answer = await self._read("jobs/state", decode.JobStatesAnswer, deadline_s=LIST_WITHIN_S)
        return decode.job_states(self._given(answer.jobs, "jobs/state"))

    async def node(self, name: str) -> Node:
        answer = await self._one("node", name, decode.NodesAnswer)
        return decode.node(self._only(answer.nodes, "node", name))

    async def job(self, job_id: int) -> Job:
        answer = await self._one("job", str(job_id), decode.JobsAnswer)
        return decode.job(self._only(answer.jobs, "job", str(job_id)))

    async def partitions(self) -> tuple[Partition, ...]:
        answer = await self._read("partitions", decode.PartitionsAnswer)
        return tuple(decode.partition(wire) for wire in self._given(answer.partitions, "partitions"))

    async def reservations(self) -> tuple[Reservation, ...]:
        answer = await self._read("reservations", decode.ReservationsAnswer)
        return tuple(decode.reservation(wire) for wire in self._given(answer.reservations, "reservations"))

    async def reservation(self, name: str) -> Reservation:
        answer = await self._one("reservation", name, decode.ReservationsAnswer)
        return decode.reservation(self._only(answer.reservations, "reservation", name))

    async def diag(self) -> Diag:
        return decode.diag((await self._read("diag", decode.DiagAnswer)).statistics)

    async def shares(self) -> tuple[Share, ...]:
        answer = await self._read("shares", decode.SharesAnswer, deadline_s=LIST_WITHIN_S)
        return tuple(decode.share(wire) for wire in answer.shares.shares or ())

    async def running_conf(self) -> RunningConf:
        """What slurmctld runs with. Only 26.05 tells; before it: `scontrol show config`."""
        return decode.running_conf(await self._read("conf", decode.ConfAnswer, instead=("scontrol", "show", "config")))

    async def accounting_jobs(
        self, *, since: datetime, until: datetime | None = None, user: str = "", node: str = ""
    ) -> tuple[AccountingJob, ...]:
        """Jobs of slurmdbd that existed between two moments."""
        wanted = {
            "start_time": str(int(since.timestamp())),
            "end_time": str(int(until.timestamp())) if until else "",
            "users": user,
            "node": node,
            "skip_steps": "true",
        }
        call = Call(
            subject=self._subject("list", "accounting jobs"),
            method="GET",
            area="slurmdb",
            path="jobs",
            query=tuple((name, value) for name, value in wanted.items() if value),
            deadline_s=LIST_WITHIN_S,
            instead=("sacct", "-X", "-P", "-S", since.strftime("%Y-%m-%dT%H:%M:%S")),
        )
        answer = await self._sure(call, decode.DbJobsAnswer)
        return await _converted(decode.accounting_job, self._given(answer.jobs, "accounting jobs"))

    async def drain(self, name: str, reason: str) -> None:
        """No new job comes to the node; those it has run on. `reason` is what people and we find there."""
        await self.update_node(name, NodeUpdate(state=("DRAIN",), reason=reason))

    async def undrain(self, name: str) -> None:
        """Lift a drain. Accepted by a node that has none."""
        await self.update_node(name, NodeUpdate(state=("UNDRAIN",)))

    async def resume(self, name: str) -> None:
        """Lift drain and down. WrongState from a node that is neither."""
        await self.update_node(name, NodeUpdate(state=("RESUME",)))

    async def reboot(self, name: str, reason: str, *, asap: bool = True) -> None:
        """No version of the API can: Unsupported, with the command that does it."""
        command = ("scontrol", "reboot", *(["ASAP"] if asap else []), "nextstate=RESUME", f"reason={reason}", name)
        raise Unsupported(self._subject("reboot", "node", name), "REST cannot reboot nodes", command=command)

    async def update_node(self, name: str, update: NodeUpdate) -> None:
        body = _node_body(update)
        repeatable = update.state in (None, ("DRAIN",))
        subject = self._subject("update", "node", name)
        if update.topology is not None and (await self.server()).api < "v0.0.44":
            command = ("scontrol", "update", f"nodename={name}", f"topology={update.topology}")
            raise Unsupported(subject, "this API version cannot set a topology", command=command)
        call = Call(
            subject=subject,
            method="POST",
            path="node/{}",
            name=name,
            body=msgspec.json.encode(body),
            repeat=Repeat.HARMLESS if repeatable else Repeat.UNSENT,
            deadline_s=ONE_WITHIN_S,
        )
        await self._sure(call, Envelope)

    async def delete_node(self, name: str) -> None:
        """Forget a dynamic node. Busy while it has jobs; NotFound when it is gone."""
        await self._sure(self._delete("node", name), Envelope)

    async def create_reservation(self, wanted: ReservationRequest) -> None:
        call = Call(
            subject=self._subject("create", "reservation", wanted.name),
            method="POST",
            path="reservation",
            body=msgspec.json.encode(_reservation_body(wanted)),
            repeat=Repeat.UNSENT,
            deadline_s=ONE_WITHIN_S,
            instead=reservation_command(wanted),
        )
        await self._sure(call, Envelope)

    async def narrow_reservation(self, name: str, nodes: Sequence[str]) -> None:
        """Leave it these nodes only. What is said of nothing else stays as it is, also when it has begun."""
        call = Call(
            subject=self._subject("update", "reservation", name),
            method="POST",
            path="reservation",
            body=msgspec.json.encode({"name": name, "node_list": nodes}),
            deadline_s=ONE_WITHIN_S,
            instead=("scontrol", "update", f"ReservationName={name}", f"Nodes={fold(nodes)}"),
        )
        await self._sure(call, Envelope)

    async def delete_reservation(self, name: str) -> None:
        instead = ("scontrol", "delete", f"ReservationName={name}")
        await self._sure(self._delete("reservation", name, instead), Envelope)

    async def reconfigure(self) -> None:
        """Make every daemon read its files. Says nothing of whether they liked them: read the configuration back."""
        call = Call(
            subject=self._subject("reconfigure", "slurmctld"),
            method="GET",
            path="reconfigure",
            repeat=Repeat.UNSENT,
            deadline_s=LIST_WITHIN_S,
        )
        await self._sure(call, Envelope)

    async def close(self) -> None:
        await self._calls.close()

    def _subject(self, verb: str, kind: str, name: str = "") -> Subject:
        return Subject(self.cluster, verb, kind, name)

    def _list(self, kind: str, unless: Mark | None) -> Call:
        query = (("update_time", str(unless.updated_s)),) if unless is not None else ()
        return Call(subject=self._subject("list", kind), method="GET", path=kind, query=query, deadline_s=LIST_WITHIN_S)

    def _delete(self, kind: str, name: str, instead: tuple[str, ...] = ()) -> Call:
        return Call(
            subject=self._subject("delete", kind, name),
            method="DELETE",
            path=kind + "/{}",
            name=name,
            repeat=Repeat.UNSENT,
            deadline_s=ONE_WITHIN_S,
            instead=instead,
        )

    async def _read(
        self, path: str, shape: type[E], *, deadline_s: float = ONE_WITHIN_S, instead: tuple[str, ...] = ()
    ) -> E:
        subject = self._subject("read", path)
        return await self._sure(
            Call(subject=subject, method="GET", path=path, deadline_s=deadline_s, instead=instead), shape
        )

    async def _one(self, kind: str, name: str, shape: type[E]) -> E:
        subject = self._subject("read", kind, name)
        return await self._sure(
            Call(subject=subject, method="GET", path=kind + "/{}", name=name, deadline_s=ONE_WITHIN_S), shape
        )

    def _given(self, found: list[W] | None, kind: str) -> list[W]:
        if found is None:
            raise Garbled(self._subject("list", kind), "expected a list, and there is none in the answer")
        return found

    def _only(self, found: Sequence[W] | None, kind: str, name: str) -> W:
        """26.05 answers an empty list without an error to a name that it does not know."""
        if not found:
            raise NotFound(self._subject("read", kind, name), "there is none of this name", status=200)
        return found[0]

    async def _changed_nodes(self, unless: Mark | None) -> decode.NodesAnswer | None:
        if unless is not None:
            try:
                marked = msgspec.structs.replace(self._list("nodes", unless), repeat=Repeat.UNSENT)
                return await self._calls.answer(marked, decode.NodesAnswer)
            except ServerError:
                pass  # how 24.11 answers when the nodes have changed and the partitions have not: ask for all
        return await self._calls.answer(self._list("nodes", None), decode.NodesAnswer)

    async def _sure(self, call: Call, shape: type[E]) -> E:
        answer = await self._calls.answer(call, shape)
        if answer is None:
            raise Garbled(call.subject, "HTTP 304 to a question that was not whether anything changed")
        return answer


async def _converted(convert: Callable[[W], V], wires: Sequence[W]) -> tuple[V, ...]:
    if len(wires) <= CONVERT_AT_ONCE_MAX:
        return tuple(convert(wire) for wire in wires)
    return await asyncio.to_thread(lambda: tuple(convert(wire) for wire in wires))


def _node_body(update: NodeUpdate) -> dict[str, object]:
    wanted: dict[str, object] = {
        "state": update.state,
        "reason": update.reason,
        "comment": update.comment,
        "extra": update.extra,
        "features": update.features,
        "features_act": update.active_features,
        "gres": update.gres,
        "topology_str": update.topology,
        "weight": None if update.weight is None else _set(update.weight),
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _reservation_body(wanted: ReservationRequest) -> dict[str, object]:
    body: dict[str, object] = {
        "name": wanted.name,
        "start_time": _set(int(wanted.start_at.timestamp())),
        "duration": _set(_duration_min(wanted)),
        "node_list": wanted.nodes,
        "users": wanted.users,
        "accounts": wanted.accounts,
        "flags": wanted.flags,
        "partition": wanted.partition,
        "comment": wanted.comment,
    }
    return {name: value for name, value in body.items() if value not in ((), "")}


def reservation_command(wanted: ReservationRequest) -> tuple[str, ...]:
    """The same with scontrol, for a REST that only reads."""
    given = {
        "ReservationName": wanted.name,
        "StartTime": wanted.start_at.astimezone().strftime("%Y-%m-%dT%H:%M:%S"),
        "Duration": str(_duration_min(wanted)),
        "Nodes": fold(wanted.nodes),
        "Users": ",".join(wanted.users),
        "Accounts": ",".join(wanted.accounts),
        "Flags": ",".join(wanted.flags),
        "PartitionName": wanted.partition,
        "Comment": wanted.comment,
    }
    return ("scontrol", "create", "reservation", *(f"{name}={value}" for name, value in given.items() if value))


def _duration_min(wanted: ReservationRequest) -> int:
    return max(1, round(wanted.duration.total_seconds() / 60))


def _set(number: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": number}
