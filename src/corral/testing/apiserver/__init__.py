"""A Kubernetes API server in the test's own process and time. See `server.py`; `connection.py` is its `Transport`."""

from corral.testing.apiserver.connection import Connection, Crashed
from corral.testing.apiserver.faults import NONE, ROUGH, Fault, Faults
from corral.testing.apiserver.http import serve_over_http
from corral.testing.apiserver.kinds import Scale, Served
from corral.testing.apiserver.server import FakeApiServer
from corral.testing.apiserver.storage import Snapshot

__all__ = [
    "NONE",
    "ROUGH",
    "Connection",
    "Crashed",
    "FakeApiServer",
    "Fault",
    "Faults",
    "Scale",
    "Served",
    "Snapshot",
    "serve_over_http",
]
