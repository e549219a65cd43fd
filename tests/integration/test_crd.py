"""Own kinds against a real API server: what the schema accepts, the Struct decodes, and the reverse.

The two do not agree on everything. Where they differ is listed here and nowhere else:
`HARMLESS`: the Struct decodes it and the server refuses it, so we never see it.
`SETTLED`: the server accepts it and writes something else, which the Struct decodes.
Anything else is a defect: an object that the server keeps and we cannot read would stop an informer.
"""

import asyncio
import enum
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from corral.kube import ApiError, Client, Invalid, ObjectMeta
from corral.kube.codec import encode
from corral.kube.crd import EMBEDDED, UNIQUE, Scale, crd_of, keys, kind, rule, rules, to_yaml
from corral.kube.meta import EMPTY, Condition, Model, Object
from corral.kube.models.core_v1 import (
    Container,
    ContainerPort,
    HTTPGetAction,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ResourceRequirements,
)
from corral.kube.unstructured import Unstructured, untyped
from corral.kube.values import Duration, IntOrString, Json, Quantity
from corral.testing.cluster import Cluster

pytestmark = pytest.mark.cluster

HARMLESS = {
    "an integer beyond 64 bits": r"must be of type (int64|integer,string)",
    "a time with a space, a small t, no zone, or of another millennium": r"of type date-time|\^\[12\]\[0-9\]",
    "a text that is no quantity": r"should match '\^\(\\\+\|-\)\?",
    "a text that ends in a newline, which $ does not see in Python": r"in body should match '\^\[a-z\]\+\$'",
    "a rule of several values": r"weights are even|low is above high",
    "a key or an element twice": r"Duplicate value",
    "a field that nobody knows": r"unknown field",
}
SETTLED = {
    "null for what has a default, or is absent": r"got `null`",
    "1.0 for 1": r"got `float`",
}

Name = Annotated[str, Meta(min_length=1, max_length=12, pattern="^[a-z]+$")]


class Colour(enum.Enum):
    RED = "Red"
    BLUE = "Blue"


class Part(Model, frozen=True, kw_only=True):
    name: Name
    weight: Annotated[int, Meta(ge=0, lt=100), rule("self % 2 == 0", "weights are even")] = 2
    note: str | None = None


class Deep(Model, frozen=True, kw_only=True):
    level: int = 7
    part: Part | None = None


@rules(rule("self.low <= self.high", "low is above high"))
class Range(Model, frozen=True, kw_only=True):
    low: int = 0
    high: int = 10


class SinkSpec(Model, frozen=True, kw_only=True):
    """One field of every sort that a schema can say."""

    title: Annotated[str, Meta(max_length=20)]
    maybe: int | None
    on: bool = True
    count: Annotated[int, Meta(ge=0, lt=6)] = 1
    big: int | None = None
    mode: Literal["Fast", "Slow"] = "Fast"
    number: Literal[1, 2, 3] = 1
    colour: Colour = Colour.RED
    since: datetime | None = None
    data: bytes | None = None
    size: Quantity | None = None
    port: IntOrString = "http"
    wait: Duration = "1m0s"
    parts: Annotated[tuple[Part, ...], Meta(max_length=4), keys("name")] = ()
    tags: Annotated[tuple[Name, ...], Meta(max_length=4), UNIQUE] = ()
    matrix: tuple[tuple[int, ...], ...] = ()
    labels: Annotated[Mapping[str, str], Meta(max_length=3)] = EMPTY
    by_name: Mapping[str, Part] = EMPTY
    deep: Deep = Deep()
    range: Range = Range(high=20)
    anything: Json = None
    object: Mapping[str, Json] = EMPTY
    words: tuple[str, ...] = ("a", "b")


class SinkStatus(Model, frozen=True, kw_only=True):
    observed_generation: int = -1
    count: int = 0
    conditions: Annotated[tuple[Condition, ...], keys("type")] = ()


@kind(
    group="test.corral.dev",
    version="v1",
    plural="sinks",
    scale=Scale(".spec.count", ".status.count"),
    rules=(rule("self.metadata.name.startsWith('s')", "the name of a sink starts with s"),),
)
class Sink(Object, frozen=True, kw_only=True):
    spec: SinkSpec
    status: SinkStatus = SinkStatus()


