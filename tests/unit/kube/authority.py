"""A certificate authority for tests: certificates that are good, expired, early or somebody else's."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


class Pair(msgspec.Struct, frozen=True):
    certificate: bytes
    key: bytes


class Authority:
    def __init__(self, name: str = "test authority") -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self._name, self._key, NOW - DAY, NOW + DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pem = _pem(builder.sign(self._key, hashes.SHA256()))

    def issue(
        self, name: str, *, host: str = "", address: str = "", begins: datetime = NOW - DAY, ends: datetime = NOW + DAY
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key, begins, ends)
        names: list[x509.GeneralName] = [x509.DNSName(host)] if host else []
        names += [x509.IPAddress(ipaddress.ip_address(address))] if address else []
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )


def encrypted(pair: Pair) -> Pair:
    key = serialization.load_pem_private_key(pair.key, None)
    form = serialization.PrivateFormat.PKCS8
    locked = key.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"secret"))
    return Pair(pair.certificate, locked)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
