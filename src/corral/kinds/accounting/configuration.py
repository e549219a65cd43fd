"""slurmdbd.conf: ours, and the user's extra lines over it by the documented rule. Pure.

The text holds the database's password: it goes into a Secret and is shown nowhere. A line that is refused is named by
its number, key and reason; values of passwords are in no reason.
"""

from collections.abc import Sequence

import msgspec

from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.workloads import KEYS_FOLDER
from corral.slurm.config.lint import errors, lint
from corral.slurm.config.merge import merge
from corral.slurm.config.text import Line, Section, UnwritableError, setting, write

FILE = "slurmdbd.conf"
CA_FILE = "database-ca.pem"
REASONS_SHOWN_MAX = 3


class ConfRefused(Exception):
    """The user's part cannot be used: which line, which key, why."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The database that slurmdbd writes to."""

    host: str
    port: int
    database: str
    username: str
    password: str
    encrypted: bool = False

    def __repr__(self) -> str:
        return f"<Storage {self.username}@{self.host}:{self.port}/{self.database}>"


def slurmdbd_conf(accounting: Accounting, storage: Storage, *, has_jwks: bool = False) -> str:
    """`has_jwks`: public keys are mounted, whose tokens count too. Raises ConfRefused."""
    spec = accounting.spec
    merged = merge(FILE, _ours(accounting, storage, has_jwks=has_jwks), spec.extra_conf, spec.version)
    if merged.refused:
        raise ConfRefused(_told("spec.extraConf", [str(finding) for finding in merged.refused]))
    wrong = errors(lint(FILE, spec.extra_conf, spec.version, whole=False))
    if wrong:
        raise ConfRefused(_told("spec.extraConf", [str(finding) for finding in wrong]))
    try:
        return write(merged.sections)
    except UnwritableError:
        # Only the password is free text, and the error would show what it begins with.
        message = (
            "the database's password contains a quote, a line break or a control character, "
            "which slurmdbd.conf cannot contain: set another password"
        )
        raise ConfRefused(message) from None


def _ours(accounting: Accounting, storage: Storage, *, has_jwks: bool) -> Sequence[Section]:
    public = f",jwks=/etc/slurm/{names.JWKS}" if has_jwks else ""
    encryption = [setting("StorageParameters", f"SSL_CA={KEYS_FOLDER}/{CA_FILE}")] if storage.encrypted else []
    return (
        _section(
            "slurmdbd",
            setting("DbdHost", dbd_host(accounting)),
            setting("DbdPort", names.SLURMDBD_PORT),
            setting("SlurmUser", "slurm"),
            setting("PidFile", "/run/slurmdbd/slurmdbd.pid"),
            setting("DebugLevel", "info"),
        ),
        _section(
            "authentication",
            setting("AuthType", "auth/slurm"),
            setting("AuthInfo", "use_client_ids"),
            setting("AuthAltTypes", "auth/jwt"),
            setting("AuthAltParameters", f"jwt_key=/etc/slurm/{names.JWT_KEY}{public}"),
        ),
        _section(
            "database",
            setting("StorageType", "accounting_storage/mysql"),
            setting("StorageHost", storage.host),
            setting("StoragePort", storage.port),
            setting("StorageUser", storage.username),
            setting("StoragePass", storage.password),
            setting("StorageLoc", storage.database),
            *encryption,
        ),
    )


def dbd_host(accounting: Accounting) -> str:
    """slurmdbd starts only where the host name is this: the first pod of its StatefulSet."""
    return f"{names.accounting_name(accounting.metadata.name)}-0"


def _section(title: str, *lines: Line) -> Section:
    return Section(title, lines)


def _told(where: str, reasons: Sequence[str]) -> str:
    more = len(reasons) - REASONS_SHOWN_MAX
    return f"{where}: " + "; ".join(reasons[:REASONS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")
