"""Through which proxy a server is asked: the kubeconfig's, or the environment's.

A proxy of `https://` shows a certificate of the kubeconfig's authority, as for kubectl; `tls-server-name` is not asked
of it. (Why there is no SOCKS: docs/dependencies.md.)
"""

from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from corral.kube.credentials import Server, can_be_asked, wrong


def proxy_for(server: Server, proxies: Mapping[str, str]) -> str:
    """`proxies` as `urllib.request.getproxies` gives them. As in kubectl, this machine is not asked through a proxy."""
    if server.proxy_url:
        return server.proxy_url
    parts = urlsplit(server.url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host, dict(proxies)):
        return ""
    return checked_proxy(proxies.get(parts.scheme, ""), f"{parts.scheme}_proxy of the environment")


def checked_proxy(url: str, origin: str) -> str:
    """Without a scheme it is one of HTTP, as in kubectl. It may hold a password: what is wrong is told without it."""
    if not url:
        return ""
    if "://" not in url:
        url = f"http://{url}"
    scheme = url.partition("://")[0]
    if scheme.lower() not in ("http", "https"):
        raise wrong(origin, f"{scheme}:// is not supported; give the URL of a proxy of http:// or https://")
    if not can_be_asked(url):
        raise wrong(origin, "expected a URL like http://host:3128, and the host or the port cannot be one")
    return url
