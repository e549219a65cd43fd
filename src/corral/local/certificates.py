"""The cluster's certificates: three authorities, and one certificate for each user and each server.

Nothing shares a key. Who a component is to the API server stands in its certificate (CN the user, O the groups);
what it may do is RBAC. `up` issues again what is missing, about to expire, signed by another authority or made for
other addresses; what is still good keeps its bytes, so nothing restarts without a reason.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from corral.local.home import write
from corral.local.spec import DOMAIN, Spec

LIFE = timedelta(days=365)
AUTHORITY_LIFE = timedelta(days=3650)
RENEW_BEFORE = timedelta(days=30)
_BACKDATE = timedelta(minutes=5)  # clocks of machines that were suspended


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that is to exist: `file`.crt and `file`.key. An authority is its own `authority`."""

    file: str
    authority: str = "ca"
    user: str
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[IPv4Address, ...] = ()

    @property
    def is_authority(self) -> bool:
        return self.file == self.authority

    @property
    def is_server(self) -> bool:
        return bool(self.names or self.addresses)


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, as files hold them."""

    certificate: bytes
    key: bytes


def wanted(spec: Spec) -> tuple[Wanted, ...]:
    """Authorities first: whoever issues in this order always has the signer at hand."""
    loopback = IPv4Address("127.0.0.1")
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}")
    return (
        Wanted(file="ca", authority="ca", user=f"corral-{spec.name}"),
        Wanted(file="etcd-ca", authority="etcd-ca", user=f"corral-{spec.name}-etcd"),
        Wanted(file="front-proxy-ca", authority="front-proxy-ca", user=f"corral-{spec.name}-front-proxy"),
        Wanted(file="etcd", authority="etcd-ca", user="etcd", names=("localhost",), addresses=(loopback,)),
        Wanted(file="apiserver-etcd", authority="etcd-ca", user="kube-apiserver"),
        Wanted(
            file="apiserver",
            user="kube-apiserver",
            names=(*service, "localhost"),
            addresses=(loopback, spec.control_address, spec.services[1]),
        ),
        Wanted(file="apiserver-kubelet", user="kube-apiserver-kubelet-client"),
        Wanted(file="front-proxy", authority="front-proxy-ca", user="front-proxy-client"),
        Wanted(file="admin", user="corral-admin", groups=("system:masters",)),
        Wanted(file="supervisor", user="corral:supervisor"),
        Wanted(file="controller-manager", user="system:kube-controller-manager"),
        Wanted(file="scheduler", user="system:kube-scheduler"),
        Wanted(file="proxy", user="system:kube-proxy"),
        Wanted(file="dns", user="corral:dns"),
        Wanted(file="storage", user="corral:storage"),
        *(
            Wanted(
                file=node.name,
                user=f"system:node:{node.name}",
                groups=("system:nodes",),
                names=(node.name,),
                addresses=(node.address,),
            )
            for node in spec.nodes
        ),
    )


def ensure(directory: Path, wishes: Iterable[Wanted], now: datetime) -> tuple[str, ...]:
    """Issue what is not good any more; returns the files that were written."""
    issued: list[str] = []
    for wish in wishes:
        signer = None if wish.is_authority else read(directory, wish.authority)
        if reason_to_issue(_read_or_none(directory, wish.file), wish, signer, now):
            store(directory, wish.file, issue(wish, signer, now))
            issued.append(wish.file)
    return tuple(issued)


def ensure_service_account_key(directory: Path) -> None:
    """The key that signs service account tokens. It never expires: changing it would end every token."""
    if not (directory / "service-account.key").exists():
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        write(directory / "service-account.pub", public)
        write(directory / "service-account.key", _key_bytes(key), 0o600)


def reason_to_issue(pair: Pair | None, wish: Wanted, signer: Pair | None, now: datetime) -> str:
    """Why the certificate must be made again; empty when it is good."""
    if pair is None:
        return "missing"
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    if certificate.not_valid_after_utc - now < RENEW_BEFORE:
        return "expires soon"
    if signer is not None and not _signed_by(certificate, x509.load_pem_x509_certificate(signer.certificate)):
        return "signed by another authority"
    if certificate.subject != _subject(wish) or _alternatives(certificate) != _wanted_alternatives(wish):
        return "made for other names"
    return ""


def issue(wish: Wanted, signer: Pair | None, now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    if signer is None:
        issuer, signing_key = _subject(wish), key
    else:
        issuer = x509.load_pem_x509_certificate(signer.certificate).subject
        signing_key = _loaded_key(signer.key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(wish))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + (AUTHORITY_LIFE if wish.is_authority else LIFE))
        .add_extension(x509.BasicConstraints(ca=wish.is_authority, path_length=None), critical=True)
        .add_extension(_key_usage(wish), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    if not wish.is_authority:
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if wish.is_server else [])]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if wish.is_server:
        builder = builder.add_extension(x509.SubjectAlternativeName(_wanted_alternatives(wish)), critical=False)
    certificate = builder.sign(signing_key, hashes.SHA256())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_bytes(key))


def read(directory: Path, file: str) -> Pair:
    return Pair((directory / f"{file}.crt").read_bytes(), (directory / f"{file}.key").read_bytes())


def store(directory: Path, file: str, pair: Pair) -> None:
    """The key first: a certificate on disk always has one beside it. A kill between the two is seen by `read`."""
    write(directory / f"{file}.key", pair.key, 0o600)
    write(directory / f"{file}.crt", pair.certificate)


def _read_or_none(directory: Path, file: str) -> Pair | None:
    try:
        pair = read(directory, file)
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        return pair if certificate.public_key() == _loaded_key(pair.key).public_key() else None
    except (FileNotFoundError, ValueError):
        return None


def _loaded_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("expected an elliptic curve key")
    return key


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    # EC PRIVATE KEY, not PKCS #8: the controller-manager reads the service account key only in this form.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _subject(wish: Wanted) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in wish.groups]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, wish.user)])


def _wanted_alternatives(wish: Wanted) -> list[x509.GeneralName]:
    return [*(x509.DNSName(name) for name in wish.names), *(x509.IPAddress(address) for address in wish.addresses)]


def _alternatives(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # the library raises a different class for each kind of mismatch
        return False
    return True


def _key_usage(wish: Wanted) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=wish.is_authority,
        crl_sign=wish.is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
