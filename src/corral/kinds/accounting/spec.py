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
    """An existing MariaDB or MySQL."""

    host: Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:_-]+$")]
    port: Port = 3306
    database: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_]+$")] = "slurm_acct_db"
    username: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9_.-]+$")] = "slurm"
    password_key_ref: KeyRef
    ca_key_ref: Annotated[
        KeyRef | None, Meta(description="CA certificate of the database; if set, the connection is encrypted.")
    ] = None


class ManagedDatabase(Model, frozen=True, kw_only=True):
    """A MariaDB that Corral runs, with a generated password."""

    mariadb: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    persistence: Volume = Volume()


@rules(rule("!(has(self.storage) && has(self.managed))", "set only one: storage (an existing database) or managed"))
class AccountingSpec(Model, frozen=True, kw_only=True):
    version: Annotated[
        SlurmVersion,
        rule("self >= oldSelf", "the database was converted to the newer version; a downgrade is not possible"),
    ] = "26.05"
    slurm_key_ref: Annotated[
        KeyRef | None,
        Meta(description="The key of auth/slurm; default: that of the Controllers that use this Accounting."),
    ] = None
    jwt_key_ref: Annotated[
        KeyRef | None,
        Meta(description="The key that signs JWTs; default: that of the Controllers that use this Accounting."),
    ] = None
    storage: Annotated[Database | None, Meta(description="An existing database; default: Corral runs one.")] = None
    managed: Annotated[ManagedDatabase | None, Meta(description="Settings of the database that Corral runs.")] = None
    dumps: Annotated[Volume, Meta(description="Where the database is dumped before a newer slurmdbd converts it.")] = (
        Volume()
    )
    external: Annotated[External | None, Meta(description="Use a slurmdbd that runs elsewhere; Corral runs none.")] = (
        None
    )
    slurmdbd: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    service: ServiceTemplate = ServiceTemplate()
    extra_conf: Annotated[str, Meta(max_length=65536, description="More lines for slurmdbd.conf.")] = ""
    suspend: Annotated[bool, Meta(description="While true, Corral changes nothing.")] = False


class AccountingStatus(BasicStatus, frozen=True, kw_only=True):
    slurm_version: Annotated[str, Meta(max_length=32)] = ""
    controllers: Annotated[
        tuple[Name, ...], Meta(max_length=64, description="Controllers that record their jobs here.")
    ] = ()


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