class TubSpec(Model, frozen=True, kw_only=True):
    template: PodTemplateSpec
    embedded: Annotated[Json, EMBEDDED] = None


@kind(group="test.corral.dev", version="v1", plural="tubs")
class Tub(Object, frozen=True, kw_only=True):
    """Holds parts of Kubernetes itself."""

    spec: TubSpec


class Server:
    """A client with a loop of its own, so that each example of a property can await."""

    def __init__(self, runner: asyncio.Runner, client: Client) -> None:
        self._runner = runner
        self._client = client

    def try_create(self, obj: Object) -> Unstructured:
        """What the server would have kept."""
        content = msgspec.json.decode(encode(obj), type=dict[str, Any])
        sent = untyped(obj.resource)(content=content)
        return self._runner.run(self._client.create(sent, field_manager="test", dry_run=True))


@pytest.fixture(scope="module")
def server(corral_cluster: Cluster) -> Iterator[Server]:
    corral_cluster.define(to_yaml(crd_of(Sink), crd_of(Tub)))
    with asyncio.Runner() as runner:
        opened = corral_cluster.client()
        found = Server(runner, runner.run(opened.__aenter__()))
        yield found
        runner.run(opened.__aexit__(None, None, None))


def a_sink(spec: SinkSpec) -> Sink:
    return Sink(metadata=ObjectMeta(name="sink", namespace="default"), spec=spec)


INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
texts = st.text(max_size=20)
a_to_z = st.text(alphabet="abcxyz", min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | INT64 | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
parts = st.builds(Part, name=a_to_z, weight=st.integers(0, 49).map(lambda half: half * 2), note=st.none() | texts)
specs = st.builds(
    SinkSpec,
    title=texts,
    maybe=st.none() | INT64,
    on=st.booleans(),
    count=st.integers(0, 5),
    big=st.none() | INT64,
    mode=st.sampled_from(["Fast", "Slow"]),
    number=st.sampled_from([1, 2, 3]),
    colour=st.sampled_from(Colour),
    since=st.none() | st.datetimes(datetime(1000, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
    data=st.none() | st.binary(max_size=9),
    size=st.none() | st.sampled_from([4, "500m", "2Gi", "1e3", "-1.5Ki", ".5"]),
    port=st.sampled_from([80, "http"]),
    wait=st.sampled_from(["1h5m", "0", "-1.5s", "300ms", "7µs"]),
    parts=st.lists(parts, max_size=4, unique_by=lambda part: part.name).map(tuple),
    tags=st.lists(a_to_z, max_size=4, unique=True).map(tuple),
    matrix=st.lists(st.lists(INT64, max_size=2).map(tuple), max_size=3).map(tuple),
    labels=st.dictionaries(texts, texts, max_size=3),
    by_name=st.dictionaries(texts, parts, max_size=3),
    deep=st.builds(Deep, level=INT64, part=st.none() | parts),
    range=st.builds(Range, low=st.integers(-9, 10), high=st.integers(10, 20)),
    anything=json_values,
    object=st.dictionaries(texts, json_values, max_size=3),
    words=st.lists(texts, max_size=3).map(tuple),
)
# Values that sit at the edges of what some field accepts.
ODD: list[Any] = [
    *(None, True, 0, 1, -1, 3, 7, 100, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 1.0, 1.5, 1e30),
    *("", "a", "abc", "A", "x" * 30, "abc\n", "\x00", "Fast", "Red", "1Gi", "1 Gi", "12h", "h"),
    *("2026-01-31T12:00:00Z", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-01-31", "2026-02-30T12:00:00Z"),
    *("0000-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", "2026-01-31T12:00:00+24:00", "2026-01-31T12:00:00,5Z"),
    *("2026-01-31t12:00:00z", "2026-01-31T12:00:60Z", "2026-01-31T12:00:00.123456789+01:30"),
    *("aGVsbG8=", "aGVsbG8", "!!!", "aGV-bG8_"),
    *([], [1], ["a"], ["a", "a"], [[1], [2]], [None]),
    *({}, {"a": "b"}, {"a": None}, {"name": "a"}, {"name": "a", "weight": 3}, {"low": 3, "high": 1}, {"level": None}),
    *([{"name": "a"}], [{"name": "a"}, {"name": "a"}], {"a": {"name": "b"}}),
]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A valid spec with one thing in it replaced or left out."""
    wire: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(draw(specs)))
    *way, last = draw(st.sampled_from(list(places(wire))))
    holder: Any = wire
    for key in way:
        holder = holder[key]
    if draw(st.integers(0, 9)) == 0:
        del holder[last]
    else:
        holder[last] = draw(st.sampled_from(ODD) | json_values)
    return wire


@settings(max_examples=120, deadline=None, derandomize=True)
@given(spec=specs)
def test_what_the_struct_encodes_the_server_keeps_as_it_is(server: Server, spec: SinkSpec) -> None:
    kept = server.try_create(a_sink(spec))

    assert msgspec.json.decode(encode(kept), type=Sink).spec == spec


@settings(max_examples=300, deadline=None, derandomize=True)
@given(spec=damaged())
def test_the_server_and_the_struct_refuse_the_same(server: Server, spec: dict[str, Any]) -> None:
    wire = {"metadata": {"name": "sink", "namespace": "default"}, "spec": spec}
    struct_says, server_says = "", ""
    try:
        msgspec.convert(wire, Sink)
    except msgspec.ValidationError as error:
        struct_says = str(error)
    try:
        kept = server.try_create(untyped(Sink.resource)(content=wire))
    except ApiError as error:
        server_says = str(error)
    else:
        msgspec.json.decode(encode(kept), type=Sink)  # above all: what the server keeps can be read

    if bool(struct_says) != bool(server_says):
        known = HARMLESS if server_says else SETTLED
        said = server_says or struct_says
        assert any(re.search(pattern, said) for pattern in known.values()), said


def test_a_rule_is_refused_in_its_own_words_at_its_own_field(server: Server) -> None:
    with pytest.raises(Invalid) as refusal:
        server.try_create(a_sink(SinkSpec(title="t", maybe=None, parts=(Part(name="a", weight=3),))))

    assert [(cause.field, cause.message) for cause in refusal.value.causes] == [
        ("spec.parts[0].weight", "Invalid value: 3: weights are even")
    ]


def test_a_rule_of_the_kind_sees_its_metadata(server: Server) -> None:
    badly_named = Sink(metadata=ObjectMeta(name="tub", namespace="default"), spec=SinkSpec(title="t", maybe=None))

    with pytest.raises(Invalid, match="the name of a sink starts with s"):
        server.try_create(badly_named)


def test_the_server_writes_the_defaults_of_the_struct(server: Server) -> None:
    kept = server.try_create(a_sink(SinkSpec(title="t", maybe=None)))

    assert kept.get("spec", "count") == 1
    assert kept.get("spec", "words") == ("a", "b")
    assert kept.get("spec", "range") == {"low": 0, "high": 20}
    assert kept.get("status") == {"observedGeneration": -1, "count": 0}


def a_tub(embedded: Json = None) -> Tub:
    probe = Probe(http_get=HTTPGetAction(port="http"))
    ports = (ContainerPort(container_port=80), ContainerPort(container_port=80, protocol="UDP"))
    resources = ResourceRequirements(requests={"cpu": "500m"}, limits={"memory": "2Gi"})
    container = Container(name="main", image="i", ports=ports, resources=resources, liveness_probe=probe)
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=(container,)))
    return Tub(metadata=ObjectMeta(name="t", namespace="default"), spec=TubSpec(template=template, embedded=embedded))


def test_a_pod_template_in_a_kind_of_ours_is_kept_as_it_is(server: Server) -> None:
    kept = server.try_create(a_tub())

    assert msgspec.json.decode(encode(kept), type=Tub).spec == a_tub().spec
    assert msgspec.json.decode(encode(kept))["spec"] == msgspec.json.decode(encode(a_tub()))["spec"]


def test_an_embedded_object_is_kept_whole_and_must_be_one(server: Server) -> None:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}

    assert server.try_create(a_tub(whole)).get("spec", "embedded") == whole
    with pytest.raises(Invalid, match=r"spec\.embedded\.kind"):
        server.try_create(a_tub({"data": {"a": "b"}}))


def test_kubectl_explains_the_kind_in_the_words_of_its_docstrings(server: Server, corral_cluster: Cluster) -> None:
    assert "One field of every sort that a schema can say." in corral_cluster.kubectl("explain", "sinks.spec")
