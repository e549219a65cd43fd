"""The keys by which ssh clients know a login node again. Made once; only `generate` draws chance."""

import base64
import binascii
import hashlib
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

PRIVATE_PREFIX, PRIVATE_SUFFIX, PUBLIC_SUFFIX = "ssh_host_", "_key", "_key.pub"
RSA_BITS = 3072

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def generate() -> Mapping[str, bytes]:
    """Takes some tenths of a second; the content of the Secret, with the files' usual names."""
    made: dict[str, PrivateKey] = {
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "ecdsa": ec.generate_private_key(ec.SECP256R1()),
        "rsa": rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS),
    }
    found = {}
    for name, key in made.items():
        private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        found[f"{PRIVATE_PREFIX}{name}{PRIVATE_SUFFIX}"] = private
        found[f"{PRIVATE_PREFIX}{name}{PUBLIC_SUFFIX}"] = public + b"\n"
    return found


def has_private_key(data: Mapping[str, bytes]) -> bool:
    return any(name.startswith(PRIVATE_PREFIX) and name.endswith(PRIVATE_SUFFIX) and data[name] for name in data)


def fingerprints(data: Mapping[str, bytes]) -> tuple[str, ...]:
    """`SHA256:... (ssh-ed25519)` for each public key, as `ssh` shows them."""
    public = (data[name] for name in sorted(data) if name.endswith(PUBLIC_SUFFIX))
    return tuple(shown for key in public if (shown := _fingerprint(key)))


def _fingerprint(public: bytes) -> str:
    algorithm, _, rest = public.decode(errors="replace").partition(" ")
    try:
        blob = base64.b64decode(rest.split(" ")[0], validate=False)
    except binascii.Error:
        return ""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return f"SHA256:{digest} ({algorithm})"
