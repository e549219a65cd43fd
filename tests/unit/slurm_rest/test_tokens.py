import asyncio
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from corral.engine.clock import virtual_clock
from corral.slurm.tokens import ISSUE_WITHIN_S, FromCommand, Hs256, IssuerError, Rs256, Static, Tokens, jwks
from tests.unit.slurm_rest.builders import JWT, NEVER, CountingIssuer

NOW = datetime(2026, 1, 1, 12, 0, 0, 987654, tzinfo=UTC)
KEY = b"0123456789abcdef0123456789abcdef"


async def test_a_signed_token_has_the_claims_that_slurm_wants() -> None:
    token = await Hs256(KEY, user="slurm", lifetime=timedelta(minutes=5)).issue(NOW)

    claims = jwt.decode(token.text, KEY, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False})
    assert claims == {"sun": "slurm", "iat": int(NOW.timestamp()), "exp": int(NOW.timestamp()) + 300}
    assert token.expires_at == NOW.replace(microsecond=0) + timedelta(minutes=5)


async def test_an_rs256_token_is_verified_by_the_key_of_its_name_in_the_jwks() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    token = await Rs256(pem, user="slurm").issue(NOW)

    keys = {key.key_id: key for key in jwt.PyJWKSet.from_json(jwks([public]).decode()).keys}
    key = keys[jwt.get_unverified_header(token.text)["kid"]]
    assert jwt.decode(token.text, key, algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False})


@pytest.mark.parametrize(
    ("issuer", "says"),
    [
        pytest.param(Hs256(b"short", user="u"), "5 bytes", id="a short key"),
        pytest.param(Rs256(b"no pem", user="u"), "PEM", id="no private key"),
        pytest.param(Static(" "), "empty", id="an empty token"),
        pytest.param(Static("hunter2"), "not a JWT", id="no token"),
    ],
)
async def test_an_issuer_that_cannot_says_why_and_nothing_secret(issuer: Static, says: str) -> None:
    with pytest.raises(IssuerError, match=says) as failed:
        await issuer.issue(NOW)

    assert not any(secret in str(failed.value) for secret in ("short", "no pem", "hunter2"))


async def test_an_expired_static_token_is_an_error() -> None:
    old = await Hs256(KEY, user="u", lifetime=timedelta(seconds=1)).issue(NOW)

    with pytest.raises(IssuerError, match="expired"):
        await Static(old.text).issue(NOW + timedelta(seconds=2))


async def test_a_command_is_given_user_and_lifetime_and_its_line_is_read() -> None:
    asked: list[tuple[str, int]] = []

    async def scontrol(user: str, lifetime_s: int) -> str:
        asked.append((user, lifetime_s))
        return f"SLURM_JWT={JWT}\n"

    token = await FromCommand(scontrol, user="slurm", lifetime=timedelta(minutes=1)).issue(NOW)

    assert (token.text, asked) == (JWT, [("slurm", 60)])


async def test_what_a_command_prints_instead_is_not_quoted() -> None:
    async def scontrol(user: str, lifetime_s: int) -> str:
        return "password: hunter2"

    async def failing(user: str, lifetime_s: int) -> str:
        raise OSError("password: hunter2")

    for run in (scontrol, failing):
        with pytest.raises(IssuerError) as failed:
            await FromCommand(run, user="slurm").issue(NOW)
        assert "hunter2" not in str(failed.value)


async def test_keys_and_tokens_are_in_no_repr() -> None:
    issuer = Hs256(KEY, user="slurm")
    token = await issuer.issue(NOW)

    shown = f"{issuer!r} {issuer.identity} {token!r} {token} {Tokens(issuer, virtual_clock())!r} {Static(JWT)!r}"
    assert not any(secret in shown for secret in (KEY.decode(), KEY.hex(), token.text, JWT))


def test_identities_differ_with_key_and_user_only() -> None:
    same, again = Hs256(KEY, user="a"), Hs256(KEY, user="a")

    assert same.identity == again.identity
    assert len({same.identity, Hs256(KEY, user="b").identity, Hs256(KEY[::-1], user="a").identity}) == 3


@pytest.mark.looptime
async def test_many_waiters_get_one_token() -> None:
    issuer = CountingIssuer(takes_s=1)
    tokens = Tokens(issuer, virtual_clock())

    got = await asyncio.gather(*(tokens.current() for _ in range(20)))

    assert ({token.text for token in got}, issuer.issued) == ({"t1"}, 1)


@pytest.mark.looptime
async def test_a_token_is_refreshed_before_a_fifth_of_its_life_is_left_and_nobody_waits() -> None:
    issuer = CountingIssuer(takes_s=0)
    tokens = Tokens(issuer, virtual_clock())
    texts = []
    for pause_s in (0, 47, 2, 1):  # of 60
        await asyncio.sleep(pause_s)
        texts.append((await tokens.current()).text)

    assert texts == ["t1", "t1", "t1", "t2"]


@pytest.mark.looptime
async def test_while_no_new_one_can_be_had_the_old_one_is_used_until_it_ends() -> None:
    issuer = CountingIssuer()
    tokens = Tokens(issuer, virtual_clock())
    await tokens.current()
    issuer.trouble = IssuerError("the key is gone")
    await asyncio.sleep(57)

    assert (await tokens.current()).text == "t1"
    await asyncio.sleep(2)
    with pytest.raises(IssuerError, match="the key is gone"):
        await tokens.current()


@pytest.mark.looptime
async def test_a_rejected_token_is_replaced() -> None:
    tokens = Tokens(CountingIssuer(), virtual_clock())
    first = await tokens.current()
    tokens.reject(first)
    second = await tokens.current()
    tokens.reject(first)

    assert [second.text, (await tokens.current()).text] == ["t2", "t2"]


@pytest.mark.looptime
async def test_an_issuer_that_hangs_is_given_up() -> None:
    tokens = Tokens(CountingIssuer(takes_s=NEVER), virtual_clock())

    with pytest.raises(IssuerError, match=f"within {ISSUE_WITHIN_S:g} s"):
        await tokens.current()


@pytest.mark.looptime
async def test_a_waiter_that_leaves_does_not_take_the_token_from_the_others() -> None:
    issuer = CountingIssuer(takes_s=1)
    tokens = Tokens(issuer, virtual_clock())
    leaving, staying = asyncio.create_task(tokens.current()), asyncio.create_task(tokens.current())
    await asyncio.sleep(0.5)
    leaving.cancel()

    assert (await staying).text == "t1"
    assert leaving.cancelled()
