"""Read kubeconfig files as kubectl does.

Several files (KUBECONFIG) are one: of two clusters, users or contexts with the same name the first is taken whole, and
the first current-context that is set counts. Files of the list that do not exist are passed over. Relative paths are
relative to the file that says them. What is wrong is said with the file and the path in it; values are never quoted,
since they may be keys and tokens.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from corral.kube.certificates import check_certificate
from corral.kube.credentials import (
    CONTROL,
    Auth,
    ClientCertificate,
    Credentials,
    Reread,
    Server,
    Source,
    can_be_asked,
    fits_header,
    wrong,
)
from corral.kube.errors import CredentialsError
from corral.kube.exec_plugin import ExecPlugin, Plugin, cluster_info
from corral.kube.proxies import checked_proxy

E = TypeVar("E", bound="Entry")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Nothing here shows values: any of them may be secret."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class Cluster(Part, frozen=True, kw_only=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] | None = None


class Extension(Part, frozen=True, kw_only=True):
    name: str = ""
    extension: object = None


class User(Part, frozen=True, kw_only=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: Mapping[str, tuple[str, ...]] = {}
    exec: Plugin | None = None
    auth_provider: object = None


class Context(Part, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    name: str


class NamedCluster(Entry, frozen=True, kw_only=True):
    cluster: Cluster


class NamedUser(Entry, frozen=True, kw_only=True):
    user: User | None = None


class NamedContext(Entry, frozen=True, kw_only=True):
    context: Context


class File(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    current_context: str | None = None
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Several files as one. Each entry comes with the file it is from."""

    origin: str
    current_context: str
    clusters: Mapping[str, tuple[Path, NamedCluster]]
    users: Mapping[str, tuple[Path, NamedUser]]
    contexts: Mapping[str, tuple[Path, NamedContext]]


def read_kubeconfig(paths: Iterable[Path]) -> Config:
    """At least one of the files must exist."""
    paths = tuple(paths)
    present = [(path, _read_file(path)) for path in paths if path.exists()]
    origin = ", ".join(str(path) for path in paths)
    if not present:
        raise wrong(origin, "no such file")
    return Config(
        origin=origin,
        current_context=next((file.current_context for _, file in present if file.current_context), ""),
        clusters=_first_of_each((path, file.clusters or ()) for path, file in present),
        users=_first_of_each((path, file.users or ()) for path, file in present),
        contexts=_first_of_each((path, file.contexts or ()) for path, file in present),
    )


def credentials_of(config: Config, context: str | None = None, *, now: Callable[[], datetime]) -> Credentials:
    """The credentials of a context, or of the current one."""
    name = context or config.current_context
    if not name:
        raise wrong(config.origin, f"no current context is set; name one of: {_names(config.contexts)}")
    path, named = _entry(config, "context", name, config.contexts)
    chosen = named.context
    origin = f"{path}, context {name}"
    if not chosen.cluster:
        raise wrong(origin, "the context names no cluster")
    cluster_path, cluster = _entry(config, "cluster", chosen.cluster, config.clusters, origin)
    server = _server(cluster_path, cluster)
    return Credentials(
        server=server,
        source=_source(config, chosen, cluster.cluster, server, origin, now),
        namespace=chosen.namespace or "default",
        origin=origin,
    )


def _read_file(path: Path) -> File:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise wrong(str(path), f"cannot be read: {_why(error)}") from None
    try:
        content = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise wrong(str(path), f"not YAML: {_where(error)}") from None
    if content is None:
        return File()
    try:
        return msgspec.convert(content, File)
    except msgspec.ValidationError as error:
        raise wrong(str(path), f"not a kubeconfig: {error}") from None


def _first_of_each(entries: Iterable[tuple[Path, tuple[E, ...]]]) -> dict[str, tuple[Path, E]]:
    merged: dict[str, tuple[Path, E]] = {}
    for path, ones in entries:
        for one in ones:
            merged.setdefault(one.name, (path, one))
    return merged


def _entry(
    config: Config, what: str, name: str, entries: Mapping[str, tuple[Path, E]], origin: str = ""
) -> tuple[Path, E]:
    if name not in entries:
        raise wrong(origin or config.origin, f"there is no {what} {name!r}; there is: {_names(entries)}")
    return entries[name]


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(entries) or "none"


