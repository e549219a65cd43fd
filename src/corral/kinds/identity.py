"""The people of a cluster: who they are, and how every pod that speaks of them gets to know them. Pure.

    files   users and groups of the manifest, and of a ConfigMap with lines as in /etc/passwd and /etc/group. They are
            mounted where the image's libnss-extrausers reads them; a change arrives in running pods by itself
    ldap    a directory. nslcd asks it, in a container of its own, so that no user's process sees the bind password

slurmctld, workers and login nodes know the same people. Without that a job that comes with a token is held, because
slurmctld does not know whose it is, and a job's files belong to numbers.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from corral.engine.actions import Patch, target
from corral.kinds import names
from corral.kinds.parts import GROUP, KeyRef, Ref
from corral.kinds.workloads import UNPRIVILEGED, mounted, script, text_digest
from corral.kube.meta import Model, ObjectMeta
from corral.kube.models.core_v1 import (
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    KeyToPath,
    Pod,
    PodSpec,
    ProjectedVolumeSource,
    SecretProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from corral.kube.values import Json, keys

FILES_FOLDER = "/var/lib/extrausers"
IDENTITY_FOLDER = "/etc/corral/identity"
NSLCD_FOLDER = "/run/nslcd"
PASSWD, GROUP_FILE, NSLCD_CONF = "passwd", "group", "nslcd.conf"
AUTHORIZED_KEYS = "authorized_keys."  # and the user's name: a key of the ConfigMap
PEOPLE, DIRECTORY, NSLCD = "people", "directory", "nslcd"  # names of volumes, and of the container

DELIVERED = f"{GROUP}/identity"  # on pods: changing it makes kubelet look at the mounted files at once
ID_MIN = 1000
RESERVED_IDS = frozenset({names.SLURM_UID, names.NOBODY_UID})
RESERVED_NAMES = frozenset({"root", "slurm", "nobody", "daemon", "sshd", "nslcd", "nogroup", "users"})
BYTES_MAX = 900 * 1024  # the server holds 1 MiB, all names and annotations included

USER_NAME = r"^[a-z_][a-z0-9_.-]*$"
ONE_LINE = r"^[^\r\n]*$"
Id = Annotated[int, Meta(ge=ID_MIN, le=2147483647)]
UserName = Annotated[str, Meta(min_length=1, max_length=32, pattern=USER_NAME)]
AuthorizedKey = Annotated[str, Meta(min_length=1, max_length=8192, pattern=ONE_LINE)]


class User(Model, frozen=True, kw_only=True):
    """A user who may log in and run jobs."""

    name: UserName
    uid: Id
    gid: Annotated[Id | None, Meta(description="The primary group; default: an own group, with the uid as gid.")] = None
    groups: Annotated[tuple[UserName, ...], Meta(max_length=32, description="Further groups, by name.")] = ()
    full_name: Annotated[str, Meta(max_length=128, pattern=r"^[^\r\n:,]*$")] = ""
    home: Annotated[str, Meta(max_length=256, pattern=r"^(/[A-Za-z0-9._-]+)*$", description="Default: /home/NAME.")] = (
        ""
    )
    shell: Annotated[str, Meta(max_length=128, pattern=r"^(/[A-Za-z0-9._-]+)+$")] = "/bin/bash"
    authorized_keys: Annotated[
        tuple[AuthorizedKey, ...], Meta(max_length=32, description="Lines of authorized_keys, for login nodes.")
    ] = ()


class UserGroup(Model, frozen=True, kw_only=True):
    """A group that users share."""

    name: UserName
    gid: Id


class Ldap(Model, frozen=True, kw_only=True):
    """Users from an LDAP directory, read by nslcd."""

    uris: Annotated[
        tuple[Annotated[str, Meta(max_length=256, pattern=r"^ldaps?://[A-Za-z0-9.:_\[\]-]+/?$")], ...],
        Meta(min_length=1, max_length=8, description="Tried in this order, e.g. ldaps://ldap.example.org"),
    ]
    base: Annotated[str, Meta(min_length=1, max_length=512, pattern=ONE_LINE)]
    bind_dn: Annotated[str, Meta(max_length=512, pattern=ONE_LINE, description="Default: anonymous bind.")] = ""
    bind_password_key_ref: Annotated[KeyRef | None, Meta(description="The password of bindDn, in a Secret.")] = None
    start_tls: bool = False
    ca_key_ref: Annotated[KeyRef | None, Meta(description="CA certificate of the LDAP server, in a Secret.")] = None
    extra_conf: Annotated[str, Meta(max_length=16384, description="More lines for nslcd.conf: maps, filters.")] = ""


class Identity(Model, frozen=True, kw_only=True):
    """Who may log in and run jobs. slurmctld, workers and login nodes know the same users."""

    users: Annotated[tuple[User, ...], Meta(max_length=1000), keys("name")] = ()
    groups: Annotated[tuple[UserGroup, ...], Meta(max_length=1000), keys("name")] = ()
    files_ref: Annotated[
        Ref | None,
        Meta(description="A ConfigMap with more users: passwd, group (as in /etc), authorized_keys.NAME."),
    ] = None
    ldap: Ldap | None = None


NOBODY = Identity()  # nobody but root: no ConfigMap is made


class BadIdentity(ValueError):
    """What is wrong with the people that were given, and where."""


class Person(msgspec.Struct, frozen=True):
    name: str
    uid: int
    gid: int
    full_name: str
    home: str
    shell: str


class Group(msgspec.Struct, frozen=True):
    name: str
    gid: int
    members: tuple[str, ...] = ()


class People(msgspec.Struct, frozen=True, kw_only=True):
    persons: tuple[Person, ...] = ()
    groups: tuple[Group, ...] = ()
    authorized_keys: Mapping[str, str] = {}


def files(identity: Identity, given: ConfigMap | None) -> Mapping[str, str]:
    """The content of the ConfigMap; `given` is what `files_ref` names. Raises BadIdentity."""
    people = _people(identity, given)
    _check(people)
    content = {
        PASSWD: "".join(f"{p.name}:*:{p.uid}:{p.gid}:{p.full_name}:{p.home}:{p.shell}\n" for p in people.persons),
        GROUP_FILE: "".join(f"{g.name}:*:{g.gid}:{','.join(g.members)}\n" for g in people.groups),
        **{f"{AUTHORIZED_KEYS}{name}": text for name, text in people.authorized_keys.items()},
    }
    if identity.ldap is not None:
        content[NSLCD_CONF] = nslcd_conf(identity.ldap)
    size = sum(len(name) + len(text.encode()) for name, text in content.items())
    if size > BYTES_MAX:
        raise BadIdentity(f"spec.identity: {size} bytes of users and keys: expected at most {BYTES_MAX}; use ldap")
    return content


def config_map(cluster: str, content: Mapping[str, str], before: ConfigMap | None, *, pods_exist: bool) -> ConfigMap:
    """Marked with a digest from its first change on: pods that have not got that mark are told to look."""
    labels = names.labels("identity", cluster, cluster=cluster)
    mark = before.metadata.annotations.get(DELIVERED, "") if before else ""
    if dict(before.data) != dict(content) if before else pods_exist:
        mark = text_digest(msgspec.json.encode(dict(content), order="sorted").decode())
    metadata = ObjectMeta(
        name=names.identity_name(cluster), labels=labels, annotations={DELIVERED: mark} if mark else {}
    )
    return ConfigMap(metadata=metadata, data=content)


def refresh(pod: Pod, people: ConfigMap) -> tuple[Patch, ...]:
    """Makes kubelet renew the mounted files at once; by itself it looks about once a minute."""
    mark = people.metadata.annotations.get(DELIVERED, "")
    gone = pod.metadata.deletion_timestamp is not None
    if not mark or gone or pod.metadata.annotations.get(DELIVERED) == mark:
        return ()
    merge = {"metadata": {"annotations": {DELIVERED: mark}}}
    message = "so that kubelet updates the users' files at once"
    return (Patch(target=target(pod), merge=merge, reason="PeopleChanged", message=message),)


def nslcd_conf(ldap: Ldap) -> str:
    """Without the password, which the container adds from a Secret."""
    lines = [f"uri {uri}" for uri in ldap.uris]
    lines += [f"base {ldap.base}", f"nss_min_uid {ID_MIN}"]
    lines += [f"binddn {ldap.bind_dn}"] if ldap.bind_dn else []
    lines += ["ssl start_tls"] if ldap.start_tls else []
    lines += [f"tls_cacertfile {IDENTITY_FOLDER}/ca.crt"] if ldap.ca_key_ref else []
    lines += ["tls_reqcert demand"]
    return "\n".join(lines) + "\n" + ldap.extra_conf.rstrip("\n") + ("\n" if ldap.extra_conf.strip() else "")


def known_in(pod: PodSpec, cluster: str, identity: Identity, *, container: str, theirs: Mapping[str, Json]) -> PodSpec:
    """The pod with the people known in its `container`. Their files may come later, and change, without another pod.

    `theirs`: the user's overrides of that container, whose image nslcd is in too.
    """
    mounts = [mounted(PEOPLE, FILES_FOLDER)]
    volumes = [_people_volume(cluster)]
    sidecars: tuple[Container, ...] = ()
    if identity.ldap is not None:
        mounts.append(mounted(NSLCD, NSLCD_FOLDER))
        volumes += [Volume(name=NSLCD, empty_dir=EmptyDirVolumeSource()), _directory_volume(cluster, identity.ldap)]
        image = next(one.image for one in pod.containers if one.name == container)
        sidecars = (_nslcd(str(theirs.get("image", image))),)
    containers = tuple(
        msgspec.structs.replace(one, volume_mounts=(*one.volume_mounts, *mounts)) if one.name == container else one
        for one in pod.containers
    )
    return msgspec.structs.replace(
        pod,
        containers=containers,
        init_containers=(*sidecars, *pod.init_containers),
        volumes=(*pod.volumes, *volumes),
    )


def _people(identity: Identity, given: ConfigMap | None) -> People:
    """The manifest's first, then those of the ConfigMap; each user without a group of his own gets one."""
    data: Mapping[str, str] = given.data if given is not None else {}
    where = f"ConfigMap {given.metadata.name}" if given is not None else ""
    persons = (*map(_person, identity.users), *_persons_in(data.get(PASSWD, ""), f"{where}, {PASSWD}"))
    groups = (*_shared_groups(identity), *_groups_in(data.get(GROUP_FILE, ""), f"{where}, {GROUP_FILE}"))
    known = {group.gid for group in groups}
    own = tuple(Group(user.name, user.uid) for user in identity.users if user.gid is None and user.uid not in known)
    found = {user.name: "".join(f"{key}\n" for key in user.authorized_keys) for user in identity.users}
    for name, text in sorted(data.items()):
        if name.startswith(AUTHORIZED_KEYS):
            user = name.removeprefix(AUTHORIZED_KEYS)
            found[user] = found.get(user, "") + text.rstrip("\n") + "\n"
    return People(persons=persons, groups=(*groups, *own), authorized_keys={u: t for u, t in found.items() if t})


