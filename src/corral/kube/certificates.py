"""Client certificates and authorities, checked before they are used, so that a person reads what is wrong with which.

A TLS library only says "handshake failure"; here it is said which certificate has expired, or that the key belongs to
another. Keys reach OpenSSL through memory, never through a file on a disk.
"""

import os
import ssl
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from corral.kube.credentials import ClientCertificate, Server, wrong


def check_certificate(pair: ClientCertificate, origin: str, now: datetime) -> None:
    """Raise CredentialsError for what cannot work: no PEM, expired, not valid yet, a key that does not match."""
    try:
        certificate = x509.load_pem_x509_certificates(pair.certificate)[0]
    except ValueError:
        raise wrong(origin, "the client certificate is not a PEM certificate") from None
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except TypeError:
        raise wrong(origin, "the client key is protected by a password; give a key without one") from None
    except Exception:  # cryptography raises several kinds for what is not a key
        raise wrong(origin, "the client key is not a PEM private key") from None
    _check_dates(certificate, origin, now)
    if _public_bytes(key.public_key()) != _public_bytes(certificate.public_key()):
        raise wrong(origin, f"the client key does not belong to the certificate of {_name(certificate)}")


def _check_dates(certificate: x509.Certificate, origin: str, now: datetime) -> None:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > ends:
        raise wrong(origin, f"the client certificate of {_name(certificate)} expired on {ends:%Y-%m-%d %H:%M} UTC")
    if now < begins:
        raise wrong(
            origin,
            f"the client certificate of {_name(certificate)} is valid from {begins:%Y-%m-%d %H:%M} UTC,"
            f" and it is {now.astimezone(UTC):%Y-%m-%d %H:%M} here: is the clock right?",
        )


def _public_bytes(key: object) -> bytes:
    encode = key.public_bytes  # type: ignore[attr-defined]
    return bytes(encode(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string() or "(no name)"


def tls_context(server: Server, pair: ClientCertificate | None, origin: str) -> ssl.SSLContext:
    """Trust as kubectl does: a given authority alone, even an intermediate one, without OpenSSL's strict extras."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif server.ca:
        _trust(context, server.ca, origin)
    else:
        context.load_default_certs()
    if pair is not None:
        _present(context, pair, origin)
    return context


def _trust(context: ssl.SSLContext, ca: bytes, origin: str) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise wrong(origin, "the certificate authority is not a PEM certificate") from None


def _present(context: ssl.SSLContext, pair: ClientCertificate, origin: str) -> None:
    memory = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(memory), "wb") as file:
            file.write(pair.certificate.rstrip() + b"\n" + pair.key)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    except ssl.SSLError as error:
        raise wrong(origin, f"the client certificate cannot be used: {error.reason}") from None
    finally:
        os.close(memory)