def _server(path: Path, named: NamedCluster) -> Server:
    cluster, origin = named.cluster, f"{path}, cluster {named.name}"
    if "@" in cluster.server:
        raise wrong(origin, "server: a URL without a user name; name and password belong to the user's entry")
    if not re.match(r"https?://[^/]", cluster.server) or not can_be_asked(cluster.server):
        raise wrong(origin, f"server: expected a URL like https://host:6443, got {cluster.server!r}")
    ca = _bytes(
        origin, path, "certificate-authority", cluster.certificate_authority, cluster.certificate_authority_data
    )
    if ca and cluster.insecure_skip_tls_verify:
        raise wrong(origin, "certificate-authority and insecure-skip-tls-verify exclude each other")
    return Server(
        url=cluster.server.rstrip("/"),
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=checked_proxy(cluster.proxy_url, f"{origin}, proxy-url"),
    )


def _source(
    config: Config, chosen: Context, cluster: Cluster, server: Server, origin: str, now: Callable[[], datetime]
) -> Source:
    if not chosen.user:
        return Reread(Auth)
    path, named = _entry(config, "user", chosen.user, config.users, origin)
    user, who = named.user or User(), f"{path}, user {named.name}"
    if user.auth_provider is not None and not (user.token or user.exec):
        raise wrong(who, "auth-provider was removed from Kubernetes in 1.26; use the exec plugin of your provider")
    if user.exec is not None and not (user.token or user.token_file or user.username):
        told = next((one.extension for one in cluster.extensions or () if one.name == EXEC_EXTENSION), None)
        return ExecPlugin(
            user.exec,
            origin=who,
            folder=path.parent,
            cluster=cluster_info(server, told),
            impersonation=_impersonation(user, who),
            now=now,
        )
    source = Reread(lambda: _read_auth(user, path, who, now()))
    source.read()  # what is wrong with it is said now, not at the first request
    return source


def _read_auth(user: User, path: Path, origin: str, now: datetime) -> Auth:
    certificate = _bytes(origin, path, "client-certificate", user.client_certificate, user.client_certificate_data)
    key = _bytes(origin, path, "client-key", user.client_key, user.client_key_data)
    if bool(certificate) != bool(key):
        raise wrong(origin, "client-certificate and client-key are needed together, and only one is given")
    pair = ClientCertificate(certificate, key) if certificate else None
    if pair is not None:
        check_certificate(pair, origin, now)
    return Auth(
        token=_token(user, path, origin),
        username=user.username,
        password=user.password,
        certificate=pair,
        impersonation=_impersonation(user, origin),
    )


def _token(user: User, path: Path, origin: str) -> str:
    """The file goes before the value, as in kubectl; the value stands in while the file cannot be read."""
    if user.token_file:
        try:
            return read_token(path.parent / user.token_file, origin)
        except CredentialsError:
            if not user.token:
                raise
    if not fits_header(user.token):
        raise wrong(origin, f"token: expected one line with a token, found {CONTROL}")
    return user.token


def read_token(path: Path, origin: str) -> str:
    token = _file_bytes(origin, path, "token file").decode("ascii", "replace").strip()
    if not token or not token.isprintable() or "\ufffd" in token:
        raise wrong(
            origin, f"token file {path}: expected one line with a token, found {'none' if not token else 'other bytes'}"
        )
    return token


def _impersonation(user: User, origin: str) -> tuple[tuple[str, str], ...]:
    extra = ((f"Impersonate-Extra-{key}", value) for key, values in user.as_user_extra.items() for value in values)
    headers: tuple[tuple[str, str], ...] = (
        *((("Impersonate-User", user.as_user),) if user.as_user else ()),
        *((("Impersonate-Uid", user.as_uid),) if user.as_uid else ()),
        *(("Impersonate-Group", group) for group in user.as_groups),
        *extra,
    )
    if not all(fits_header(name) and fits_header(value) for name, value in headers):
        raise wrong(origin, f"as, as-uid, as-groups, as-user-extra: expected one line each, found {CONTROL}")
    return headers


def _bytes(origin: str, config_path: Path, field: str, file: str, data: str) -> bytes:
    """The data goes before the file, as in kubectl.

    What is given and empty is not taken as not given: then whoever the system trusts would be trusted, or we would be
    anonymous, and nobody would know why.
    """
    if data:
        where, content = f"{field}-data", _decoded(origin, field, data)
    elif file:
        path = config_path.parent / file
        where, content = f"{field} {path}", _file_bytes(origin, path, field)
    else:
        return b""
    if not content.strip():
        raise wrong(origin, f"{where}: it is empty")
    return content


def _decoded(origin: str, field: str, data: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise wrong(origin, f"{field}-data: not base64") from None


def _file_bytes(origin: str, path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise wrong(origin, f"{field} {path}: {_why(error)}") from None


def _why(error: Exception) -> str:
    return error.strerror or "cannot be read" if isinstance(error, OSError) else "not text"


def _where(error: yaml.YAMLError) -> str:
    """Without the snippet of the file that PyYAML would show: it may be a key."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return "it holds characters that YAML does not allow"
