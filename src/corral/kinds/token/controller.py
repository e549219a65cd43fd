"""The Token's controller: a JWT in a Secret, signed again before a fifth of its life is left, or when the key changes.

Signing needs no server and no chance, but it is work with a key, so `observe` does it; the plan puts the result into
the Secret. Neither key nor token is in a status, a log line or the text of a plan.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from corral.engine import (
    NOTHING,
    Controller,
    Key,
    KindController,
    Outcome,
    Plan,
    Reader,
    Wait,
    children,
    conditions,
    verdict,
)
from corral.engine.controller import generation_changed
from corral.engine.status import SUSPENDED
from corral.kinds import keys, names
from corral.kinds.controller.spec import Controller as SlurmController
from corral.kinds.parts import KeyRef
from corral.kinds.telling import trouble
from corral.kinds.token.signing import Validity, Wanted, is_due, issuer, validity
from corral.kinds.token.spec import NO_KEY_NAMED, Token, TokenStatus
from corral.kube.meta import ObjectMeta, ObjectRef
from corral.kube.models.core_v1 import Secret
from corral.kube.values import parse_duration
from corral.slurm.tokens import IssuerError


class Signed(msgspec.Struct, frozen=True):
    """What the Secret must hold, and until when it is good."""

    text: bytes
    validity: Validity

    def __repr__(self) -> str:
        return f"<token until {self.validity.expires_at.isoformat()}>"


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    object: Token
    now: datetime
    secrets: tuple[Secret, ...] = ()  # ours, and whatever stands under the name that ours should have
    signed: Signed | None = None
    wait: Wait | None = None  # why nothing could be signed


class TokenReconciler:
    async def observe(self, key: Key, read: Reader) -> Snapshot | None:
        token = read.get(Token, key.name, key.namespace)
        if token is None:
            return None
        present = read.get(Secret, secret_name(token), key.namespace)
        owned = tuple(secret for secret in read.owned(Secret, token) if secret.metadata.name != secret_name(token))
        signed, wait = await _signed(token, present, read)
        secrets = (*owned, present) if present is not None else owned
        return Snapshot(object=token, now=read.now, secrets=secrets, signed=signed, wait=wait)

    def plan(self, snapshot: Snapshot, /) -> Plan:
        token, signed = snapshot.object, snapshot.signed
        if token.metadata.deletion_timestamp is not None or token.spec.suspend:
            return NOTHING
        if signed is None:
            whole = Plan(waits=(snapshot.wait,) if snapshot.wait else ())
        else:
            made = children(token, (desired_secret(token, signed.text),), snapshot.secrets)
            whole = made + next_look(token, signed.validity, snapshot.now)
        return trouble(token, token.status.conditions, whole) + whole

    def report(self, snapshot: Snapshot, outcome: Outcome, /) -> TokenStatus:
        token, signed = snapshot.object, snapshot.signed
        said = SUSPENDED if token.spec.suspend else verdict(outcome)
        in_place = signed is not None and outcome.problem is None and not token.spec.suspend
        shown = signed.validity if signed is not None and in_place else None
        before = token.status
        return TokenStatus(
            observed_generation=token.metadata.generation,
            conditions=conditions(token, before.conditions, said, snapshot.now),
            issued_at=shown.issued_at if shown else before.issued_at,
            expires_at=shown.expires_at if shown else before.expires_at,
            secret=secret_name(token),
        )


def secret_name(token: Token) -> str:
    if token.spec.secret_ref is not None:
        return token.spec.secret_ref.name
    return names.token_secret_name(token.metadata.name, token.spec.username)


def desired_secret(token: Token, text: bytes) -> Secret:
    metadata = ObjectMeta(name=secret_name(token), labels=names.labels("token", token.metadata.name))
    return Secret(metadata=metadata, data={names.TOKEN_KEY: text}, type="Opaque")


def next_look(token: Token, found: Validity, now: datetime) -> Plan:
    """When it must be signed again; for one that is not refreshed, when it ends and then that it has ended."""
    at = found.refresh_at if token.spec.refresh else found.expires_at
    if now < at:
        return Plan(again_after_s=(at - now).total_seconds())
    expired = f"the token expired at {found.expires_at.isoformat()} and spec.refresh is false"
    ended = f"{expired}: set it to true, or create a new Token"
    return Plan(waits=(Wait(reason="Expired", message=ended, stalled=True),))


async def _signed(token: Token, present: Secret | None, read: Reader) -> tuple[Signed | None, Wait | None]:
    """The present token if it still will do, else a new one; or why there is none."""
    spec, namespace = token.spec, token.metadata.namespace
    ref = signing_key(token, read)
    if isinstance(ref, Wait):
        return None, ref
    secret = read.get(Secret, ref.name, namespace)
    absent = keys.missing(ref, namespace, secret)
    if absent or secret is None:
        on = ObjectRef("Secret", namespace, ref.name)
        return None, Wait(reason="KeyMissing", message=f"waiting for the signing key: {absent}", on=on)
    key, wanted = secret.data[ref.key], Wanted(spec.username, parse_duration(spec.lifetime), spec.refresh)
    text = present.data.get(names.TOKEN_KEY, b"") if present is not None else b""
    found = validity(text, key, wanted)
    if found is not None and not is_due(found, wanted, read.now):
        return Signed(text, found), None
    try:
        made = await issuer(key, wanted).issue(read.now)
    except IssuerError as error:
        message = f"cannot sign with key {ref.key!r} of Secret {namespace}/{ref.name}: {error}"
        return None, Wait(reason="KeyUnusable", message=message, stalled=True)
    if made.expires_at is None:
        raise AssertionError("a token that is signed here has an end")
    return Signed(made.text.encode(), Validity(made.issued_at, made.expires_at)), None


def signing_key(token: Token, read: Reader) -> KeyRef | Wait:
    spec, namespace = token.spec, token.metadata.namespace
    if spec.jwt_key_ref is not None:
        return spec.jwt_key_ref
    if spec.controller_ref is None:
        return Wait(reason="NoKeyNamed", message=NO_KEY_NAMED, stalled=True)
    controller = read.get(SlurmController, spec.controller_ref.name, namespace)
    if controller is None:
        on = ObjectRef("Controller", namespace, spec.controller_ref.name)
        return Wait(reason="ControllerMissing", message=f"waiting for {on}, whose key signs the token", on=on)
    return keys.jwt_key_of(controller)


def _key_secret(token: Token) -> Iterable[tuple[str, str]]:
    return ((token.metadata.namespace, token.spec.jwt_key_ref.name),) if token.spec.jwt_key_ref else ()


def _target_secret(token: Token) -> Iterable[tuple[str, str]]:
    return ((token.metadata.namespace, secret_name(token)),)


def _controller_of(token: Token) -> Iterable[tuple[str, str]]:
    return ((token.metadata.namespace, token.spec.controller_ref.name),) if token.spec.controller_ref else ()


def _jwt_secret(controller: SlurmController) -> Iterable[tuple[str, str]]:
    return ((controller.metadata.namespace, keys.jwt_key_of(controller).name),)


def tokens_about(secret: Secret, read: Reader) -> Iterable[Key]:
    """Those that a Secret signs, and those whose place it takes."""
    where = (secret.metadata.namespace, secret.metadata.name)
    for index in ("key", "target"):
        yield from (_key(token) for token in read.by_index(Token, index, where))
    for controller in read.by_index(SlurmController, "jwt", where):
        yield from tokens_of(controller, read)


def tokens_of(controller: SlurmController, read: Reader) -> Iterable[Key]:
    where = (controller.metadata.namespace, controller.metadata.name)
    return [_key(token) for token in read.by_index(Token, "controller", where)]


def _key(token: Token) -> Key:
    return Key(token.metadata.namespace, token.metadata.name)


def token_controller() -> Controller[Token, Snapshot]:
    return (
        Controller.for_(Token, TokenReconciler())
        .owns(Secret)
        .watches(Secret, to=tokens_about)
        .watches(SlurmController, to=tokens_of, when=generation_changed)
        .indexes(Token, "key", _key_secret)
        .indexes(Token, "target", _target_secret)
        .indexes(Token, "controller", _controller_of)
        .indexes(SlurmController, "jwt", _jwt_secret)
    )


KINDS = (KindController(Token, token_controller),)
