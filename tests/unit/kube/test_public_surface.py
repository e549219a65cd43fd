"""What `corral.kube` promises to others. A change here is a change for everyone who uses it."""

import inspect
import subprocess
import sys

import corral.kube
from corral.kube import Client, KubeError, errors


def test_every_public_name_is_there() -> None:
    assert all(getattr(corral.kube, name) for name in corral.kube.__all__)
    assert len(set(corral.kube.__all__)) == len(corral.kube.__all__)


def test_every_error_is_public() -> None:
    ours = {name for name, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, KubeError)}

    assert ours <= set(corral.kube.__all__)


def test_the_verbs_are_these_and_none_replaces_an_object() -> None:
    verbs = {name for name in vars(Client) if not name.startswith("_")}

    assert verbs == {
        "get", "list", "list_page", "watch",
        "create", "make", "apply", "patch", "delete", "evict",
        "get_scale", "set_scale", "logs", "exec", "exec_stream", "act", "attach", "told",
        "server_version", "resources", "served", "openapi", "openapi_paths",
        "fenced", "may_write", "statistics", "close",
    }  # fmt: skip


def test_models_can_be_imported_without_the_network_libraries() -> None:
    script = "import sys, corral.kube.meta; sys.exit(any(name in sys.modules for name in ('aiohttp', 'cryptography')))"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
