"""Credentials from a program (`aws eks get-token`, `kubelogin`, ...): client.authentication.k8s.io v1 and v1beta1.

The program is run when there is no answer yet, when the last one has expired, and after a 401; never twice at once, and
once for all who wait for it, also when it fails: else each of them would wait for all the failures before its own.
It gets the cluster's description in KUBERNETES_EXEC_INFO and answers with an ExecCredential on its standard output,
which is checked and never shown. What it writes to its standard error is the person's to read: it goes straight to
the terminal when there is one, and otherwise into the error, with everything that looks like a secret taken out.
"""

import asyncio
import base64
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from corral.kube.certificates import check_certificate
from corral.kube.credentials import CONTROL, Auth, ClientCertificate, Server, fits_header, wrong
from corral.kube.errors import CredentialsError

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
RUN_S_MAX = 60.0
LOGIN_S_MAX = 300.0  # a person is asked
STDERR_CHARS_MAX = 1000
_TOKENS = re.compile(r"eyJ[\w-]+\.[\w.-]+|(?i:(token|password|secret|key)\S*[=:]\s*)\S+|[\w+/=-]{40,}")


class Variable(msgspec.Struct, frozen=True):
    name: str
    value: str

    def __repr__(self) -> str:
        return f"<Variable {self.name}>"


class Plugin(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """As a kubeconfig says it."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"

    def __repr__(self) -> str:
        return f"<Plugin {self.command}>"


class ExecPlugin:
    """A Source, see the module's docstring."""

    def __init__(
        self,
        plugin: Plugin,
        *,
        origin: str,
        folder: Path,
        cluster: Mapping[str, object],
        impersonation: tuple[tuple[str, str], ...] = (),
        now: Callable[[], datetime],
    ) -> None:
        if plugin.api_version not in VERSIONS:
            raise wrong(origin, f"exec: expected apiVersion {' or '.join(VERSIONS)}, got {plugin.api_version!r}")
        self._plugin = plugin
        self._origin = f"{origin}, exec plugin {plugin.command}"
        self._folder = folder
        self._cluster = cluster
        self._impersonation = impersonation
        self._now = now
        self._one_at_a_time = asyncio.Lock()
        self._held: Auth | None = None
        self._expires: datetime | None = None
        self._failures, self._failure = 0, ""

    def __repr__(self) -> str:
        return f"<ExecPlugin {self._plugin.command}: {self._held!r} until {self._expires or 'refused'}>"

    async def auth(self) -> Auth:
        known_failures = self._failures
        async with self._one_at_a_time:
            if self._held is not None and (self._expires is None or self._now() < self._expires):
                return self._held
            if self._failures > known_failures:  # while we waited
                raise self._wrong(self._failure)
            try:
                self._held, self._expires = self._read(await self._run())
            except CredentialsError as error:
                self._failures, self._failure = self._failures + 1, error.message
                raise
            return self._held

    def forget(self, refused: Auth) -> None:
        if self._held is refused:
            self._held = None

    async def _run(self) -> bytes:
        interactive = self._may_ask()
        run_s_max = LOGIN_S_MAX if interactive else RUN_S_MAX
        try:
            process = await asyncio.create_subprocess_exec(
                self._program(),
                *(self._plugin.args or ()),
                env=self._environment(interactive),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._wrong(f"cannot be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(run_s_max):
                output, errors = await process.communicate()
        except TimeoutError:
            raise self._wrong(f"gave no answer within {run_s_max:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise self._wrong(f"failed with exit code {process.returncode}{self._said(errors or b'')}")
        return output

    def _may_ask(self) -> bool:
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not terminal:
            raise self._wrong("wants to ask a person (interactiveMode: Always), and there is no terminal")
        return terminal and self._plugin.interactive_mode != "Never"

    def _program(self) -> str:
        """With a slash it is a path, relative to the kubeconfig; without one it is looked for on PATH."""
        command = self._plugin.command
        found = shutil.which(str(self._folder / command) if "/" in command else command)
        if found is None:
            hint = f"; {self._plugin.install_hint.strip()}" if self._plugin.install_hint else ""
            raise self._wrong(f"is not installed, or not executable{hint}")
        return found

    def _environment(self, interactive: bool) -> dict[str, str]:
        spec: dict[str, object] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        given = {variable.name: variable.value for variable in self._plugin.env or ()}
        return {**os.environ, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    def _read(self, output: bytes) -> tuple[Auth, datetime | None]:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._wrong(f"answered with something else than an ExecCredential: {error}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            got = f"{answer.api_version} {answer.kind}"
            raise self._wrong(f"expected an answer of {self._plugin.api_version} ExecCredential, got {got}")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._wrong("answered without a token and without a client certificate")
        if status.expiration_timestamp is not None and status.expiration_timestamp <= self._now():
            raise self._wrong(f"answered with a credential that expired at {status.expiration_timestamp.isoformat()}")
        return self._auth_of(status), status.expiration_timestamp

    def _auth_of(self, status: "_ExecStatus") -> Auth:
        pair = None
        if not fits_header(status.token):
            raise self._wrong(f"answered with a token that holds {CONTROL}")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._wrong("answered with only one of clientCertificateData and clientKeyData")
        if status.client_certificate_data:
            pair = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
            check_certificate(pair, self._origin, self._now())
        return Auth(token=status.token, certificate=pair, impersonation=self._impersonation)

    def _said(self, errors: bytes) -> str:
        text = errors.decode(errors="replace").strip()[-STDERR_CHARS_MAX:]
        for variable in self._plugin.env or ():
            if len(variable.value) >= 6:
                text = text.replace(variable.value, "***")
        text = _TOKENS.sub("***", text)
        return f": {text}" if text else ""

    def _wrong(self, message: str) -> CredentialsError:
        return wrong(self._origin, message)


def cluster_info(server: Server, extension: object) -> dict[str, object]:
    """What a plugin with `provideClusterInfo` is told."""
    told: dict[str, Any] = {"server": server.url, "config": extension}
    if server.ca:
        told["certificate-authority-data"] = base64.b64encode(server.ca).decode()
    if server.insecure:
        told["insecure-skip-tls-verify"] = True
    if server.tls_server_name:
        told["tls-server-name"] = server.tls_server_name
    if server.proxy_url:
        told["proxy-url"] = server.proxy_url
    return told


class _ExecStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""

    def __repr__(self) -> str:
        return "<_ExecStatus>"


class _ExecCredential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _ExecStatus | None = None
