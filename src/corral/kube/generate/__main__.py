"""The command; see the package's docstring."""

import argparse
import asyncio
import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Any

import msgspec

from corral.kube import Client, HttpTransport, KubeError, load_credentials
from corral.kube.crd import own_kinds
from corral.kube.generate.files import Documents, Wanted, apply, changes, crd_files, model_files

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"


def main(arguments: argparse.Namespace) -> int:
    texts: dict[Path, dict[str, str]] = {}
    if arguments.kinds:
        _import_all(arguments.kinds)
        texts[arguments.into] = crd_files(own_kinds())
    else:
        wanted = msgspec.toml.decode((HERE / "kinds.toml").read_bytes(), type=Wanted)
        documents = _from_folder(wanted, arguments.openapi) if arguments.openapi else _from_server(wanted, arguments)
        texts[MODELS] = model_files(wanted, documents, Path.cwd())
    changed = {folder: changes(files, folder) for folder, files in texts.items()}
    for folder, files in changed.items():
        for name in files:
            print(f"{'would change' if arguments.check else 'wrote'} {folder.name}/{name}")  # noqa: T201
        if not arguments.check:
            apply(files, folder)
    return 1 if arguments.check and any(changed.values()) else 0


def _from_folder(wanted: Wanted, folder: Path) -> Documents:
    """Documents as the Kubernetes repository keeps them in api/openapi-spec/v3."""
    files = {path: folder / f"{path.replace('/', '__')}_openapi.json" for path in wanted.paths}
    return {path: msgspec.json.decode(file.read_bytes(), type=dict[str, Any]) for path, file in files.items()}


def _from_server(wanted: Wanted, arguments: argparse.Namespace) -> Documents:
    return asyncio.run(_fetch(wanted, arguments))


async def _fetch(wanted: Wanted, arguments: argparse.Namespace) -> Documents:
    async with Client(HttpTransport(load_credentials(arguments.kubeconfig, arguments.context))) as client:
        where = await client.openapi_paths()
        missing = ", ".join(path for path in wanted.paths if path not in where)
        if missing:
            raise LookupError(f"the server does not serve {missing}; change kinds.toml or use another server")
        bodies = {path: await client.openapi(where[path]) for path in wanted.paths}
    return {path: msgspec.json.decode(body, type=dict[str, Any]) for path, body in bodies.items()}


def _import_all(package: str) -> None:
    """Kinds are known once their modules are imported."""
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{package}."):
        importlib.import_module(found.name)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m corral.kube.generate",
        description="Write corral.kube.models from an API server, or the CustomResourceDefinitions of our own kinds.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="whose server to ask (default: as kubectl)")
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    parser.add_argument("--openapi", type=Path, metavar="FOLDER", help="read documents from files, not from a server")
    parser.add_argument("--kinds", metavar="PACKAGE", help="write the definitions of the kinds in this package instead")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where --kinds writes them")
    found = parser.parse_args()
    if bool(found.kinds) != bool(found.into):
        parser.error("--kinds and --into go together")
    return found


if __name__ == "__main__":
    try:
        sys.exit(main(_arguments()))
    except (KubeError, LookupError, OSError) as error:
        sys.exit(str(error))
