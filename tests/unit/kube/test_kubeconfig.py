"""Kubeconfig files: how they are merged, what is read from them, and one clear sentence for each way to be wrong."""

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.kube.credentials import Auth, Credentials, Reread
from corral.kube.errors import CredentialsError, Subject
from corral.kube.kubeconfig import credentials_of, read_kubeconfig
from corral.kube.load import load_credentials
from tests.unit.kube.authority import DAY, NOW, Authority, encrypted

AUTHORITY = Authority()
GOOD = AUTHORITY.issue("somebody")
SECRET = "s3cr3t-value"
EMPTY = "/dev/null"

Write = Callable[..., Path]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_config(
        name: str = "config",
        *,
        cluster: dict[str, Any] | None = None,
        user: dict[str, Any] | None = None,
        context: dict[str, Any] | None = None,
        called: str = "lab",
        current: str | None = "lab",
    ) -> Path:
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": called, "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
            "users": [{"name": called, "user": user or {}}],
            "contexts": [{"name": called, "context": {"cluster": called, "user": called, **(context or {})}}],
            **({"current-context": current} if current else {}),
        }
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content))
        return path

    return write_config


def load(*paths: Path, context: str | None = None) -> Credentials:
    return credentials_of(read_kubeconfig(paths), context, now=lambda: NOW)


async def auth(credentials: Credentials) -> Auth:
    return await credentials.source.auth()


async def test_a_plain_kubeconfig(write: Write) -> None:
    cluster = {
        "certificate-authority-data": encoded(AUTHORITY.pem),
        "tls-server-name": "kube",
        "proxy-url": "http://p:8",
    }
    credentials = load(write(cluster=cluster, user={"token": SECRET}, context={"namespace": "team"}))

    assert credentials.server.url == "https://10.0.0.1:6443"
    assert credentials.server.ca == AUTHORITY.pem
    assert (credentials.server.tls_server_name, credentials.server.proxy_url) == ("kube", "http://p:8")
    assert credentials.namespace == "team"
    assert (await auth(credentials)).headers() == (("Authorization", f"Bearer {SECRET}"),)


async def test_basic_authentication(write: Write) -> None:
    credentials = load(write(user={"username": "ann", "password": "pw"}))

    assert (await auth(credentials)).headers() == (("Authorization", "Basic YW5uOnB3"),)


async def test_impersonation_is_passed_on(write: Write) -> None:
    user = {"token": "t", "as": "bob", "as-groups": ["a", "b"], "as-uid": "7", "as-user-extra": {"scope": ["x"]}}
    credentials = load(write(user=user))

    assert (await auth(credentials)).headers()[1:] == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scope", "x"),
    )


