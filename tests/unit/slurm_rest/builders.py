"""A slurmrestd that is a dictionary, and values with defaults, so that a test shows only what matters in it."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from corral.engine.clock import Clock, virtual_clock
from corral.slurm.errors import Unreachable
from corral.slurm.rest import SlurmClient
from corral.slurm.tokens import Static, Token, TokenIssuer, Tokens
from corral.slurm.transport import Request, Response

NEVER = 10_000.0
PATHS_24_11 = {
    "nodes/": ("get",),
    "node/{node_name}": ("get", "post", "delete"),
    "jobs/": ("get",),
    "jobs/state/": ("get",),
    "job/{job_id}": ("get",),
    "ping/": ("get",),
    "partitions/": ("get",),
    "reservations/": ("get",),
    "reservation/{name}": ("get",),
    "reconfigure/": ("get",),
    "diag/": ("get",),
    "shares": ("get",),
}
PATHS_26_05 = {**PATHS_24_11, "reservation": ("post",), "reservation/{name}": ("get", "delete"), "conf": ("get",)}

Answer = Response | Exception | float  # a float: silence for so many seconds, or to the deadline


def number(value: float, *, infinite: bool = False) -> dict[str, object]:
    return {"set": not infinite, "infinite": infinite, "number": value}


def paths(api: str, known: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    return {"paths": {f"/slurm/{api}/{path}": {method: {} for method in methods} for path, methods in known.items()}}


def body(status: int = 200, /, **content: object) -> Response:
    meta = {"slurm": {"release": "24.11.5", "cluster": "lab"}}
    return Response(status=status, body=msgspec.json.encode({"meta": meta, "errors": [], **content}))


def refused(status: int, error_number: int, text: str = "no") -> Response:
    return body(status, errors=[{"description": text, "error_number": error_number, "error": "e", "source": "s"}])


def nodes(*items: Mapping[str, object], at: int = 100) -> Response:
    return body(nodes=list(items), last_update=number(at))


def jobs(*items: Mapping[str, object], at: int = 100) -> Response:
    return body(jobs=list(items), last_update=number(at))


def a_node(name: str = "w-0", *state: str, **fields: object) -> dict[str, object]:
    return {"name": name, "state": list(state or ("IDLE",)), **fields}


def a_job(job_id: int, *state: str, **fields: object) -> dict[str, object]:
    return {"job_id": job_id, "job_state": list(state or ("RUNNING",)), **fields}


class FakeRest:
    """Answers each path with the next of its list, and with the last for ever. Paths without the version."""

    def __init__(self, api: str = "v0.0.42", known: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.api = api
        self.known = dict(known or PATHS_24_11)
        self.requests: list[Request] = []
        self.answers: dict[str, list[Answer]] = {"ping": [body(pings=[{"hostname": "c", "responding": True}])]}
        self.closed = False

    def answer(self, path: str, *answers: Answer) -> None:
        self.answers[path] = list(answers)

    def asked(self, path: str = "") -> list[Request]:
        return [request for request in self.requests if request.path.endswith(path) and "openapi" not in request.path]

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if request.path == "/openapi/v3":
            return Response(status=200, body=msgspec.json.encode(paths(self.api, self.known)))
        prefix = f"/slurm/{self.api}/"
        if not request.path.startswith(prefix):
            return Response(status=404, body=b"no such path")
        waiting = self.answers.get(request.path.removeprefix(prefix), [Response(status=404, body=b"no such path")])
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, float):
            await asyncio.sleep(min(answer, request.deadline_s))
            raise Unreachable(request.subject, "no answer in time")
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


class CountingIssuer:
    """Tokens t1, t2, ... of one minute; fails while `trouble` is set; takes `takes_s`."""

    def __init__(self, *, takes_s: float = 0.0) -> None:
        self.identity = "counting"
        self.issued = 0
        self.takes_s = takes_s
        self.trouble: Exception | None = None

    async def issue(self, now: datetime) -> Token:
        await asyncio.sleep(self.takes_s)
        if self.trouble is not None:
            raise self.trouble
        self.issued += 1
        return Token(f"t{self.issued}", now, now + timedelta(seconds=60))


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJzbHVybSJ9.c2lnbmF0dXJl"


def a_client(rest: FakeRest, issuer: TokenIssuer | None = None, clock: Clock | None = None) -> SlurmClient:
    clock = clock or virtual_clock()
    return SlurmClient("lab/slurm", rest, Tokens(issuer or Static(JWT), clock), clock)
