import msgspec
import pytest

from corral.local.cluster import Observed, Repair, plan
from corral.local.namespaces import wanted
from corral.local.spec import Spec

SPEC = Spec("dev", 2, 0)
ALL = wanted(SPEC)
WELL = Observed(namespaces=ALL, namespace_files=ALL, processes=True, link=True, supervisor=True)
NOTHING = Observed(namespaces=frozenset(), namespace_files=frozenset(), processes=False, link=False, supervisor=False)


def but(**changes: object) -> Observed:
    return msgspec.structs.replace(WELL, **changes)


@pytest.mark.parametrize(
    ("observed", "repairs"),
    [
        pytest.param(WELL, (), id="all is well"),
        pytest.param(NOTHING, (Repair.MAKE_NAMESPACES, Repair.START_SUPERVISOR), id="there is nothing"),
        pytest.param(but(supervisor=False), (Repair.START_SUPERVISOR,), id="the supervisor was killed"),
        pytest.param(
            but(namespaces=frozenset(), processes=False, link=False, supervisor=False),
            (Repair.MAKE_NAMESPACES, Repair.START_SUPERVISOR),
            id="the machine was restarted",
        ),
        pytest.param(
            but(namespaces=ALL - {"control.net"}),
            (Repair.END_PROCESSES, Repair.REMOVE_LINK, Repair.MAKE_NAMESPACES, Repair.START_SUPERVISOR),
            id="a namespace was unmounted under its processes",
        ),
        pytest.param(
            but(namespaces=wanted(Spec("dev", 1, 0)), namespace_files=wanted(Spec("dev", 1, 0))),
            (Repair.MAKE_NAMESPACES,),
            id="a node is to join",
        ),
    ],
)
def test_what_up_repairs_when(observed: Observed, repairs: tuple[Repair, ...]) -> None:
    assert plan(SPEC, observed) == repairs
