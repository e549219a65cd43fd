"""What an answer of the server means: whether looking again is the remedy, when, and whether a person must act."""

import pytest

from corral.engine.failures import DEFINITION_RETRY_S, STALLED_RETRY_S, failure_of
from corral.kube.errors import Cause, Forbidden, Subject

SUBJECT = Subject("apply", "Foo", "default", "b")
# In the words of a Kubernetes 1.36.
RIGHTS = 'foos.wk.test "b" is forbidden: User "corral" cannot create resource "foos" in API group "wk.test"'
GOES = 'foos.wk.test "b" is forbidden: create not allowed while custom resource definition is terminating'
SPACE_GOES = Cause("metadata.namespace", "namespace default is being terminated", "NamespaceTerminating")


@pytest.mark.parametrize(
    ("message", "causes", "expected"),
    [
        pytest.param(RIGHTS, (), ("failed", "Forbidden", True, STALLED_RETRY_S), id="no right"),
        pytest.param(GOES, (), ("refused", "KindTerminating", False, DEFINITION_RETRY_S), id="definition goes"),
        pytest.param(
            "no", (SPACE_GOES,), ("refused", "NamespaceTerminating", False, STALLED_RETRY_S), id="namespace goes"
        ),
    ],
)
def test_who_is_forbidden_something_because_it_is_being_deleted_needs_no_person(
    message: str, causes: tuple[Cause, ...], expected: tuple[str, str, bool, float]
) -> None:
    failure = failure_of(Forbidden(SUBJECT, message, status=403, reason="Forbidden", causes=causes))
    problem = failure.problem
    assert (failure.state, problem.reason, problem.stalled, problem.retry_after_s) == expected
