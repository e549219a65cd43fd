"""The page of figures, and what it is made from."""

from datetime import UTC, datetime
from pathlib import Path

from bench.__main__ import PAGE, page_of
from bench.claims import Claim, Finding, Run
from bench.machine import Machine, processor_name
from bench.page import page, table
from bench.record import Measured, read, write
from bench.server import count_requests

MACHINE = Machine(
    processor="Some CPU", cores=2, memory_bytes=24 << 30, kernel="Linux 6.1", python="CPython 3.11.7",
    packages=("msgspec 0.20.0",), kubernetes="v1.36.3", measured_at=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
)  # fmt: skip
CLAIM = Claim(
    key="k", title="Creating objects", unit="x the bare time", bound=1.3, compare="ratio",
    measured="the engine", measured_unit="s", baseline="a bare loop",
)  # fmt: skip


def measured(*runs: Run) -> Measured:
    return Measured(findings=(Finding(claim=CLAIM, runs=runs),), machine=MACHINE)


def test_the_page_has_figure_bound_baseline_verdict_method_and_machine() -> None:
    text = page({"creation": measured(Run(2.4, 2.0))}, {"creation": "How it is done."}, "## By hand\n")

    assert "| Creating objects | ≤ 1.3 x the bare time | 1.2 x the bare time | 1.2 to 1.2 | kept |" in text
    assert "| Creating objects | the engine | 2.4 s | a bare loop | 2 s |" in text
    assert "**creation** How it is done." in text
    assert "## By hand" in text
    assert "| creation | measured 2026-01-02 03:04 UTC |" in text
    assert "| processor | Some CPU, 2 cores (the API server, etcd and Corral share them) |" in text


def test_the_page_shouts_about_a_missed_bound() -> None:
    text = page({"creation": measured(Run(2.8, 2.0))}, {"creation": ""}, "")

    assert "| MISSED |" in text


def test_the_page_says_what_has_not_been_measured() -> None:
    assert "**sync** has not been measured yet." in page({}, {"sync": "How."}, "")


def test_measuring_one_figure_again_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    write({"creation": measured(Run(2.4, 2.0)), "sync": measured(Run(1.0, 1.0))}, file)
    write(read(file) | {"sync": measured(Run(2.0, 1.0))}, file)

    assert read(file) == {"creation": measured(Run(2.4, 2.0)), "sync": measured(Run(2.0, 1.0))}


def test_the_page_in_the_documentation_is_what_was_measured_and_what_the_figures_say_of_themselves() -> None:
    assert PAGE.read_text() == page_of(read()), "run python -m bench --page"


def test_a_table_has_a_line_under_its_head() -> None:
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_the_processor_is_named_as_the_kernel_names_it() -> None:
    assert processor_name("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"


def test_requests_are_counted_for_one_resource_without_its_watches() -> None:
    metrics = """\
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 3
apiserver_request_total{code="200",resource="pods",subresource="",verb="WATCH"} 40
apiserver_request_total{code="201",resource="pods",subresource="status",verb="PATCH"} 2
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 500
"""
    assert count_requests(metrics, "pods") == 5
