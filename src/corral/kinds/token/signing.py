"""Who signs, and is the token in a Secret still the one that is asked for, until when? Pure; shows no key and no token.

A key that is PEM text is a private RSA key: its tokens are RS256, and slurmctld knows its public half from a JWKS. Any
other key is slurmctld's own, and its tokens are HS256.

The token itself says all that has to be known: who signed it (the key verifies it or does not), for whom (`sun`) and
from when until when. So nothing is written down beside it, and another key, user or lifetime is noticed by itself.
"""

from datetime import UTC, datetime, timedelta

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt.types import Options

from corral.slurm.tokens import REFRESH_WHEN_LEFT, Hs256, Rs256, TokenIssuer

# Times are judged here, by the pass's own clock and not by PyJWT's.
OPTIONS: Options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "require": ["exp", "iat", "sun"]}


class Wanted(msgspec.Struct, frozen=True):
    """What a token must be like."""

    username: str
    lifetime: timedelta
    refresh: bool


class Validity(msgspec.Struct, frozen=True):
    issued_at: datetime
    expires_at: datetime

    @property
    def refresh_at(self) -> datetime:
        """The moment at which a fifth of its life is left."""
        return self.expires_at - REFRESH_WHEN_LEFT * (self.expires_at - self.issued_at)


def issuer(key: bytes, wanted: Wanted) -> TokenIssuer:
    signs = Rs256 if _is_pem(key) else Hs256
    return signs(key, user=wanted.username, lifetime=wanted.lifetime)


def _is_pem(key: bytes) -> bool:
    return key.lstrip().startswith(b"-----BEGIN ")


def _verifying(key: bytes) -> tuple[bytes | RSAPublicKey, str]:
    """Raises ValueError for PEM text that is no RSA key."""
    if not _is_pem(key):
        return key, "HS256"
    private = load_pem_private_key(key, password=None)
    if not isinstance(private, RSAPrivateKey):
        raise ValueError("not an RSA key")
    return private.public_key(), "RS256"


def validity(token: bytes, key: bytes, wanted: Wanted) -> Validity | None:
    """When the token is valid; None when it is not what is wanted: another key, user or lifetime, or no token."""
    try:
        verifying, algorithm = _verifying(key)
        claims = jwt.decode(token, verifying, algorithms=[algorithm], options=OPTIONS)
        found = Validity(datetime.fromtimestamp(claims["iat"], UTC), datetime.fromtimestamp(claims["exp"], UTC))
    except (jwt.PyJWTError, TypeError, ValueError, OverflowError, UnsupportedAlgorithm):
        return None
    lives = timedelta(seconds=int(wanted.lifetime.total_seconds()))
    if claims["sun"] != wanted.username or found.expires_at - found.issued_at != lives:
        return None
    return found


def is_due(found: Validity | None, wanted: Wanted, now: datetime) -> bool:
    """Whether a new token must be signed. One from the future is kept: clocks differ, and it will do."""
    if found is None:
        return True
    return wanted.refresh and now >= found.refresh_at