async def test_files_are_relative_to_the_kubeconfig_that_names_them(write: Write, tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    for name, data in (("ca.crt", AUTHORITY.pem), ("me.crt", GOOD.certificate), ("me.key", GOOD.key)):
        (folder / name).write_bytes(data)
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    credentials = load(write("deep/config", cluster={"certificate-authority": "ca.crt"}, user=user))

    certificate = (await auth(credentials)).certificate
    assert credentials.server.ca == AUTHORITY.pem
    assert certificate is not None
    assert (certificate.certificate, certificate.key) == (GOOD.certificate, GOOD.key)


async def test_data_goes_before_a_file(write: Write) -> None:
    cluster = {"certificate-authority": "absent", "certificate-authority-data": encoded(AUTHORITY.pem)}

    assert load(write(cluster=cluster)).server.ca == AUTHORITY.pem


async def test_of_several_files_the_first_to_name_something_wins(write: Write) -> None:
    first = write("one", called="a", current=None, user={"token": "from-one"})
    second = write("two", called="a", current="a", user={"token": "from-two"})
    third = write("three", called="b", current="b")
    credentials = load(first, second, third)

    assert (await auth(credentials)).token == "from-one"
    assert "context a" in credentials.origin
    assert load(first, second, third, context="b").origin.startswith(str(third))


def test_files_of_the_list_that_do_not_exist_are_passed_over(write: Write, tmp_path: Path) -> None:
    assert load(tmp_path / "absent", write()).server.url == "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        pytest.param({"cluster": {"server": "10.0.0.1"}}, "expected a URL like https://host:6443", id="server"),
        pytest.param({"cluster": {"server": "https://a:b@c"}}, "without a user name", id="password in the URL"),
        pytest.param({"cluster": {"server": "https://host:abc"}}, "a URL like .*, got 'https://host:abc'", id="port"),
        pytest.param({"cluster": {"server": "https://host:99999"}}, "expected a URL like https://host", id="high port"),
        pytest.param({"cluster": {"server": "https://:6443"}}, "expected a URL like https://host:6443", id="no host"),
        pytest.param({"cluster": {"server": "https://[::1"}}, "expected a URL like https://host:6443", id="half IPv6"),
        pytest.param({"cluster": {"certificate-authority": "ca.crt"}}, "ca.crt: No such file", id="no CA file"),
        pytest.param({"cluster": {"certificate-authority": EMPTY}}, f"authority {EMPTY}: it is empty", id="empty CA"),
        pytest.param({"cluster": {"certificate-authority-data": " "}}, "authority-data: it is empty", id="empty data"),
        pytest.param({"cluster": {"certificate-authority-data": "%%%"}}, "authority-data: not base64", id="CA base64"),
        pytest.param(
            {"cluster": {"certificate-authority-data": encoded(b"x"), "insecure-skip-tls-verify": True}},
            "exclude each other",
            id="CA and insecure",
        ),
        pytest.param({"cluster": {"proxy-url": "socks5://p:1"}}, "socks5:// is not supported", id="proxy"),
        pytest.param({"cluster": {"proxy-url": "http://p:x"}}, "a URL like http://host:3128", id="port of the proxy"),
        pytest.param({"context": {"cluster": "gone"}}, "there is no cluster 'gone'; there is: lab", id="no cluster"),
        pytest.param({"context": {"user": "gone"}}, "there is no user 'gone'; there is: lab", id="no user"),
        pytest.param({"context": {"cluster": ""}}, "names no cluster", id="context without cluster"),
        pytest.param({"current": "gone"}, "there is no context 'gone'; there is: lab", id="no context"),
        pytest.param({"current": None}, "no current context is set; name one of: lab", id="no current context"),
        pytest.param({"user": {"client-certificate-data": encoded(GOOD.certificate)}}, "needed together", id="no key"),
        pytest.param(
            {"user": {"client-certificate": EMPTY, "client-key": EMPTY}},
            f"client-certificate {EMPTY}: it is empty",
            id="empty certificate",
        ),
        pytest.param(
            {"user": {"client-certificate-data": encoded(GOOD.certificate), "client-key": EMPTY}},
            f"client-key {EMPTY}: it is empty",
            id="empty key",
        ),
        pytest.param({"user": {"tokenFile": "absent"}}, "absent: No such file", id="no token file"),
        pytest.param({"user": {"tokenFile": EMPTY}}, "one line with a token, found none", id="empty token file"),
        pytest.param({"user": {"token": f"{SECRET}\n"}}, "token: .* found a line break or another", id="token's end"),
        pytest.param(
            {"user": {"tokenFile": "absent", "token": f"{SECRET}\x07"}},
            "token: .* found a line break or another",
            id="control character in the token that stands in",
        ),
        *(
            pytest.param({"user": {"as": "bob", field: value}}, "as-user-extra: .* found a line break", id=named)
            for named, field, value in (
                ("as", "as", "bob\r\nX: y"),
                ("uid", "as-uid", "7\n"),
                ("group", "as-groups", ["a", "b\n"]),
                ("extra", "as-user-extra", {"scope": ["x\n"]}),
                ("name of an extra", "as-user-extra", {"sc\nope": ["x"]}),
            )
        ),
        pytest.param(
            {"user": {"as": "bob\n", "exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}},
            "as-user-extra: .* found a line break",
            id="impersonation beside a plugin",
        ),
        pytest.param({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider was removed", id="auth provider"),
        pytest.param({"user": {"token": 7}}, r"not a kubeconfig: Expected `str`, got `int`", id="type"),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
            "expected apiVersion client.authentication.k8s.io/v1 or",
            id="plugin version",
        ),
    ],
)
def test_what_is_wrong_is_said(write: Write, parts: dict[str, Any], says: str) -> None:
    path = write(**parts)

    with pytest.raises(CredentialsError, match=says) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert SECRET not in str(caught.value)


def certificate(pair: Any) -> dict[str, str]:
    return {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}


@pytest.mark.parametrize(
    ("user", "says"),
    [
        pytest.param(
            certificate(AUTHORITY.issue("ann", begins=NOW - 3 * DAY, ends=NOW - DAY)),
            r"certificate of CN=ann expired on \d{4}-",
            id="expired",
        ),
        pytest.param(certificate(AUTHORITY.issue("ann", begins=NOW + DAY, ends=NOW + 2 * DAY)), "clock", id="early"),
        pytest.param(
            {**certificate(GOOD), "client-key-data": encoded(AUTHORITY.issue("x").key)},
            "does not belong to the certificate of CN=somebody",
            id="other key",
        ),
        pytest.param(certificate(encrypted(GOOD)), "protected by a password", id="password"),
        pytest.param({**certificate(GOOD), "client-key-data": encoded(b"junk")}, "not a PEM private key", id="no key"),
        pytest.param(
            {**certificate(GOOD), "client-certificate-data": encoded(b"junk")}, "not a PEM certificate", id="no PEM"
        ),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said(write: Write, user: dict[str, str], says: str) -> None:
    with pytest.raises(CredentialsError, match=says):
        load(write(user=user))


@pytest.mark.parametrize(
    "text",
    [
        "users: [{name: x, user: {token: s3cr3t-value}",
        "token: s3cr3t-value\n\t- x",
        "s3cr3t-value",
        "users: s3cr3t-value",
    ],
)
def test_a_file_that_is_no_kubeconfig_is_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(CredentialsError, match=r"not YAML|not a kubeconfig") as caught:
        load(path)
    assert SECRET not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="absent: no such file"):
        load_credentials(tmp_path / "absent")


async def test_no_secret_shows_in_a_repr(write: Write) -> None:
    user = {"token": SECRET, "username": "ann", "password": SECRET, **certificate(GOOD)}
    path = write(user=user, cluster={"proxy-url": f"http://ann:{SECRET}@proxy:8"})
    credentials = load(path)
    parts = (credentials, credentials.server, credentials.source, await auth(credentials), read_kubeconfig([path]))
    shown = repr(parts)

    assert SECRET not in shown
    assert "PRIVATE KEY" not in shown
    assert encoded(GOOD.key) not in shown


async def test_a_token_file_goes_before_a_token_that_stands_in_while_it_cannot_be_read(
    write: Write, tmp_path: Path
) -> None:
    credentials = load(write(user={"tokenFile": "token", "token": "spare"}))
    assert (await auth(credentials)).token == "spare"

    (tmp_path / "token").write_text("fresh\n")
    credentials.source.forget(await auth(credentials))
    assert (await auth(credentials)).token == "fresh"


async def test_files_are_read_again_every_minute_and_after_a_refusal() -> None:
    token, now_s = iter("abcdef"), 0.0
    source = Reread(lambda: Auth(token=next(token)), lambda: now_s)
    first = await source.auth()
    now_s = 59.0
    assert await source.auth() is first
    now_s = 60.0
    second = await source.auth()
    assert second.token == "b"
    source.forget(first)
    assert await source.auth() is second
    source.forget(second)
    assert (await source.auth()).token == "c"


async def test_a_file_that_cannot_be_read_for_a_moment_does_no_harm() -> None:
    now_s = 0.0

    def read() -> Auth:
        if now_s:
            raise CredentialsError(Subject("read", "credentials"), "being replaced")
        return Auth(token="held")

    source = Reread(read, lambda: now_s)
    await source.auth()
    now_s = 61.0

    assert (await source.auth()).token == "held"


# -- where they are looked for --


def service_account(folder: Path) -> Path:
    folder.mkdir()
    (folder / "token").write_text("pod-token\n")
    (folder / "ca.crt").write_bytes(AUTHORITY.pem)
    (folder / "namespace").write_text("team")
    return folder


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    credentials = load_credentials(environment=POD, service_account=folder)

    assert credentials.server.url == "https://10.96.0.1:443"
    assert (credentials.server.ca, credentials.namespace) == (AUTHORITY.pem, "team")
    assert (await auth(credentials)).token == "pod-token"


async def test_a_rotated_service_account_token_is_read_after_a_refusal(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    credentials = load_credentials(environment=POD, service_account=folder)
    (folder / "token").write_text("rotated")
    credentials.source.forget(await auth(credentials))

    assert (await auth(credentials)).token == "rotated"


def test_a_service_account_reached_by_an_ipv6_address(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    environment = {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}

    assert load_credentials(environment=environment, service_account=folder).server.url == "https://[fd00::1]:443"


def test_a_service_account_without_its_authority_is_said(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    (folder / "ca.crt").unlink()

    with pytest.raises(CredentialsError, match=r"ca.crt: No such file"):
        load_credentials(environment=POD, service_account=folder)


def test_a_service_account_whose_authority_is_empty_does_not_trust_whom_the_system_trusts(tmp_path: Path) -> None:
    folder = service_account(tmp_path / "account")
    (folder / "ca.crt").write_text("\n")

    with pytest.raises(CredentialsError, match=r"ca.crt: it is empty"):
        load_credentials(environment=POD, service_account=folder)


def test_credentials_are_looked_for_in_order(write: Write, tmp_path: Path) -> None:
    named, listed = write("named", called="named", current="named"), write("listed", called="listed", current="listed")
    home = write(".kube/config", called="home", current="home")
    folder = service_account(tmp_path / "account")
    everything = {**POD, "KUBECONFIG": os.pathsep.join(("", str(listed))), "HOME": str(home.parent.parent)}
    nowhere = tmp_path / "no-pod"

    def found(environment: dict[str, str], account: Path, kubeconfig: Path | None = None, **more: str) -> str:
        return load_credentials(kubeconfig, environment=environment, service_account=account, **more).origin

    only_home = {"HOME": str(home.parent.parent)}
    assert "named" in found(everything, folder, named)
    assert "listed" in found(everything, folder)
    assert "service account" in found({**POD, **only_home}, folder)
    assert "context home" in found({**POD, **only_home}, folder, context="home")
    assert "context home" in found(only_home, nowhere)


def test_nothing_anywhere_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="KUBECONFIG is not set, and this is not a pod; name a kubeconfig"):
        load_credentials(environment={"HOME": str(tmp_path)}, service_account=tmp_path / "no-pod")