def _person(user: User) -> Person:
    gid = user.uid if user.gid is None else user.gid
    return Person(user.name, user.uid, gid, user.full_name, user.home or f"/home/{user.name}", user.shell)


def _shared_groups(identity: Identity) -> Iterable[Group]:
    declared = {group.name for group in identity.groups}
    for user in identity.users:
        for name in user.groups:
            if name not in declared:
                raise BadIdentity(
                    f"spec.identity.users: {user.name} is in group {name}, which is not in spec.identity.groups"
                )
    for group in identity.groups:
        yield Group(group.name, group.gid, tuple(user.name for user in identity.users if group.name in user.groups))


def _persons_in(text: str, where: str) -> Iterable[Person]:
    for number, fields in _records(text, 7, "name:password:uid:gid:full name:home:shell", where):
        name, _password, uid, gid, full_name, home, shell = fields
        yield Person(name, _id(uid, where, number), _id(gid, where, number), full_name, home, shell)


def _groups_in(text: str, where: str) -> Iterable[Group]:
    for number, fields in _records(text, 4, "name:password:gid:members", where):
        name, _password, gid, members = fields
        yield Group(name, _id(gid, where, number), tuple(one for one in members.split(",") if one))


def _records(text: str, count: int, form: str, where: str) -> Iterable[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(":")
        if len(fields) != count or not re.fullmatch(USER_NAME, fields[0]):
            raise BadIdentity(f"{where}: line {number}: expected {form}, found {len(fields)} fields")
        yield number, fields


def _id(text: str, where: str, number: int) -> int:
    if not re.fullmatch("[0-9]{1,10}", text):
        raise BadIdentity(f"{where}: line {number}: expected a number as uid or gid, found {text!r}")
    return int(text)


def _check(people: People) -> None:
    """A number or name that two have, or that a daemon has, would give somebody the files of another."""
    users = [(person.name, person.uid) for person in people.persons]
    groups = [(group.name, group.gid) for group in people.groups]
    for what, found in (("user", users), ("group", groups)):
        names_seen: set[str] = set()
        ids_seen: dict[int, str] = {}
        for name, number in found:
            if name in RESERVED_NAMES or number in RESERVED_IDS or number < ID_MIN:
                expected = f"use a name and an id that the image does not use; ids start at {ID_MIN}"
                raise BadIdentity(f"spec.identity: {what} {name} ({number}): {expected}")
            if name in names_seen or number in ids_seen:
                other = ids_seen.get(number, name)
                raise BadIdentity(f"spec.identity: {what} {name} ({number}): {other} has the same name or id")
            names_seen.add(name)
            ids_seen[number] = name


def _people_volume(cluster: str) -> Volume:
    items = tuple(KeyToPath(key=file, path=file) for file in (PASSWD, GROUP_FILE))
    source = ConfigMapVolumeSource(name=names.identity_name(cluster), items=items, default_mode=0o444, optional=True)
    return Volume(name=PEOPLE, config_map=source)


def _directory_volume(cluster: str, ldap: Ldap) -> Volume:
    conf = ConfigMapProjection(name=names.identity_name(cluster), items=(KeyToPath(key=NSLCD_CONF, path=NSLCD_CONF),))
    secrets = tuple(
        VolumeProjection(secret=SecretProjection(name=given.name, items=(KeyToPath(key=given.key, path=file),)))
        for given, file in ((ldap.bind_password_key_ref, "bind-password"), (ldap.ca_key_ref, "ca.crt"))
        if given is not None
    )
    source = ProjectedVolumeSource(default_mode=0o440, sources=(VolumeProjection(config_map=conf), *secrets))
    return Volume(name=DIRECTORY, projected=source)


def _nslcd(image: str) -> Container:
    """Starts before the daemon and ends after it. Group 0 may read what is mounted; nobody else in the pod has it."""
    return Container(
        name=NSLCD,
        image=image,
        command=script("nslcd-run"),
        restart_policy="Always",
        security_context=msgspec.structs.replace(UNPRIVILEGED, run_as_user=names.NOBODY_UID, run_as_group=0),
        volume_mounts=(mounted(DIRECTORY, IDENTITY_FOLDER), VolumeMount(name=NSLCD, mount_path=NSLCD_FOLDER)),
    )
