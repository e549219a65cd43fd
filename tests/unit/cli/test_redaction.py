"""No secret of the cluster is in a report, however it was spelt and whatever stands around it."""

import base64
import gzip
import io
import json
import tarfile
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.cli.bundle import Bundle, archived, bundled
from corral.cli.redaction import MARK, SECRET_LENGTH_MIN, needles, redactor

printable = st.characters(codec="utf-8", exclude_categories=["Cc"])
secret_text = st.text(printable, min_size=SECRET_LENGTH_MIN, max_size=30)
secret_bytes = st.binary(min_size=SECRET_LENGTH_MIN, max_size=64)
around = st.text(max_size=30)


@settings(max_examples=60)
@given(st.lists(secret_text, max_size=4), around)
def test_no_known_value_is_left_whatever_stands_around_it(values: list[str], text: str) -> None:
    redacted = redactor([value.encode() for value in values])(text.join(["", *values, *reversed(values), ""]))

    assert not [value for value in values if value in redacted]


@settings(max_examples=60)
@given(secret_bytes, st.binary(max_size=8), st.binary(max_size=8), around)
def test_no_value_is_left_in_any_spelling(value: bytes, before: bytes, after: bytes, text: str) -> None:
    whole = before + value + after
    spellings = [
        value.hex(),
        value.hex().upper(),
        base64.b64encode(value).decode(),
        base64.b64encode(whole).decode(),
        base64.urlsafe_b64encode(whole).decode(),
    ]
    redacted = redactor([value])(text.join(spellings))

    assert not [needle for needle in needles([value]) if needle in redacted]
    assert value.hex() not in redacted.lower()
    assert base64.b64encode(value).decode().rstrip("=") not in redacted


