"""Bytes to objects, events and errors."""

import pytest

from corral.kube.answers import Bookmark, Gone, Put
from corral.kube.codec import decode, decode_events, decode_list, encode, error_of
from corral.kube.errors import (
    AlreadyExists,
    ApiError,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Garbled,
    Invalid,
    NotFound,
    ServerError,
    ServerTimeout,
    StreamingListUnsupported,
    Subject,
    TooManyRequests,
    Unauthorized,
)
from corral.kube.meta import EMPTY, ObjectMeta
from tests.unit.kube.memory import Node, Pod, PodSpec, a_pod, refusal

ABOUT = Subject("get", "Pod", "lab", "web")


def test_apiversion_and_kind_come_first_and_from_the_class() -> None:
    assert encode(Node()) == b'{"apiVersion":"v1","kind":"Node"}'
    assert encode(a_pod()) == b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"lab"}}'


def test_an_object_survives_the_wire() -> None:
    pod = Pod(metadata=ObjectMeta(name="web", labels={"a": "b"}), spec=PodSpec(node_name="n1"))

    assert decode(Pod, encode(pod), ABOUT) == pod


def test_unknown_fields_are_passed_over() -> None:
    assert decode(Pod, b'{"metadata":{"name":"web","managedFields":[{}]},"new":1}', ABOUT).metadata.name == "web"


@pytest.mark.parametrize("items", [b"[]", b"null"])
def test_a_list_without_items_is_empty(items: bytes) -> None:
    page = decode_list(Pod, b'{"metadata":{"resourceVersion":"7","continue":"next"},"items":' + items + b"}", ABOUT)

    assert (page.items, page.resource_version, page.continue_token) == ((), "7", "next")


def line(event: str, content: str) -> bytes:
    return f'{{"type":"{event}","object":{content}}}'.encode()


def said(lines: bytes) -> list[Put[Pod] | Gone[Pod] | Bookmark]:
    return list(decode_events(Pod, lines, ABOUT))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("ADDED", Put(a_pod(version="3"), "ADDED")),
        ("MODIFIED", Put(a_pod(version="3"), "MODIFIED")),
        ("DELETED", Gone(a_pod(version="3"))),
    ],
)
def test_a_watch_line_is_an_event(event: str, expected: Put[Pod] | Gone[Pod]) -> None:
    content = '{"metadata":{"name":"web","namespace":"lab","resourceVersion":"3"}}'

    assert said(line(event, content)) == [expected]


def test_the_order_of_the_keys_of_a_watch_line_does_not_matter() -> None:
    turned = b'{"object":{"metadata":{"name":"web","namespace":"lab"}},"type":"ADDED"}'

    assert said(turned) == [Put(a_pod(), "ADDED")]


def test_a_bookmark_says_whether_the_initial_list_ends() -> None:
    end = '{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}'

    assert said(line("BOOKMARK", end)) == [Bookmark("9", initial_list_ends=True)]
    assert said(line("BOOKMARK", '{"metadata":{"resourceVersion":"9"}}')) == [Bookmark("9")]


def test_an_error_line_is_raised_as_what_it_tells_of() -> None:
    with pytest.raises(Expired, match="too old"):
        said(line("ERROR", '{"code":410,"reason":"Expired","message":"too old"}'))


@pytest.mark.parametrize(
    "last", [line("ERROR", '{"code":410,"message":"too old"}'), b'{"type":"ADDED","obj', b'{"type":"PUT"}', b"<html>"]
)
def test_what_comes_before_a_line_of_trouble_is_said_first(last: bytes) -> None:
    before = line("ADDED", '{"metadata":{"name":"web","namespace":"lab"}}')
    events = decode_events(Pod, b"\n".join([before, b"", before, last, before, b""]), ABOUT)

    assert [next(events), next(events)] == [Put(a_pod(), "ADDED")] * 2
    with pytest.raises(Expired if b"410" in last else Garbled):
        next(events)


@pytest.mark.parametrize(
    ("status", "reason", "message", "expected"),
    [
        (400, "BadRequest", "", Invalid),
        (401, "Unauthorized", "", Unauthorized),
        (403, "Forbidden", "", Forbidden),
        (404, "NotFound", "", NotFound),
        (405, "MethodNotAllowed", "", ApiError),
        (409, "Conflict", "", Conflict),
        (409, "AlreadyExists", "", AlreadyExists),
        (410, "Expired", "", Expired),
        (410, "Gone", "", Expired),
        (413, "RequestEntityTooLarge", "", Invalid),
        (422, "Invalid", "", Invalid),
        (422, "Invalid", "sendInitialEvents: Forbidden: not enabled", StreamingListUnsupported),
        (429, "TooManyRequests", "", TooManyRequests),
        (500, "InternalError", "", ServerError),
        (500, "InternalError", "RequestWatchProgress is disabled", StreamingListUnsupported),
        (500, "ServerTimeout", "", ServerTimeout),
        (503, "ServiceUnavailable", "", ServerError),
        (504, "Timeout", "", ServerTimeout),
    ],
)
def test_a_refusal_is_typed(status: int, reason: str, message: str, expected: type[ApiError]) -> None:
    error = error_of(ABOUT, status, EMPTY, refusal(status, reason, message).body)

    assert type(error) is expected
    assert (error.status, error.reason) == (status, reason)
    assert str(error).startswith("get Pod lab/web: ")


def test_an_invalid_object_comes_with_its_causes_by_field() -> None:
    cause = {"field": "spec.replicas", "message": "must not be negative", "reason": "FieldValueInvalid"}
    error = error_of(ABOUT, 422, EMPTY, refusal(422, "Invalid", details={"causes": [cause]}).body)

    assert error.causes == (Cause("spec.replicas", "must not be negative", "FieldValueInvalid"),)


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"retry-after": "3"}, {}, 3.0),
        ({}, {"retryAfterSeconds": 4}, 4.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({}, {}, None),
    ],
)
def test_when_to_come_again_is_read_from_the_header_or_the_body(
    headers: dict[str, str], details: dict[str, int], expected: float | None
) -> None:
    assert error_of(ABOUT, 429, headers, refusal(429, details=details).body).retry_after_s == expected


def test_a_proxys_page_is_quoted_in_the_error() -> None:
    error = error_of(ABOUT, 502, EMPTY, b"<html>\n  <h1>Bad Gateway</h1>" + b"x" * 10_000)

    assert isinstance(error, ServerError)
    assert "<h1>Bad Gateway</h1>" in str(error)
    assert len(str(error)) < 200


def test_an_answer_that_is_no_json_is_garbled_and_quoted() -> None:
    with pytest.raises(Garbled, match="<html>"):
        decode(Pod, b"<html>hello", ABOUT)


@pytest.mark.parametrize("body", [b'{"data":{"password":"hunter2"},"metadata":7}', b'{"data":{"password":"hunter2"'])
def test_a_garbled_object_is_never_quoted_since_it_may_be_a_secret(body: bytes) -> None:
    with pytest.raises(Garbled) as caught:
        decode(Pod, body, ABOUT)
    assert "hunter2" not in str(caught.value)


def test_a_garbled_object_says_what_was_expected_where() -> None:
    with pytest.raises(Garbled, match=r"Expected `str`, got `int` - at `\$.metadata.name`"):
        decode(Pod, b'{"metadata":{"name":7}}', ABOUT)
