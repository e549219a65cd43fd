"""The Token's decision, as a table: what is in the Secret, what is asked for, what happens."""

from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from corral.engine import Outcome, summary_lines
from corral.engine.plan import as_data
from corral.kinds.parts import KeyRef, Ref
from corral.kinds.token.controller import Signed, Snapshot, TokenReconciler, desired_secret, secret_name
from corral.kinds.token.signing import Validity, Wanted, is_due, issuer, validity
from corral.kinds.token.spec import Token, TokenSpec
from corral.kube.meta import ObjectMeta
from corral.slurm.tokens import jwks

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = b"k" * 32
WANTED = Wanted("alice", timedelta(minutes=10), refresh=True)


def signed(*, user: str = "alice", key: bytes = KEY, minutes: float = 10, at: datetime = NOW) -> bytes:
    claims = {"sun": user, "iat": int(at.timestamp()), "exp": int((at + timedelta(minutes=minutes)).timestamp())}
    return jwt.encode(claims, key, algorithm="HS256").encode()


def a_token(**spec: object) -> Token:
    fields = {"username": "alice", "jwt_key_ref": KeyRef(name="key", key="jwt.key"), "lifetime": "10m", **spec}
    metadata = ObjectMeta(name="ci", namespace="lab", uid="u1", generation=1)
    return Token(metadata=metadata, spec=TokenSpec(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        signed(user="bob"),
        signed(key=b"o" * 32),
        signed(minutes=20),
        jwt.encode({"sun": "alice", "exp": "soon", "iat": 0}, KEY, algorithm="HS256").encode(),
        jwt.encode({"sun": "alice", "exp": 2**63, "iat": 0}, KEY, algorithm="HS256").encode(),
        jwt.encode({"sun": "alice"}, KEY, algorithm="HS256").encode(),
        jwt.encode({"sun": "alice", "iat": 0, "exp": 600}, "", algorithm="none").encode(),
    ],
    ids=["empty", "no token", "user", "key", "lifetime", "no number", "far away", "endless", "unsigned"],
)
def test_what_is_not_as_asked_for_does_not_count(text: bytes) -> None:
    assert validity(text, KEY, WANTED) is None


def test_what_is_as_asked_for_is_kept_until_a_fifth_of_its_life_is_left() -> None:
    found = validity(signed(), KEY, WANTED)

    assert found == Validity(NOW, NOW + timedelta(minutes=10))
    assert not is_due(found, WANTED, NOW + timedelta(minutes=8, seconds=-1))
    assert is_due(found, WANTED, NOW + timedelta(minutes=8))


def test_one_that_is_not_to_be_refreshed_is_kept_whatever_the_time() -> None:
    wanted = Wanted("alice", timedelta(minutes=10), refresh=False)

    assert not is_due(validity(signed(), KEY, wanted), wanted, NOW + timedelta(days=1))


def pem(key: RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


async def test_a_pem_key_signs_rs256_and_another_one_or_its_text_does_not_count() -> None:
    mine, other = (pem(generate_private_key(65537, 2048)) for _ in range(2))
    made = (await issuer(mine, WANTED).issue(NOW)).text.encode()
    public = load_pem_private_key(mine, None).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    known = jwt.PyJWKSet.from_json(jwks([public]).decode())

    assert validity(made, mine, WANTED) == Validity(NOW, NOW + timedelta(minutes=10))
    assert known[jwt.get_unverified_header(made)["kid"]].key is not None
    assert validity(made, other, WANTED) is None
    assert validity(signed(key=b"x" * 32), mine, WANTED) is None
    assert validity(made, b"-----BEGIN NONSENSE-----", WANTED) is None


def snapshot(token: Token, *, now: datetime = NOW) -> Snapshot:
    return Snapshot(object=token, now=now, signed=Signed(signed(), Validity(NOW, NOW + timedelta(minutes=10))))


def test_a_new_token_plans_its_secret_and_when_to_look_again() -> None:
    assert summary_lines(TokenReconciler().plan(snapshot(a_token()))) == (
        "create Secret lab/ci-jwt-alice: the Secret does not exist yet (Missing)",
        "look again in 480 s",
    )


def test_one_that_ended_and_is_not_refreshed_needs_a_person() -> None:
    plan = TokenReconciler().plan(snapshot(a_token(refresh=False), now=NOW + timedelta(minutes=10)))

    assert [wait.reason for wait in plan.waits] == ["Expired"]
    assert plan.waits[0].stalled


def test_a_suspended_token_changes_nothing_and_says_so() -> None:
    token = a_token(suspend=True)
    plan = TokenReconciler().plan(snapshot(token))

    status = TokenReconciler().report(snapshot(token), Outcome(plan=plan))
    assert plan.is_empty
    assert status.conditions[0].reason == "Suspended"


def test_the_token_is_in_no_text_of_plan_status_or_snapshot() -> None:
    seen = snapshot(a_token())
    plan = TokenReconciler().plan(seen)
    status = TokenReconciler().report(seen, Outcome(plan=plan))

    for text in (*summary_lines(plan), str(as_data(plan)), str(status), repr(seen.signed)):
        assert signed().decode() not in text
        assert signed().split(b".")[2].decode() not in text


@pytest.mark.parametrize(
    ("username", "name"),
    [("alice", "ci-jwt-alice"), ("a_b", "ci-jwt-a-b"), ("a._b", "ci-jwt-a--b"), ("host$", "ci-jwt-host")],
)
def test_every_user_name_gives_a_name_that_a_secret_can_have(username: str, name: str) -> None:
    assert secret_name(a_token(username=username)) == name


def test_the_secret_may_be_named() -> None:
    secret = desired_secret(a_token(secret_ref=Ref(name="mine")), b"text")

    assert secret.metadata.name == "mine"
    assert secret.data == {"SLURM_JWT": b"text"}