@settings(max_examples=60)
@given(st.binary(min_size=8, max_size=40), st.binary(max_size=8), st.binary(max_size=8))
def test_nothing_that_is_left_of_base64_decodes_to_the_value(value: bytes, before: bytes, after: bytes) -> None:
    left = redactor([value])(base64.b64encode(before + value + after).decode())

    pieces = [piece[skipped:] for piece in left.split(MARK) for skipped in range(4)]
    assert not [piece for piece in pieces if value in base64.b64decode(piece[: len(piece) // 4 * 4])]


@settings(max_examples=60)
@given(secret_text)
def test_json_and_urls_do_not_hide_a_value(value: str) -> None:
    redacted = redactor([value.encode()])(f"{json.dumps({'a': value})} /path?x={quote(value, safe='')}&y=1")

    assert value not in redacted
    assert quote(value, safe="") not in redacted


@settings(max_examples=60)
@given(st.sampled_from(["redacted", "[redacted]", "redact", "[redacted][redacted]", "acted][red", MARK * 2]), around)
def test_a_secret_that_looks_like_the_mark_is_taken_out_too(value: str, text: str) -> None:
    assert value not in redactor([value.encode()])(f"{text}{value}{value}{text}")


@settings(max_examples=60)
@given(st.lists(secret_bytes, max_size=3), around)
def test_what_is_redacted_once_stays_as_it_is(values: list[bytes], text: str) -> None:
    redact = redactor(values)
    once = redact(text + "".join(value.hex() for value in values))

    assert redact(once) == once


names = st.text(alphabet="abcdef/", min_size=1, max_size=8)


@settings(max_examples=30)
@given(st.dictionaries(names, around, max_size=4), st.lists(secret_bytes, max_size=3))
def test_an_archive_holds_what_was_bundled_and_nothing_secret(files: dict[str, str], values: list[bytes]) -> None:
    bundle = bundled({name: text + "".join(v.hex() for v in values) for name, text in files.items()}, values)
    archive = archived(bundle, "report", 0)

    content = gzip.decompress(archive)
    assert not [value for value in values if value.hex().encode() in content]
    with tarfile.open(fileobj=io.BytesIO(archive)) as unpacked:
        assert sorted(unpacked.getnames()) == sorted(f"report/{name}" for name in bundle.files)
    assert archive == archived(bundle, "report", 0)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("StoragePass=hunter2", f"StoragePass={MARK}"),
        ("storagepass = hunter2 x", f"storagepass = {MARK} x"),
        ('{"password": "hunter2", "user": "a"}', f'{{"password": "{MARK}", "user": "a"}}'),
        ("DB_PASSWORD: hunter2", f"DB_PASSWORD: {MARK}"),
        ("token=abcdefgh", f"token={MARK}"),
        ("SLURM_JWT=eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJzbHVybSJ9.c2lnbmF0dXJl", f"SLURM_JWT={MARK}"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nnext", f"{MARK}\nnext"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", MARK),
        ('password: "two words"\nuser: a', f'password: "{MARK}"\nuser: a'),
        ("data:\n  db-password: two words\n  user: a", f"data:\n  db-password: {MARK}\n  user: a"),
        ("mariadb --password hunter2 -u slurm", f"mariadb --password {MARK} -u slurm"),
        ("- name: DB_PASSWORD\n  value: hunter2\n", f"- name: DB_PASSWORD\n  value: {MARK}\n"),
        ('said "{\\"password\\": \\"hunter2\\"}"', f'said "{{\\"password\\": \\"{MARK}\\"}}"'),
        ("mysql://slurm:hunter2@db:3306/x", f"mysql://slurm:{MARK}@db:3306/x"),
        ("Authorization: Bearer 0123456789abcdef0123", f"Authorization: Bearer {MARK}"),
        (
            "data:\n  db-password: |\n    hunter2\n    more\n  user: a\n",
            f"data:\n  db-password: |\n    {MARK}\n  user: a\n",
        ),
        ("data:\n  password: |-\n    hunter2", f"data:\n  password: |-\n    {MARK}\n"),
    ],
)
def test_what_looks_like_a_secret_goes_though_nobody_knows_it(text: str, left: str) -> None:
    assert redactor([])(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "AuthType=auth/slurm AuthAltParameters=jwt_key=/etc/corral/keys/jwt.key",
        "StoragePassScript = (null)",
        "automountServiceAccountToken: false",
        "JobCompPass = (null)",
        "  passwd: |\n    alice:x:2001:2001::/home/alice:/bin/bash",
        "Slurmctld(primary) at demo-controller-0 is UP",
        "  secret:\n    secretName: demo-auth-slurm",
        "passwordKeyRef: {name: demo-database, key: password}",
        "auth/jwt: auth_p_token_generate: created token for slurm",
        "NodeName=worker-0 CPUAlloc=0 RealMemory=512",
        "- name: MYSQL_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: demo-database}",
        "tokenFile: |\n  /run/token",
        "https://10.96.0.1:6443/api/v1/namespaces/lab/secrets/demo-auth-slurm@7",
        "kind: Token\nspec:\n  username: alice",
        "a basic check of all nodes",
    ],
)
def test_ordinary_output_stays_as_it_is(text: str) -> None:
    assert redactor([b"64-bytes-of-key-that-is-not-here"])(text) == text


def test_a_password_inside_a_file_that_is_a_secret_is_known_by_itself() -> None:
    file = b"AuthType=auth/slurm\nStorageUser=slurm\nStoragePass=hunter2hunter2\n"
    redact = redactor([file])

    assert redact("cannot connect as slurm with hunter2hunter2 now") == f"cannot connect as slurm with {MARK} now"
    assert redact("AuthType=auth/slurm") == "AuthType=auth/slurm"


def test_lines_of_a_key_are_known_each_by_itself() -> None:
    key = b"-----BEGIN X-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQ==\n-----END X-----\n"

    assert redactor([key])("seen MIIEvQIBADANBgkqhkiG9w0BAQ here") == f"seen {MARK} here"


def test_values_of_a_few_characters_are_not_looked_for() -> None:
    assert redactor([b"slurm", b"1"])("slurm has 1 node") == "slurm has 1 node"


def test_the_bundle_tells_which_files_had_something_in_them() -> None:
    bundle = bundled({"a": "fine", "b": "hunter2hunter2"}, [b"hunter2hunter2"])

    assert bundle == Bundle({"a": "fine", "b": MARK}, ("b",))
