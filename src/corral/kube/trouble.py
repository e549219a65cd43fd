"""What a failed exchange with the API server means, in a sentence that says what to look at.

`border` is the only place where errors of aiohttp, ssl and the operating system are caught. They are not chained: an
aiohttp error carries the request's headers, and with them the token.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from yarl import URL

from corral.kube.errors import Subject, Unreachable

FOREIGN = (aiohttp.ClientError, OSError, EOFError)

# X509_V_ERR_* of OpenSSL, which Python hands on as `verify_code`.
CERTIFICATE_TROUBLE = {
    9: "its certificate is not valid yet; compare the clocks of both machines",
    10: "its certificate has expired; renew it",
    18: "its certificate is signed by itself, and the kubeconfig's certificate-authority does not know it",
    19: "its certificate is signed by an authority that the kubeconfig's certificate-authority does not know",
    20: "its certificate is signed by an authority that the kubeconfig's certificate-authority does not know",
    21: "its certificate is signed by an authority that the kubeconfig's certificate-authority does not know",
    23: "its certificate has been revoked",
    62: "its certificate is for another name; check its name, or, if it is the server, set tls-server-name",
    64: "its certificate is for another address; check its address, or, if it is the server, set tls-server-name",
}


@contextmanager
def border(subject: Subject, server_url: str, late: str) -> Iterator[None]:
    """`late` is what to say when a deadline passes within."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError:
        raise Unreachable(subject, f"{server_url}: no connection could be made in time", sent=False) from None
    except TimeoutError:
        raise Unreachable(subject, f"{server_url}: {late}") from None
    except FOREIGN as error:
        raise unreachable(subject, server_url, error) from None


def unreachable(subject: Subject, server_url: str, error: Exception) -> Unreachable:
    """Only before a connection stands is it certain that nothing was sent."""
    before = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError)
    before = before or isinstance(error, aiohttp.ClientHttpProxyError | aiohttp.InvalidURL)
    return Unreachable(subject, f"{server_url}: {_through(error, server_url)}{_sentence(error)}", sent=not before)


def _through(error: Exception, server_url: str) -> str:
    """Whom the trouble is with, when it is not the server: a proxy's certificate is not to be looked for there."""
    if not isinstance(error, aiohttp.ClientConnectorSSLError | aiohttp.ClientConnectorCertificateError):
        return ""
    server = URL(server_url)
    return "" if (error.host, error.port) == (server.host, server.port) else f"the proxy {error.host}:{error.port}: "


def _sentence(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as cause):
            told = cause.verify_message or cause.reason
            return CERTIFICATE_TROUBLE.get(cause.verify_code, f"its certificate cannot be trusted: {told}")
        case aiohttp.ClientConnectorSSLError(os_error=ssl.SSLError() as cause):
            return f"no TLS connection could be made ({_reason(cause)}); does it speak https, and is the port right?"
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host} is not known to DNS"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy {error.host}:{error.port} cannot be reached ({_reason(error.os_error)})"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refused to connect us: HTTP {error.status}"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "the connection was refused; is the server running?"
        case aiohttp.ClientConnectorError():
            return f"no connection could be made ({_reason(error.os_error)})"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | EOFError():
            return "the server broke the connection off"
        case ssl.SSLError():
            return f"the TLS connection failed ({_reason(error)})"
        case OSError():
            return f"the connection failed ({_reason(error)})"
        case aiohttp.InvalidURL():
            return "this is not a URL that can be asked"
        case aiohttp.ClientResponseError():
            return f"the answer is not HTTP as we know it ({error.message})"
    return f"the exchange failed ({type(error).__name__})"


def _reason(error: OSError) -> str:
    """OpenSSL's word for it, if there is one; Python's own TLS errors have none."""
    return getattr(error, "reason", None) or error.strerror or type(error).__name__
