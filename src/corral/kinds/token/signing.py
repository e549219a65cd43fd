"""Is the token in a Secret still the one that is asked for, and until when? Pure; shows neither key nor token.

The token itself says all that has to be known: who signed it (the key verifies it or does not), for whom (`sun`) and
from when until when. So nothing is written down beside it, and another key, user or lifetime is noticed by itself.
"""

from datetime import UTC, datetime, timedelta

import jwt
import msgspec
from jwt.types import Options

from corral.slurm.tokens import REFRESH_WHEN_LEFT

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


def validity(token: bytes, key: bytes, wanted: Wanted) -> Validity | None:
    """When the token is valid; None when it is not what is wanted: another key, user or lifetime, or no token."""
    try:
        claims = jwt.decode(token, key, algorithms=["HS256"], options=OPTIONS)
        found = Validity(datetime.fromtimestamp(claims["iat"], UTC), datetime.fromtimestamp(claims["exp"], UTC))
    except (jwt.PyJWTError, TypeError, ValueError, OverflowError):
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
