"""Whatever comes in, only errors of our own come out."""

import inspect
import json
import ssl
from contextlib import suppress

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.kube.codec import decode, decode_deleted, decode_events, decode_list, error_of
from corral.kube.errors import ApiError, KubeError, Subject, Unreachable
from corral.kube.execution import exit_code_of
from corral.kube.meta import EMPTY
from corral.kube.trouble import FOREIGN, border
from tests.unit.kube.memory import DEPLOYMENTS, Pod

ABOUT = Subject("get", "Pod", "lab", "web")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "object", "metadata", "items", "kind", "name", "labels", "code", "details", "causes"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
BODIES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())


@given(BODIES)
def test_any_bytes_decode_or_are_an_error_of_ours(body: bytes) -> None:
    for kind in (Pod, DEPLOYMENTS.untyped()):
        for attempt in (decode, decode_list, decode_deleted):
            with suppress(KubeError):
                attempt(kind, body, ABOUT)
        with suppress(KubeError):
            list(decode_events(kind, body, ABOUT))


@given(st.integers(400, 599), BODIES)
def test_any_refusal_is_a_typed_error(status: int, body: bytes) -> None:
    error = error_of(ABOUT, status, EMPTY, body)

    assert isinstance(error, ApiError)
    assert error.status == status


@given(BODIES)
def test_any_end_of_a_command_is_a_code_or_an_error_of_ours(body: bytes) -> None:
    with suppress(KubeError):
        assert exit_code_of(body, ABOUT) >= 0


def test_json_too_deep_to_read_is_garbled() -> None:
    deep = b'{"metadata":' + b"[" * 200_000

    for kind in (Pod, DEPLOYMENTS.untyped()):
        with pytest.raises(KubeError):
            decode(kind, deep, ABOUT)


def test_every_error_that_aiohttp_raises_on_its_own_is_caught_at_the_border() -> None:
    known = inspect.getmembers(aiohttp.client_exceptions, inspect.isclass)
    errors = {one for _, one in known if issubclass(one, Exception)}
    ours_to_avoid = {aiohttp.WSMessageTypeError}  # reading a message as what it is not

    assert {one for one in errors if not issubclass(one, FOREIGN)} <= ours_to_avoid


@pytest.mark.parametrize(
    "foreign",
    [
        aiohttp.ClientError("x"),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError("x"),
        aiohttp.ClientConnectionResetError("x"),
        aiohttp.InvalidURL("x"),
        aiohttp.SocketTimeoutError("x"),
        aiohttp.ConnectionTimeoutError("x"),
        ssl.SSLError(1, "x"),
        ConnectionResetError(104, "reset"),
        OSError("no number"),
        TimeoutError(),
        EOFError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_network_becomes_unreachable(foreign: Exception) -> None:
    with pytest.raises(Unreachable, match="get Pod lab/web: https://there: "), border(ABOUT, "https://there", "late"):
        raise foreign
