"""The keys of auth/slurm as a set (a JWKS file): one signs, all verify. Pure; shows no key.

A key's id is the number of the rotation that brought it. From one key to the next there are three sets, and a daemon
that has loaded one of them understands whoever has loaded the one before or after it:

    1*        settled
    1* 2      introduced: the new key verifies everywhere before anybody signs with it
    1  2*     signing: nobody signs with the old key any more, and what it signed still counts
    2*        settled again
"""

import base64
import binascii
from enum import StrEnum
from typing import Any

import msgspec


class Stage(StrEnum):
    SETTLED = "Settled"
    INTRODUCED = "Introduced"
    SIGNING = "Signing"


class SlurmKey(msgspec.Struct, frozen=True):
    number: int
    secret: bytes

    def __repr__(self) -> str:
        return f"<SlurmKey {self.number}>"


class KeySet(msgspec.Struct, frozen=True):
    """Ordered by number; `signing` is the number of the one that signs."""

    keys: tuple[SlurmKey, ...]
    signing: int

    @property
    def newest(self) -> int:
        return max(key.number for key in self.keys)

    @property
    def stage(self) -> Stage:
        if len(self.keys) == 1:
            return Stage.SETTLED
        return Stage.SIGNING if self.signing == self.newest else Stage.INTRODUCED


class _Jwk(msgspec.Struct, omit_defaults=True):
    kid: str
    k: str
    alg: str = ""
    kty: str = ""
    use: str = ""


class _Jwks(msgspec.Struct):
    keys: list[_Jwk]


def first(number: int, secret: bytes) -> KeySet:
    return KeySet((SlurmKey(number, secret),), number)


def following(present: KeySet, wanted: int, fresh: bytes) -> KeySet:
    """The set after this one on the way to key `wanted`; the same when it is there. Numbers never go down."""
    if wanted > present.newest:
        return KeySet((*present.keys, SlurmKey(wanted, fresh)), present.signing)
    if present.stage is Stage.INTRODUCED:
        return KeySet(present.keys, present.newest)
    return KeySet(tuple(key for key in present.keys if key.number == present.signing), present.signing)


def encoded(keys: KeySet) -> bytes:
    """As Slurm reads it: the one that is used by default signs."""

    def jwk(key: SlurmKey) -> dict[str, Any]:
        secret = base64.urlsafe_b64encode(key.secret).rstrip(b"=").decode()
        known = {"alg": "HS256", "kty": "oct", "kid": str(key.number), "k": secret}
        return {**known, "use": "default"} if key.number == keys.signing else known

    return msgspec.json.encode({"keys": [jwk(key) for key in keys.keys]}) + b"\n"


def parsed(text: bytes) -> KeySet | None:
    """None: not a set of ours."""
    try:
        found = msgspec.json.decode(text, type=_Jwks).keys
        keys = tuple(SlurmKey(int(one.kid), _secret(one.k)) for one in found)
        signing = [int(one.kid) for one in found if one.use == "default"]
    except (msgspec.DecodeError, ValueError, binascii.Error):
        return None
    if len(signing) != 1 or len({key.number for key in keys}) != len(keys):
        return None
    return KeySet(tuple(sorted(keys, key=lambda key: key.number)), signing[0])


def _secret(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
