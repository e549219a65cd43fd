"""Requests of one program, read from the API server's audit log while it grows."""

import json
from pathlib import Path

import pytest

from bench.audit import AuditLog, Sent


def line(agent: str, verb: str = "create", **about: str) -> str:
    said = {
        "kind": "Event",
        "stage": "ResponseComplete",
        "verb": verb,
        "userAgent": f"corral/0.1.0 ({agent})",
        "stageTimestamp": "1970-01-01T00:01:00.500000Z",
        "responseStatus": {"code": 201},
        "objectRef": about,
    }
    return json.dumps(said) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "audit.log"
    file.touch()
    return file


def test_only_the_requests_of_the_program_are_told_and_each_once(path: Path) -> None:
    path.write_text(line("ours", resource="long ago"))
    with AuditLog(path, "ours") as log, path.open("a") as file:
        file.write(line("ours", resource="pods") + line("theirs", resource="pods"))
        file.flush()

        assert log.news() == [Sent(60.5, "create", "pods", "", 201)]
        assert log.news() == []


def test_a_line_that_is_half_written_is_told_when_it_is_whole(path: Path) -> None:
    whole = line("ours", resource="pods", subresource="status")
    with AuditLog(path, "ours") as log, path.open("a", buffering=1) as file:
        file.write(whole[:40])
        file.flush()
        assert log.news() == []
        file.write(whole[40:])

        assert log.news() == [Sent(60.5, "create", "pods", "status", 201)]


def test_a_log_that_was_put_aside_is_read_to_its_end_and_then_the_new_one(path: Path) -> None:
    with AuditLog(path, "ours") as log:
        path.write_text(line("ours", resource="pods"))
        path.rename(path.with_name("audit-before.log"))
        path.write_text(line("ours", resource="events"))

        assert [one.resource for one in (*log.news(), *log.news())] == ["pods", "events"]


@pytest.mark.parametrize(
    ("verb", "resource", "is_write"),
    [("create", "pods", True), ("patch", "pods", True), ("watch", "pods", False), ("patch", "leases", False)],
)
def test_the_lease_and_what_only_reads_is_no_write(verb: str, resource: str, is_write: bool) -> None:
    assert Sent(0.0, verb, resource, "", 200).is_write is is_write
