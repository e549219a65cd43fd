"""Token: a JWT for a user of a Slurm cluster, kept fresh in a Secret."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from corral.kinds.parts import CATEGORIES, GROUP, VERSION, BasicStatus, KeyRef, Ref
from corral.kube.crd import Column, kind, rule, rules
from corral.kube.meta import Model, Object
from corral.kube.values import Duration

NO_KEY_NAMED = "set controllerRef or jwtKeyRef: the key that signs"


@rules(
    rule("has(self.controllerRef) || has(self.jwtKeyRef)", NO_KEY_NAMED),
    rule("!(has(self.controllerRef) && has(self.jwtKeyRef))", "set only one of controllerRef and jwtKeyRef"),
    rule("duration(self.lifetime) >= duration('1m')", "lifetime must be at least 1m"),
    rule("duration(self.lifetime) <= duration('8760h')", "lifetime must be at most a year (8760h)"),
)
class TokenSpec(Model, frozen=True, kw_only=True):
    controller_ref: Annotated[Ref | None, Meta(description="Sign with the JWT key of this Controller.")] = None
    jwt_key_ref: Annotated[
        KeyRef | None, Meta(description="Sign with this key: HS256, or RS256 when it is a PEM file.")
    ] = None
    username: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=64,
            pattern=r"^[a-z_][a-z0-9_.-]*\$?$",
            description="The user of the token (claim sun).",
        ),
    ]
    lifetime: Annotated[Duration, Meta(max_length=32)] = "15m"
    refresh: Annotated[bool, Meta(description="Sign again when a fifth of the lifetime is left.")] = True
    secret_ref: Annotated[
        Ref | None, Meta(description="The Secret that holds the token; default: NAME-jwt-USERNAME.")
    ] = None
    suspend: Annotated[bool, Meta(description="While true, Corral changes nothing.")] = False


class TokenStatus(BasicStatus, frozen=True, kw_only=True):
    issued_at: datetime | None = None
    expires_at: datetime | None = None
    secret: Annotated[str, Meta(max_length=253)] = ""


@kind(
    group=GROUP,
    version=VERSION,
    plural="tokens",
    short_names=("jwt",),
    categories=CATEGORIES,
    columns=(
        Column("User", "string", ".spec.username"),
        Column("Secret", "string", ".status.secret"),
        Column("Expires", "string", ".status.expiresAt"),
    ),
)
class Token(Object, frozen=True, kw_only=True):
    """A JWT for a user, in a Secret, signed again before it expires."""

    spec: TokenSpec
    status: TokenStatus = TokenStatus()
