"""Speaking Kubernetes: credentials, transport, verbs, watch, models.

credentials = load_credentials()
async with Client(HttpTransport(credentials)) as client:
    pod = await client.get(Pod, "web-0", "lab")

`HttpTransport` and `load_credentials` are imported when they are first asked for: aiohttp and cryptography take half a
second, and most of what imports a model never speaks to a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from corral.kube.answers import Bookmark, Gone, Page, Put
from corral.kube.calls import Observer
from corral.kube.client import Client
from corral.kube.credentials import Credentials
from corral.kube.discovery import ServedResource, ServerVersion
from corral.kube.errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    CredentialsError,
    Expired,
    Forbidden,
    Garbled,
    Invalid,
    KubeError,
    NotFound,
    Refused,
    ServerError,
    ServerTimeout,
    StreamingListUnsupported,
    Subject,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from corral.kube.execution import ExecResult, Output, RunningCommand
from corral.kube.gate import Gate
from corral.kube.logs import LogOptions
from corral.kube.meta import Condition, Model, Object, ObjectMeta, ObjectRef, OwnerReference, Resource, ref
from corral.kube.scale import Scale
from corral.kube.selection import Precondition, Propagation, Selector
from corral.kube.transport import Fence, Priority, Request, Response, Socket, Stream, Transport
from corral.kube.unstructured import Kind, Unstructured

if TYPE_CHECKING:
    from corral.kube.http import HttpTransport
    from corral.kube.load import load_credentials

__all__ = [
    # objects
    "Condition",
    "Kind",
    "Model",
    "Object",
    "ObjectMeta",
    "ObjectRef",
    "OwnerReference",
    "Resource",
    "Scale",
    "Unstructured",
    "ref",
    # verbs
    "Bookmark",
    "Client",
    "ExecResult",
    "Gone",
    "LogOptions",
    "Output",
    "Page",
    "Precondition",
    "Propagation",
    "Put",
    "RunningCommand",
    "Selector",
    "ServedResource",
    "ServerVersion",
    # reaching the server
    "Credentials",
    "Fence",
    "Gate",
    "HttpTransport",
    "Observer",
    "Priority",
    "Request",
    "Response",
    "Socket",
    "Stream",
    "Transport",
    "load_credentials",
    # errors
    "AlreadyExists",
    "ApiError",
    "Cause",
    "Conflict",
    "CredentialsError",
    "Expired",
    "Forbidden",
    "Garbled",
    "Invalid",
    "KubeError",
    "NotFound",
    "Refused",
    "ServerError",
    "ServerTimeout",
    "StreamingListUnsupported",
    "Subject",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
]

_WHEN_ASKED_FOR = {"HttpTransport": "corral.kube.http", "load_credentials": "corral.kube.load"}


def __getattr__(name: str) -> object:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHEN_ASKED_FOR[name]), name)
