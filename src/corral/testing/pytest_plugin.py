"""A pytest plugin: a real cluster for tests that ask for one, a namespace each, and the evidence when one fails.

    def test_something(corral_cluster: Cluster, corral_namespace: str) -> None: ...

It is loaded into every pytest run, so it imports nothing of Corral until a test asks for a fixture.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from corral.testing.cluster import Cluster

ARTIFACTS = ".artifacts"
# Not in a test's `funcargs`: a fixture that fails may have asked for the namespace, and the test itself not yet.
_PLACE = pytest.StashKey[tuple["Cluster", str]]()


@pytest.fixture(scope="session")
def corral_cluster() -> Iterator[Cluster]:
    """A real cluster, shared by the whole run. See `running_cluster` for which one, and when it goes."""
    from corral.testing.cluster import running_cluster

    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def corral_namespace(corral_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, with a service account that pods can use. It is deleted afterwards."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    name = f"{words}-{uuid.uuid4().hex[:6]}"
    corral_cluster.kubectl("create", "namespace", name)
    request.node.stash[_PLACE] = corral_cluster, name
    corral_cluster.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={name}", "--timeout=30s")
    yield name
    corral_cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    place = item.stash.get(_PLACE, None)
    if place and report.failed and call.when != "teardown":  # then the namespace is on its way out
        from corral.testing.artifacts import collect, folder_name

        folder = item.config.rootpath / ARTIFACTS / folder_name(item.nodeid)
        collect(*place, folder, report.longreprtext)
        report.sections.append(("Artifacts", f"events, logs and manifests are in {folder}"))
    return report
