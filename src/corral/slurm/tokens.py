"""Tokens for slurmrestd: made here or fetched, kept, refreshed early. Never an unauthenticated call instead.

An issuer makes one token; `Tokens` keeps it, begins a new one before a fifth of its life is left, makes one for however
many wait, and goes on with the old one while it is valid and no new one can be had. Keys and tokens are in no repr, log
line or error of this module.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Protocol

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from jwt.algorithms import RSAAlgorithm

from corral.slurm.clock import Clock

ISSUE_WITHIN_S = 20.0
REFRESH_WHEN_LEFT = 0.2  # of the whole life
RETRY_AFTER_S = 5.0  # a refresh that failed while the old token is still good
LAST_MOMENT_S = 2.0  # a token with less left than this is not sent: it must outlive its way to slurmctld


class IssuerError(Exception):
    """No token, and why. Says nothing of what the issuer was given."""


class Token(msgspec.Struct, frozen=True):
    """`text` goes into the request's header and nowhere else."""

    text: str
    issued_at: datetime
    expires_at: datetime | None = None  # None: its issuer does not say

    def __repr__(self) -> str:
        return f"<Token until {self.expires_at.isoformat()}>" if self.expires_at else "<Token>"

    __str__ = __repr__


class TokenIssuer(Protocol):
    @property
    def identity(self) -> str:
        """Differs exactly when the tokens would: another key, user or source. Holds nothing secret."""
        ...

    async def issue(self, now: datetime) -> Token:
        """A new token. Raises IssuerError only."""
        ...


class Hs256:
    """Signed here with the cluster's shared JWT key."""

    def __init__(self, key: bytes, *, user: str, lifetime: timedelta = timedelta(hours=1)) -> None:
        self._key, self._user, self._lifetime = key, user, lifetime
        self.identity = f"hs256:{user}:{lifetime.total_seconds():g}:{hashlib.sha256(key).hexdigest()[:16]}"

    def __repr__(self) -> str:
        return f"<Hs256 for {self._user}>"

    async def issue(self, now: datetime) -> Token:
        if len(self._key) < KEY_BYTES_MIN:
            raise IssuerError(f"the JWT key has {len(self._key)} bytes, and HS256 needs {KEY_BYTES_MIN} or more")
        return _signed(self._key, "HS256", self._user, now, self._lifetime)


class Rs256:
    """Signed here with a private key, whose public half slurmctld has in its JWKS file (`jwks` writes it)."""

    def __init__(self, private_key_pem: bytes, *, user: str, lifetime: timedelta = timedelta(hours=1)) -> None:
        self._pem, self._user, self._lifetime = private_key_pem, user, lifetime
        self.identity = f"rs256:{user}:{lifetime.total_seconds():g}:{hashlib.sha256(private_key_pem).hexdigest()[:16]}"

    def __repr__(self) -> str:
        return f"<Rs256 for {self._user}>"

    async def issue(self, now: datetime) -> Token:
        key = _private_key(self._pem)
        kid = thumbprint(key.public_key())
        return _signed(key, "RS256", self._user, now, self._lifetime, {"kid": kid})


class FromCommand:
    """What `scontrol token` printed: `run` is given user and lifetime's seconds, and returns its output."""

    def __init__(
        self, run: Callable[[str, int], Awaitable[str]], *, user: str, lifetime: timedelta = timedelta(hours=1)
    ) -> None:
        self._run, self._user, self._lifetime = run, user, lifetime
        self.identity = f"command:{user}:{lifetime.total_seconds():g}:{id(run)}"

    def __repr__(self) -> str:
        return f"<FromCommand for {self._user}>"

    async def issue(self, now: datetime) -> Token:
        try:
            output = await self._run(self._user, int(self._lifetime.total_seconds()))
        except Exception as error:
            # Its message may quote what it printed; the type is all that is safe to pass on.
            raise IssuerError(f"scontrol token for {self._user} failed: {type(error).__name__}") from None
        found = _PRINTED.search(output)
        if found is None:
            raise IssuerError(f"scontrol token for {self._user} printed no SLURM_JWT=... line")
        return Token(found[1], now, _expiry(found[1]))


