"""Kubeconfig files, with everything inside so that one file can be copied, mounted or handed to a person."""

import base64

import yaml

from corral.local.certificates import Pair


def kubeconfig(*, context: str, server: str, authority: bytes, user: str, credentials: Pair) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [
                {"name": context, "cluster": {"server": server, "certificate-authority-data": _encoded(authority)}}
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _encoded(credentials.certificate),
                        "client-key-data": _encoded(credentials.key),
                    },
                }
            ],
            "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
        },
        sort_keys=False,
    )


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
