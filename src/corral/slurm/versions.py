"""Which API version we speak with a slurmrestd, and everything that differs between versions. The only place for it.

The server lists its own paths at /openapi/v3, without asking slurmctld. We take the highest version that both know and
remember which operations it has; what is missing there is Unsupported, with the command that does the same.

| what                        | found                                                    | used as                     |
|-----------------------------|----------------------------------------------------------|-----------------------------|
| numbers                     | 5, or {set, infinite, number}, by field and version      | one reader for all shapes   |
| ping                        | 41: mode; 42: responding, primary; 45: status            | responding: any of these    |
| ping of a dead slurmctld    | HTTP 200, at once; other calls take 9 s                  | asked first after a failure |
| nodes unchanged             | 304; also when the last node was deleted                 | unchanged; no mark in a     |
|                             |                                                          | look that is to be a proof  |
| nodes changed, partitions   | 24.11: HTTP 500, error -1                                | asked again without mark    |
| not                         |                                                          |                             |
| jobs unchanged              | HTTP 200 with an empty list and last_update 0            | unchanged, never "no jobs"  |
| last_update                 | the time of the answer, not of the last change           | update_time as it is: +1    |
|                             |                                                          | misses changes of a second  |
| jobs/state                  | job_id is text ("2_1": a task of an array), `state`      | compared with the last only |
| node/NAME that is not there | HTTP 200, error number 0                                 | NotFound                    |
| partition, reservation too  | 24.11: 422 or 200 with number 0; 26.05: an empty list    | NotFound                    |
| POST, DELETE of such a node | 24.11: 500 with 2018; 26.05: 422 with 2018               | NotFound                    |
| a busy node                 | 24.11: 500 with 2016; 26.05: 422 with 2016               | Busy                        |
| UNDRAIN of a node that is   | accepted; RESUME is refused with 2028 or 2180            | undrain; WrongState         |
| not drained                 |                                                          |                             |
| reservations                | 24.11: read only; 43 makes, 42 on 26.05 deletes          | by the server's list        |
| node topology               | given and taken from 44 on                               | None below                  |
| conf                        | from 45 on                                               | by the server's list        |
| reboot                      | in no version                                            | always scontrol             |
| accounting                  | absent when slurmrestd was started without it            | by the server's list        |
| an unknown path             | 404 without a word of JSON                               | negotiate again             |
| every error of 26.05        | sent twice on one connection, the second as plain text   | the first (`http.py`)       |
| partition state             | `partition.state` in all                                 | the same                    |
| shares                      | 41: plain numbers                                        | one reader for all shapes   |
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

KNOWN = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41")  # best first
_PATH = re.compile(r"/(slurm|slurmdb)/(v[0-9.]+)/(.*?)/?")


class Dialect(msgspec.Struct, frozen=True):
    """A version, and what this server can do in it: `get slurm nodes`, `post slurm node/{}`."""

    api: str
    operations: frozenset[str]

    def has(self, operation: str) -> bool:
        return operation in self.operations


def dialect(paths: Mapping[str, Iterable[str]]) -> Dialect | None:
    """The best that both know, from the server's paths and their methods; None when there is none in common."""
    operations: dict[str, set[str]] = {}
    for path, methods in paths.items():
        found = _PATH.fullmatch(path)
        if found is not None:
            area, api, rest = found.groups()
            shape = re.sub(r"\{[^}]*\}", "{}", rest)
            operations.setdefault(api, set()).update(f"{method} {area} {shape}" for method in methods)
    api = next((api for api in KNOWN if api in operations), None)
    return None if api is None else Dialect(api, frozenset(operations[api]))


def server_versions(paths: Iterable[str]) -> tuple[str, ...]:
    """What the server speaks, for the message that we have nothing in common."""
    return tuple(sorted({found.group(2) for path in paths if (found := _PATH.fullmatch(path))}))
