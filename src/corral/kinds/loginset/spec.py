"""LoginSet: nodes that people log in to by ssh, and submit jobs from."""

from typing import Annotated

from msgspec import Meta

from corral.kinds.parts import (
    CATEGORIES,
    GROUP,
    VERSION,
    BasicStatus,
    KeyRef,
    Name,
    Overrides,
    PodTemplate,
    Ref,
    Replicas,
    ServiceTemplate,
    SlurmVersion,
    Volume,
)
from corral.kube.crd import Column, Scale, kind, rule, rules
from corral.kube.meta import EMPTY, Model, Object


class User(Model, frozen=True, kw_only=True):
    """Somebody who may log in, known by files."""

    name: Annotated[str, Meta(min_length=1, max_length=32, pattern=r"^[a-z_][a-z0-9_-]*$")]
    uid: Annotated[int, Meta(ge=1000, le=2147483647)]
    gid: Annotated[Annotated[int, Meta(ge=1000, le=2147483647)] | None, Meta(description="Default: the uid.")] = None
    groups: Annotated[tuple[Name, ...], Meta(max_length=32)] = ()
    shell: Annotated[str, Meta(max_length=128, pattern=r"^/[A-Za-z0-9/_-]+$")] = "/bin/bash"
    authorized_keys: Annotated[tuple[Annotated[str, Meta(max_length=8192)], ...], Meta(max_length=64)] = ()


class Ldap(Model, frozen=True, kw_only=True):
    """People known by a directory (nslcd)."""

    uri: Annotated[str, Meta(min_length=1, max_length=512, pattern=r"^ldaps?://[A-Za-z0-9.:_-]+/?$")]
    base: Annotated[str, Meta(min_length=1, max_length=512)]
    bind_dn: Annotated[str, Meta(max_length=512)] = ""
    bind_password_ref: KeyRef | None = None
    ca_key_ref: KeyRef | None = None


@rules(rule("!(has(self.ldap) && size(self.users) > 0)", "choose one: users (files) or ldap"))
class Identity(Model, frozen=True, kw_only=True):
    """Who may log in. slurmctld is told of the same people."""

    users: Annotated[tuple[User, ...], Meta(max_length=1000)] = ()
    ldap: Ldap | None = None


class LoginSetSpec(Model, frozen=True, kw_only=True):
    controller_ref: Annotated[Ref, rule("self == oldSelf", "a LoginSet stays with its Controller; make another one")]
    replicas: Replicas = 1
    version: Annotated[SlurmVersion | None, Meta(description="Default: the Controller's.")] = None
    login: Overrides = EMPTY
    template: PodTemplate = PodTemplate()
    service: ServiceTemplate = ServiceTemplate()
    identity: Identity = Identity()
    root_ssh_authorized_keys: Annotated[str, Meta(max_length=65536)] = ""
    extra_sshd_config: Annotated[str, Meta(max_length=65536)] = ""
    home: Annotated[Volume | None, Meta(description="The volume of /home; default: none is kept.")] = None
    suspend: Annotated[bool, Meta(description="Change nothing until this is taken away.")] = False


class LoginSetStatus(BasicStatus, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    selector: Annotated[str, Meta(max_length=1024)] = ""


@kind(
    group=GROUP,
    version=VERSION,
    plural="loginsets",
    short_names=("lss", "sackd"),
    categories=CATEGORIES,
    scale=Scale(selector=".status.selector"),
    columns=(
        Column("Desired", "integer", ".spec.replicas"),
        Column("Up", "integer", ".status.readyReplicas"),
    ),
)
class LoginSet(Object, frozen=True, kw_only=True):
    """Login nodes of one Controller: sshd, sackd, the people who may come in."""

    spec: LoginSetSpec
    status: LoginSetStatus = LoginSetStatus()
