"""How one check ended, and JUnit's XML for many of them. Pure; `corral test` and `corral check` share it."""

from collections.abc import Iterable
from enum import Enum
from xml.sax.saxutils import escape, quoteattr

import msgspec


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Verdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`message` is one sentence: what was seen, or what was expected and found. `details` may have many lines."""

    name: str
    outcome: Outcome
    message: str = ""
    details: str = ""
    seconds: float = 0.0


def junit(suite: str, verdicts: Iterable[Verdict]) -> str:
    """One test suite. Control characters, which XML cannot hold, are left out."""
    verdicts = tuple(verdicts)
    counts = {outcome: sum(one.outcome is outcome for one in verdicts) for outcome in Outcome}
    head = (
        f"<testsuite name={_attribute(suite)} tests={_attribute(len(verdicts))}"
        f" failures={_attribute(counts[Outcome.FAILED])} errors='0' skipped={_attribute(counts[Outcome.SKIPPED])}"
        f" time={_attribute(f'{sum(one.seconds for one in verdicts):.3f}')}>"
    )
    cases = "".join(_case(suite, one) for one in verdicts)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{head}\n{cases}</testsuite>\n</testsuites>\n'


def _case(suite: str, verdict: Verdict) -> str:
    head = f"  <testcase classname={_attribute(suite)} name={_attribute(verdict.name)}"
    start = f"{head} time={_attribute(f'{verdict.seconds:.3f}')}>"
    body = escape(_printable(verdict.details))
    inner = {
        Outcome.FAILED: f"<failure message={_attribute(verdict.message)}>{body}</failure>",
        Outcome.SKIPPED: f"<skipped message={_attribute(verdict.message)}/>",
        Outcome.PASSED: f"<system-out>{escape(_printable(verdict.message))}</system-out>",
    }
    return f"{start}{inner[verdict.outcome]}</testcase>\n"


def _attribute(value: object) -> str:
    return quoteattr(_printable(str(value)))


def _printable(text: str) -> str:
    return "".join(c for c in text if c in "\t\n\r" or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE)