class Static:
    """One that somebody else made. When it has expired, that is the error: it cannot be made anew here."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self.identity = f"static:{hashlib.sha256(self._text.encode()).hexdigest()[:16]}"

    def __repr__(self) -> str:
        return "<Static token>"

    async def issue(self, now: datetime) -> Token:
        if not self._text:
            raise IssuerError("the static token is empty")
        expires_at = _expiry(self._text)
        if expires_at is not None and expires_at <= now:
            raise IssuerError(f"the static token expired at {expires_at.isoformat()}")
        return Token(self._text, now, expires_at)


class Tokens:
    """One issuer's token, kept. Synchronous but for the wait for a new one."""

    def __init__(self, issuer: TokenIssuer, clock: Clock) -> None:
        self._issuer, self._clock = issuer, clock
        self._kept: _Kept | None = None
        self._issuing: asyncio.Task[Token] | None = None
        self._not_before_s = 0.0

    def __repr__(self) -> str:
        return f"<Tokens of {self._issuer!r}>"

    async def current(self) -> Token:
        """A token that is good for now. Raises IssuerError when there is none."""
        kept, now_s = self._kept, self._clock.monotonic_s()
        if kept is not None and now_s < kept.refresh_s:
            return kept.token
        if kept is not None and now_s < kept.end_s:
            if now_s >= self._not_before_s:
                self._begin()
            return kept.token
        return await self._issued()

    def reject(self, token: Token) -> None:
        """The server did not take it: the next question makes a new one."""
        if self._kept is not None and self._kept.token == token:
            self._kept = None

    async def close(self) -> None:
        if self._issuing is not None:
            self._issuing.cancel()
            with suppress(asyncio.CancelledError, IssuerError):
                await self._issuing

    async def _issued(self) -> Token:
        issuing = self._begin()
        try:
            return await asyncio.shield(issuing)
        except asyncio.CancelledError:
            if issuing.cancelled():  # by close, not by our caller
                raise IssuerError("closed while a token was being made") from None
            raise

    def _begin(self) -> "asyncio.Task[Token]":
        if self._issuing is None:
            self._issuing = asyncio.create_task(self._issue(), name="slurm-token")
            self._issuing.add_done_callback(self._ended)
        return self._issuing

    async def _issue(self) -> Token:
        try:
            async with asyncio.timeout(ISSUE_WITHIN_S):
                return await self._issuer.issue(self._clock.wall())
        except TimeoutError:
            raise IssuerError(f"{self._issuer!r} gave no token within {ISSUE_WITHIN_S:g} s") from None

    def _ended(self, issuing: "asyncio.Task[Token]") -> None:
        self._issuing = None
        now_s = self._clock.monotonic_s()
        if issuing.cancelled() or issuing.exception() is not None:
            self._not_before_s = now_s + RETRY_AFTER_S
            return
        self._kept = _kept(issuing.result(), self._clock.wall(), now_s)


class _Kept(msgspec.Struct, frozen=True):
    token: Token
    refresh_s: float
    end_s: float


def _kept(token: Token, now: datetime, now_s: float) -> _Kept:
    if token.expires_at is None:
        return _Kept(token, float("inf"), float("inf"))
    left_s = (token.expires_at - now).total_seconds()
    life_s = max(left_s, (token.expires_at - token.issued_at).total_seconds())
    return _Kept(token, now_s + left_s - REFRESH_WHEN_LEFT * life_s, now_s + left_s - LAST_MOMENT_S)


KEY_BYTES_MIN = 32
_PRINTED = re.compile(r"SLURM_JWT=([A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+)")


def _signed(
    key: bytes | RSAPrivateKey,
    algorithm: str,
    user: str,
    now: datetime,
    lifetime: timedelta,
    headers: dict[str, str] | None = None,
) -> Token:
    # Whole seconds: slurmctld refuses an exp that is no integer.
    issued_at = now.replace(microsecond=0)
    expires_at = issued_at + timedelta(seconds=int(lifetime.total_seconds()))
    claims = {"sun": user, "iat": int(issued_at.timestamp()), "exp": int(expires_at.timestamp())}
    try:
        return Token(jwt.encode(claims, key, algorithm=algorithm, headers=headers), issued_at, expires_at)
    except jwt.PyJWTError as error:
        raise IssuerError(f"the key cannot sign {algorithm} tokens: {type(error).__name__}") from None


def _private_key(pem: bytes) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IssuerError("the private key is not an unencrypted PEM key") from None
    if not isinstance(key, RSAPrivateKey):
        raise IssuerError("the private key is not an RSA key, which RS256 needs")
    return key


def _expiry(text: str) -> datetime | None:
    try:
        expires = jwt.decode(text, options={"verify_signature": False}).get("exp")
    except jwt.PyJWTError:
        raise IssuerError("the token is not a JWT") from None
    return datetime.fromtimestamp(expires, UTC) if isinstance(expires, int) else None


def jwks(public_keys_pem: Iterable[bytes]) -> bytes:
    """The file that `AuthAltParameters=jwks=...` names: every key whose tokens slurmctld accepts."""
    keys = []
    for pem in public_keys_pem:
        try:
            key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise IssuerError("a public key is not a PEM key") from None
        if not isinstance(key, RSAPublicKey):
            raise IssuerError("a public key is not an RSA key, which RS256 needs")
        keys.append({**_jwk(key), "alg": "RS256", "kid": thumbprint(key), "use": "sig"})
    return msgspec.json.format(msgspec.json.encode({"keys": keys}), indent=1) + b"\n"


def thumbprint(key: RSAPublicKey) -> str:
    """The key's name (RFC 7638): the same key always has the same."""
    parts = _jwk(key)
    canonical = msgspec.json.encode({name: parts[name] for name in ("e", "kty", "n")})
    return base64.urlsafe_b64encode(hashlib.sha256(canonical).digest()).rstrip(b"=").decode()


def _jwk(key: RSAPublicKey) -> dict[str, str]:
    jwk = RSAAlgorithm.to_jwk(key, as_dict=True)
    return {name: str(jwk[name]) for name in ("kty", "n", "e")}
