"""Accounting: slurmdbd and its database, ours or one that is there already."""

from typing import Annotated

from msgspec import Meta

from corral.kinds.parts import (
    CATEGORIES,
    GROUP,
    VERSION,
    BasicStatus,
    External,
    KeyRef,
    Name,
    Overrides,
    PodTemplate,
    Port,
    ServiceTemplate,
    SlurmVersion,
    Volume,
)
from corral.kube.crd import Column, kind, rule, rules
from corral.kube.meta import EMPTY, Model, Object


class Database(Model, frozen=True, kw_only=True):
    """A MariaDB or MySQL that is there already."""

    host: Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:_-]+$")]
    port: Port = 3306
    database: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_]+$")] = "slurm_acct_db"
    username: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_.-]+$")] = "slurm"
    password_key_ref: KeyRef
    ca_key_ref: Annotated[
        KeyRef | None, Meta(description="Who signed the database's certificate; given, the connection is encrypted.")
    ] = None


class ManagedDatabase(Model, frozen=True, kw_only=True):
    """A MariaDB of our own, with a generated password."""

    mariadb: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    persistence: Volume = Volume()


@rules(rule("!(has(self.storage) && has(self.managed))", "choose one: storage (a database that is there) or managed"))
class AccountingSpec(Model, frozen=True, kw_only=True):
    version: Annotated[
        SlurmVersion, rule("self >= oldSelf", "the database was converted to the newer version; there is no way back")
    ] = "26.05"
    slurm_key_ref: Annotated[
        KeyRef | None, Meta(description="The key of auth/slurm; default: that of the Controller that refers to this.")
    ] = None
    jwt_key_ref: Annotated[
        KeyRef | None, Meta(description="The key that signs JWTs; default: that of the Controller that refers to this.")
    ] = None
    storage: Annotated[Database | None, Meta(description="A database that is there; default: one of our own.")] = None
    managed: Annotated[ManagedDatabase | None, Meta(description="How our own database is to be.")] = None
    dumps: Annotated[Volume, Meta(description="Where the database is dumped before a newer slurmdbd converts it.")] = (
        Volume()
    )
    external: Annotated[External | None, Meta(description="slurmdbd runs elsewhere; nothing is run here.")] = None
    slurmdbd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    service: ServiceTemplate = ServiceTemplate()
    extra_conf: Annotated[str, Meta(max_length=65536, description="More lines for slurmdbd.conf.")] = ""
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away.")] = False


class AccountingStatus(BasicStatus, frozen=True, kw_only=True):
    slurm_version: Annotated[str, Meta(max_length=32)] = ""
    controllers: Annotated[tuple[Name, ...], Meta(max_length=64, description="Who records jobs here.")] = ()


@kind(
    group=GROUP,
    version=VERSION,
    plural="accountings",
    short_names=("slurmdbd",),
    categories=CATEGORIES,
    columns=(Column("Slurm", "string", ".status.slurmVersion"),),
)
class Accounting(Object, frozen=True, kw_only=True):
    """Job records: slurmdbd and its database."""

    spec: AccountingSpec = AccountingSpec()
    status: AccountingStatus = AccountingStatus()
