"""The transport over real sockets and real TLS, against peers that misbehave in every way we know of."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

import corral
from corral.kube.calls import Calls
from corral.kube.credentials import Auth, ClientCertificate, Credentials, Reread, Server
from corral.kube.errors import CredentialsError, Forbidden, Refused, Subject, Unauthorized, Unreachable
from corral.kube.http import HttpTransport
from corral.kube.proxies import proxy_for
from corral.kube.retry import Repeat
from corral.kube.transport import Request
from corral.kube.trouble import unreachable
from tests.unit.kube.authority import DAY, NOW, Authority
from tests.unit.kube.peer import END_OF_CHUNKS, Peer, Received, Reply, answer, chunked, peer, raw, tls

AUTHORITY = Authority()
HERE = AUTHORITY.issue("server", address="127.0.0.1")
ABOUT = Subject("get", "Pod", "lab", "web")
HEAD = b"HTTP/1.1 200 OK\r\n"


def a_request(method: str = "GET", path: str = "/api", deadline_s: float = 5.0, **more: object) -> Request:
    return Request(subject=ABOUT, method=method, path=path, deadline_s=deadline_s, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def transport_to(
    url: str,
    *auths: Auth,
    ca: bytes = AUTHORITY.pem,
    insecure: bool = False,
    tls_server_name: str = "",
    proxy_url: str = "",
    connections_max: int = 64,
) -> AsyncIterator[HttpTransport]:
    waiting = iter(auths or (Auth(),))
    server = Server(
        url=url,
        ca=b"" if insecure else ca,
        insecure=insecure,
        tls_server_name=tls_server_name,
        proxy_url=proxy_url,
    )
    last = Auth()

    def read() -> Auth:
        nonlocal last
        last = next(waiting, last)
        return last

    credentials = Credentials(server=server, source=Reread(read), origin="test")
    transport = HttpTransport(credentials, component="test", connections_max=connections_max)
    try:
        yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def pair_with(*replies: Reply) -> AsyncIterator[tuple[HttpTransport, Peer]]:
    async with peer(*replies, context=tls(HERE)) as server, transport_to(server.url) as transport:
        yield transport, server


async def test_a_request_arrives_as_it_was_meant_and_is_answered() -> None:
    async with (
        peer(answer(b"body", "200 OK", "X-Some: Thing"), context=tls(HERE)) as server,
        transport_to(server.url + "/prefix", Auth(token="t0k3n", impersonation=(("Impersonate-User", "bob"),))) as it,
    ):
        query = (("labelSelector", "a in (b, c)+d"), ("command", "x"), ("command", "y&z"))
        response = await it.request(a_request("PATCH", "/api/v1/x", query=query, body=b"{}", content_type="a/b"))
    received = server.received[0]

    assert (response.status, response.body, response.headers["x-some"]) == (200, b"body", "Thing")
    assert received.line == (
        "PATCH /prefix/api/v1/x?labelSelector=a%20in%20%28b%2C%20c%29%2Bd&command=x&command=y%26z HTTP/1.1"
    )
    assert received.body == b"{}"
    assert received.headers["user-agent"] == f"corral/{corral.__version__} (test)"
    assert received.headers["authorization"] == "Bearer t0k3n"
    assert received.headers["impersonate-user"] == "bob"
    assert (received.headers["content-type"], received.headers["accept"]) == ("a/b", "application/json")


async def test_any_status_is_an_answer_and_a_redirect_is_not_followed() -> None:
    async with pair_with(answer(b"", "302 Found", "Location: https://elsewhere.invalid/")) as (it, server):
        assert (await it.request(a_request())).status == 302
    assert len(server.received) == 1


async def test_connections_are_used_again() -> None:
    async with pair_with(answer()) as (it, server):
        for _ in range(3):
            await it.request(a_request())
    assert server.connections == 1


# -- TLS --


@pytest.mark.parametrize(
    ("certificate", "says"),
    [
        (AUTHORITY.issue("x", address="127.0.0.1", begins=NOW - 2 * DAY, ends=NOW - DAY), "has expired; renew it"),
        (AUTHORITY.issue("x", address="127.0.0.1", begins=NOW + DAY, ends=NOW + 2 * DAY), "not valid yet; compare"),
        (AUTHORITY.issue("x", host="other"), "set tls-server-name"),
        (Authority("other").issue("x", address="127.0.0.1"), "authority that the kubeconfig's"),
    ],
    ids=["expired", "early", "other name", "other authority"],
)
async def test_a_certificate_that_cannot_be_trusted_says_why(certificate: object, says: str) -> None:
    async with (
        peer(answer(), context=tls(certificate)) as server,  # type: ignore[arg-type]
        transport_to(server.url) as it,
    ):
        with pytest.raises(Unreachable, match=says) as caught:
            await it.request(a_request())
    assert server.url in str(caught.value)
    assert not caught.value.sent
    assert server.received == []


async def test_tls_server_name_is_what_the_certificate_must_be_for() -> None:
    context = tls(AUTHORITY.issue("x", host="kube.example"))
    async with (
        peer(answer(), context=context) as server,
        transport_to(server.url, tls_server_name="kube.example") as it,
    ):
        assert (await it.request(a_request())).status == 200


async def test_insecure_trusts_anyone() -> None:
    context = tls(Authority("other").issue("x", host="other"))
    async with peer(answer(), context=context) as server, transport_to(server.url, insecure=True) as it:
        assert (await it.request(a_request())).status == 200


async def test_the_client_certificate_is_shown_and_a_new_one_takes_its_place() -> None:
    ann, bob = AUTHORITY.issue("ann"), AUTHORITY.issue("bob")
    auths = (
        Auth(certificate=ClientCertificate(ann.certificate, ann.key)),
        Auth(certificate=ClientCertificate(bob.certificate, bob.key)),
    )
    context = tls(HERE, clients=AUTHORITY.pem)
    replies = (answer(), answer(b"", "401 Unauthorized"), answer())
    async with peer(*replies, context=context) as server, transport_to(server.url, *auths) as it:
        await it.request(a_request())
        assert (await it.request(a_request())).status == 200
    assert [one.client for one in server.received] == ["ann", "ann", "bob"]


async def test_an_authority_that_is_no_certificate_is_said() -> None:
    async with transport_to("https://127.0.0.1:1", ca=b"junk") as it:
        with pytest.raises(CredentialsError, match="authority is not a PEM certificate"):
            await it.request(a_request())


async def test_https_to_a_port_that_speaks_http_says_so() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with transport_to(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}") as it:
        with pytest.raises(Unreachable, match="does it speak https") as caught:
            await it.request(a_request())
    server.close()
    assert not caught.value.sent


# -- no answer --


async def a_free_port() -> int:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def test_a_refused_connection_was_never_sent() -> None:
    async with transport_to(f"https://127.0.0.1:{await a_free_port()}") as it:
        with pytest.raises(Unreachable, match="refused; is the server running") as caught:
            await it.request(a_request())
    assert not caught.value.sent


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "reply",
    [
        raw(b""),
        raw(HEAD[:7]),
        raw(HEAD + b"Content-Length: 10\r\n\r\nhalf"),
        raw(chunked(b"one", b"two")),
        raw(chunked(b"one") + b"zz\r\n"),
    ],
    ids=["nothing", "half a head", "half a body", "no last chunk", "a chunk that is none"],
)
async def test_an_answer_that_breaks_off_may_have_been_carried_out_and_is_not_asked_for_again(
    reply: Reply, method: str
) -> None:
    async with pair_with(reply) as (it, server):
        with pytest.raises(Unreachable) as caught:
            await it.request(a_request(method, body=b"{}"))
    assert caught.value.sent
    assert len(server.received) == 1


async def test_what_broke_off_is_repeated_above_the_transport_where_that_is_harmless() -> None:
    async with pair_with(raw(b""), answer(b"fine")) as (it, server):
        response = await Calls(it, luck=lambda: 0.0).send(a_request(), Repeat.HARMLESS)
    assert response.body == b"fine"
    assert len(server.received) == 2


async def test_an_answer_that_is_not_http_is_unreachable() -> None:
    async with pair_with(raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")) as (it, _):
        with pytest.raises(Unreachable):
            await it.request(a_request("POST", body=b"{}"))


async def test_a_server_that_says_nothing_is_given_up_at_the_deadline() -> None:
    async with pair_with(raw(close=False)) as (it, _):
        with pytest.raises(Unreachable, match=r"no answer within 0\.05 s") as caught:
            await it.request(a_request(deadline_s=0.05))
    assert caught.value.sent


async def test_a_server_that_stops_within_an_answer_is_given_up_at_the_deadline() -> None:
    async with pair_with(raw(HEAD + b"Content-Length: 10\r\n\r\nhalf", close=False)) as (it, _):
        with pytest.raises(Unreachable, match="no answer within"):
            await it.request(a_request(deadline_s=0.05))


def test_a_name_that_dns_does_not_know_is_named() -> None:
    key = aiohttp.client_reqrep.ConnectionKey("kube.invalid", 6443, True, True, None, None, None, None)
    error = unreachable(ABOUT, "https://kube.invalid", aiohttp.ClientConnectorDNSError(key, OSError(-2, "unknown")))

    assert "the name kube.invalid is not known to DNS" in str(error)
    assert not error.sent


async def test_no_token_shows_in_an_error() -> None:
    async with (
        peer(raw(b"HTTP/9.9 junk\r\n\r\n"), context=tls(HERE)) as server,
        transport_to(server.url, Auth(token="t0k3n")) as it,
    ):
        with pytest.raises(Unreachable) as caught:
            await it.request(a_request("POST"))
    assert "t0k3n" not in repr(caught.value)
    assert caught.value.__cause__ is None


# -- credentials --


async def test_a_401_is_answered_with_fresh_credentials() -> None:
    replies = (answer(b"", "401 Unauthorized"), answer(b"fine"))
    async with (
        peer(*replies, context=tls(HERE)) as server,
        transport_to(server.url, Auth(token="old"), Auth(token="new")) as it,
    ):
        assert (await it.request(a_request())).body == b"fine"
    assert [one.headers["authorization"] for one in server.received] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_the_answer() -> None:
    auths = (Auth(token="old"), Auth(token="new"), Auth(token="newer"))
    async with (
        peer(answer(b"", "401 Unauthorized"), context=tls(HERE)) as server,
        transport_to(server.url, *auths) as it,
    ):
        assert (await it.request(a_request())).status == 401
    assert len(server.received) == 2


async def test_a_401_is_not_answered_with_the_same_credentials() -> None:
    async with (
        peer(answer(b"", "401 Unauthorized"), context=tls(HERE)) as server,
        transport_to(server.url, Auth(token="same")) as it,
    ):
        assert (await it.request(a_request())).status == 401
    assert len(server.received) == 1


# -- the fence --


async def test_a_lease_that_ends_while_a_token_is_fetched_keeps_the_write_from_being_sent() -> None:
    leads = True

    def fetched() -> Auth:
        nonlocal leads
        leads = False
        return Auth(token="t")

    async with peer(answer(b"fine"), context=tls(HERE)) as server:
        credentials = Credentials(
            server=Server(url=server.url, ca=AUTHORITY.pem), source=Reread(fetched), origin="test"
        )
        transport = HttpTransport(credentials, component="test")
        with pytest.raises(Refused, match="not sent"):
            await transport.request(a_request("POST", fence=lambda: leads))
        await transport.close()
    assert server.received == []


async def test_the_fence_is_asked_when_the_connection_is_there_and_the_connection_serves_the_next() -> None:
    async with pair_with(answer(b"fine")) as (it, server):
        with pytest.raises(Refused):
            await it.request(a_request("POST", fence=lambda: False))
        assert (await it.request(a_request("POST", fence=lambda: True))).body == b"fine"
    assert (server.connections, len(server.received)) == (1, 1)


async def test_the_fence_is_asked_again_before_a_401_is_answered() -> None:
    may_write = iter([True, False])
    async with (
        peer(answer(b"", "401 Unauthorized"), context=tls(HERE)) as server,
        transport_to(server.url, Auth(token="old"), Auth(token="new")) as it,
    ):
        with pytest.raises(Refused):
            await it.request(a_request("POST", fence=lambda: next(may_write)))
    assert len(server.received) == 1


# -- streams --


async def read(it: HttpTransport, silence_s_max: float = 5.0) -> bytes:
    async with it.stream(a_request()) as stream:
        return b"".join([chunk async for chunk in stream.chunks(silence_s_max=silence_s_max)])


async def test_a_stream_ends_when_the_server_ends_it() -> None:
    async with pair_with(raw(chunked(b"one", b"two") + END_OF_CHUNKS)) as (it, _):
        assert await read(it) == b"onetwo"


async def test_a_stream_torn_into_small_pieces_comes_whole() -> None:
    whole = chunked(b"x" * 50, b"y") + END_OF_CHUNKS
    async with pair_with(raw(*(whole[at : at + 3] for at in range(0, len(whole), 3)))) as (it, _):
        assert await read(it) == b"x" * 50 + b"y"


async def test_an_object_of_2_mib_passes() -> None:
    large = b"z" * (2 << 20)
    async with pair_with(raw(chunked(large) + END_OF_CHUNKS)) as (it, _):
        assert len(await read(it)) == len(large)


async def test_a_stream_that_breaks_off_is_unreachable_and_not_its_end() -> None:
    async with pair_with(raw(chunked(b"one"))) as (it, _):
        with pytest.raises(Unreachable, match="broke the connection off"):
            await read(it)


async def test_a_stream_that_falls_silent_is_given_up() -> None:
    async with pair_with(raw(chunked(b"one"), close=False)) as (it, _):
        with pytest.raises(Unreachable, match=r"nothing came for 0\.05 s"):
            await read(it, silence_s_max=0.05)


async def test_a_refused_stream_can_be_read_for_its_reason() -> None:
    async with (
        pair_with(answer(b"why", "403 Forbidden")) as (it, _),
        it.stream(a_request()) as stream,
    ):
        assert stream.status == 403
        assert [chunk async for chunk in stream.chunks(silence_s_max=5)] == [b"why"]


async def test_watches_do_not_keep_requests_waiting() -> None:
    async def reply(received: Received, writer: asyncio.StreamWriter) -> None:
        body = raw(chunked(b"event"), close=False) if "watch" in received.line else answer(b"fine")
        await body(received, writer)

    async with (
        peer(reply, context=tls(HERE)) as server,
        transport_to(server.url, connections_max=1) as it,
        it.stream(a_request(path="/watch/1")),
        it.stream(a_request(path="/watch/2")),
    ):
        assert (await it.request(a_request())).body == b"fine"


# -- cancellation --


@pytest.mark.parametrize("stage", ["before the head", "within the body"])
async def test_a_cancelled_request_gives_its_connection_back(stage: str) -> None:
    reached = asyncio.Event()

    async def hang(received: Received, writer: asyncio.StreamWriter) -> None:
        if stage == "within the body":
            writer.write(HEAD + b"Content-Length: 10\r\n\r\nhalf")
            await writer.drain()
        reached.set()
        await asyncio.Event().wait()

    async with (
        peer(hang, answer(b"fine"), context=tls(HERE)) as server,
        transport_to(server.url, connections_max=1) as it,
    ):
        task = asyncio.create_task(it.request(a_request()))
        await reached.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert task.cancelled()
        assert (await it.request(a_request())).body == b"fine"


# -- WebSockets --


@asynccontextmanager
async def websocket_peer(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_get("/exec", handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls(HERE))
    await site.start()
    try:
        yield re.sub("/$", "", f"https://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


async def echo(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(message.data)
        await socket.close()
    return socket


async def test_a_socket_carries_messages_until_the_peer_closes_it() -> None:
    async with (
        websocket_peer(echo) as url,
        transport_to(url) as it,
        it.socket(a_request(path="/exec"), ("v5.channel.k8s.io", "v4.channel.k8s.io")) as socket,
    ):
        assert socket.subprotocol == "v4.channel.k8s.io"
        await socket.send(b"\x00hello")
        assert await socket.receive() == b"\x00hello"
        assert await socket.receive() is None


async def test_a_socket_that_the_server_does_not_open_says_why() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"reason": "Forbidden", "message": "ann may not exec"}, status=403)

    async with websocket_peer(refuse) as url, transport_to(url) as it:
        with pytest.raises(Forbidden, match="ann may not exec"):
            async with it.socket(a_request(path="/exec"), ("v5.channel.k8s.io",)):
                pass


async def test_a_socket_that_breaks_off_before_it_is_open_is_asked_for_once() -> None:
    """It may be an exec, whose command would run twice."""
    async with pair_with(raw(b"")) as (it, server):
        with pytest.raises(Unreachable):
            async with it.socket(a_request(path="/exec"), ("v5.channel.k8s.io",)):
                pass
    assert len(server.received) == 1


async def test_a_socket_is_opened_with_fresh_credentials_after_a_401() -> None:
    async def check(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer new":
            return web.Response(status=401)
        return await echo(request)

    async with (
        websocket_peer(check) as url,
        transport_to(url, Auth(token="old"), Auth(token="new")) as it,
        it.socket(a_request(path="/exec"), ("v4.channel.k8s.io",)) as socket,
    ):
        assert socket.subprotocol == "v4.channel.k8s.io"


async def test_a_socket_refused_twice_is_unauthorized() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=401)

    async with websocket_peer(refuse) as url, transport_to(url, Auth(token="old"), Auth(token="new")) as it:
        with pytest.raises(Unauthorized):
            async with it.socket(a_request(path="/exec"), ("v4.channel.k8s.io",)):
                pass


# -- proxies --


@asynccontextmanager
async def proxy(status: str = "200 OK", context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, list[str]]]:
    asked: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0])
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
        if status != "200 OK":
            writer.close()
            return
        host, port = asked[-1].split()[1].split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


@pytest.mark.parametrize("context", [pytest.param(None, id="http"), pytest.param(tls(HERE), id="https")])
async def test_a_proxy_is_asked_to_connect_us(context: ssl.SSLContext | None) -> None:
    async with proxy(context=context) as (url, asked), peer(answer(b"fine"), context=tls(HERE)) as server:
        async with transport_to(server.url, proxy_url=url) as it:
            assert (await it.request(a_request())).body == b"fine"
            assert (await it.request(a_request())).body == b"fine"
        assert asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]


async def test_a_stream_through_a_proxy_of_https_may_be_left_early() -> None:
    async with (
        proxy(context=tls(HERE)) as (url, _),
        peer(raw(chunked(b"one\n"), close=False), context=tls(HERE)) as server,
        transport_to(server.url, proxy_url=url) as it,
        it.stream(a_request()) as stream,
    ):
        async for chunk in stream.chunks(silence_s_max=5.0):
            assert chunk == b"one\n"
            break


async def test_a_certificate_of_the_proxy_that_cannot_be_trusted_is_told_of_the_proxy() -> None:
    strangers = Authority("somebody else's").issue("proxy", address="127.0.0.1")
    async with proxy(context=tls(strangers)) as (url, asked), transport_to("https://a:1", proxy_url=url) as it:
        at = url.removeprefix("https://")
        with pytest.raises(Unreachable, match=f"https://a:1: the proxy {at}: its certificate is signed by") as caught:
            await it.request(a_request())
    assert not caught.value.sent
    assert asked == []


async def test_a_proxy_that_refuses_says_so() -> None:
    async with proxy("407 Proxy Authentication Required") as (url, _), transport_to("https://a:1", proxy_url=url) as it:
        with pytest.raises(Unreachable, match="the proxy refused to connect us: HTTP 407") as caught:
            await it.request(a_request())
    assert not caught.value.sent


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://kube.example:6443", "http://p:1"),
        ("https://127.0.0.1:6443", ""),
        ("https://localhost", ""),
        ("https://[::1]:6443", ""),
        ("https://a.internal", ""),
        ("http://kube.example", ""),
    ],
)
def test_the_environments_proxy_is_used_for_other_machines(url: str, expected: str) -> None:
    assert proxy_for(Server(url=url), {"https": "http://p:1", "no": "internal"}) == expected


@pytest.mark.parametrize(
    ("given", "used"),
    [
        pytest.param("p:3128", "http://p:3128", id="without a scheme it is one of HTTP"),
        pytest.param("https://p:3128", "https://p:3128", id="of HTTPS"),
        pytest.param("HTTP://p:3128", "HTTP://p:3128", id="in capitals"),
    ],
)
def test_a_proxy_may_be_written(given: str, used: str) -> None:
    assert proxy_for(Server(url="https://kube.example"), {"https": given}) == used


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("socks5://ann:hunter2@p:1", "socks5:// is not supported"),
        ("http://ann:hunter2@p:none", "expected a URL like http://host:3128"),
        ("ann:hunter2@p:99999", "expected a URL like http://host:3128"),
        ("http://ann:hunter2@:3128", "expected a URL like http://host:3128"),
    ],
)
def test_a_proxy_of_the_environment_that_cannot_be_used_is_named_as_such(given: str, says: str) -> None:
    with pytest.raises(CredentialsError, match=f"https_proxy of the environment: {says}") as caught:
        proxy_for(Server(url="https://kube.example"), {"https": given})
    assert "hunter2" not in str(caught.value)
