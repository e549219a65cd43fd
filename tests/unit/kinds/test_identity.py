"""Who is known in a cluster: the files that say so, what is refused, and what a pod needs to know them."""

import re

import msgspec
import pytest

from corral.kinds.home import Home, with_home
from corral.kinds.identity import (
    DELIVERED,
    BadIdentity,
    Identity,
    Ldap,
    User,
    UserGroup,
    config_map,
    files,
    known_in,
    nslcd_conf,
    refresh,
)
from corral.kinds.parts import KeyRef, Ref
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import ConfigMap, Container, Pod, PodSpec

ALICE = User(name="alice", uid=5001, groups=("hpc",), full_name="Alice", authorized_keys=("ssh-ed25519 AAAA a",))
BOB = User(name="bob", uid=5002, gid=6000, home="/data/bob", shell="/bin/sh")
HPC = UserGroup(name="hpc", gid=6000)
LDAP = Ldap(uris=("ldap://one", "ldaps://two"), base="dc=example,dc=org")


def given(**data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="people", namespace="lab"), data=data)


def from_file(**data: str) -> dict[str, str]:
    return dict(files(Identity(files_ref=Ref(name="people")), given(**data)))


def a_pod() -> PodSpec:
    return PodSpec(containers=(Container(name="slurmd", image="slurm"), Container(name="other")))


def test_users_and_groups_of_the_manifest_become_lines() -> None:
    found = files(Identity(users=(ALICE, BOB), groups=(HPC,)), None)

    assert found["passwd"].splitlines() == [
        "alice:*:5001:5001:Alice:/home/alice:/bin/bash",
        "bob:*:5002:6000::/data/bob:/bin/sh",
    ]
    assert found["group"].splitlines() == ["hpc:*:6000:alice", "alice:*:5001:"]
    assert found["authorized_keys.alice"] == "ssh-ed25519 AAAA a\n"
    assert "authorized_keys.bob" not in found


def test_lines_of_a_config_map_come_without_their_passwords() -> None:
    found = from_file(
        passwd="# from elsewhere\ncarol:secret:7001:7100:Carol,,,:/home/carol:/bin/zsh\n",
        group="physics:x:7100:carol,dave\n",
        **{"authorized_keys.carol": "ssh-rsa BBBB"},
    )

    assert found["passwd"] == "carol:*:7001:7100:Carol,,,:/home/carol:/bin/zsh\n"
    assert found["group"] == "physics:*:7100:carol,dave\n"
    assert found["authorized_keys.carol"] == "ssh-rsa BBBB\n"


@pytest.mark.parametrize(
    ("passwd", "told"),
    [
        ("carol:x:7001:7100:Carol:/home/carol", "ConfigMap people, passwd: line 1: expected name:password:uid"),
        ("\ncarol:x:many:7100::/home/carol:/bin/sh", "line 2: expected a number as uid or gid, found 'many'"),
        ("slurm:x:7001:7100::/:/bin/sh", "user slurm (7001): use a name and an id that the image does not use"),
        ("carol:x:0:0::/:/bin/sh", "user carol (0): use a name and an id"),
        ("a:x:7001:7100::/:/bin/sh\nb:x:7001:7100::/:/bin/sh", "user b (7001): a has the same name or id"),
    ],
    ids=["too few fields", "no number", "a daemon's name", "root's number", "one number twice"],
)
def test_what_would_mix_people_up_is_refused_with_its_place(passwd: str, told: str) -> None:
    with pytest.raises(BadIdentity, match=re.escape(told)):
        from_file(passwd=passwd)


def test_a_group_that_nobody_declared_is_refused() -> None:
    with pytest.raises(BadIdentity, match=r"alice is in group hpc, which is not in spec\.identity\.groups"):
        files(Identity(users=(ALICE,)), None)


def test_more_than_a_config_map_holds_is_refused() -> None:
    key = ("ssh-rsa " + "A" * 8000,) * 32
    users = tuple(User(name=f"user{n}", uid=5000 + n, authorized_keys=key) for n in range(4))
    with pytest.raises(BadIdentity, match="use ldap"):
        files(Identity(users=users), None)


def test_nslcd_is_told_where_to_look_and_never_the_password() -> None:
    ldap = msgspec.structs.replace(
        LDAP,
        bind_dn="cn=reader",
        bind_password_key_ref=KeyRef(name="directory", key="password"),
        ca_key_ref=KeyRef(name="directory", key="ca"),
        start_tls=True,
        extra_conf="map passwd uid sAMAccountName\n",
    )
    assert nslcd_conf(ldap).splitlines() == [
        "uri ldap://one",
        "uri ldaps://two",
        "base dc=example,dc=org",
        "nss_min_uid 1000",
        "binddn cn=reader",
        "ssl start_tls",
        "tls_cacertfile /etc/corral/identity/ca.crt",
        "tls_reqcert demand",
        "map passwd uid sAMAccountName",
    ]


def test_a_pod_has_the_files_even_before_there_are_any() -> None:
    pod = known_in(a_pod(), "demo", Identity(), container="slurmd", theirs={})

    assert [mount.mount_path for mount in pod.containers[0].volume_mounts] == ["/var/lib/extrausers"]
    assert pod.containers[1].volume_mounts == ()
    (volume,) = pod.volumes
    assert volume.config_map is not None
    assert (volume.config_map.name, volume.config_map.optional) == ("demo-identity", True)
    assert [item.key for item in volume.config_map.items] == ["passwd", "group"]


def test_the_bind_password_is_mounted_where_no_user_is() -> None:
    ldap = msgspec.structs.replace(LDAP, bind_password_key_ref=KeyRef(name="directory", key="password"))
    pod = known_in(a_pod(), "demo", Identity(ldap=ldap), container="slurmd", theirs={"image": "mine/slurm:1"})

    (nslcd,) = pod.init_containers
    assert (nslcd.image, nslcd.restart_policy) == ("mine/slurm:1", "Always")
    with_password = {volume.name for volume in pod.volumes if volume.projected is not None}
    assert with_password == {"directory"}
    assert not with_password & {mount.name for one in pod.containers for mount in one.volume_mounts}
    socket = next(mount for mount in pod.containers[0].volume_mounts if mount.mount_path == "/run/nslcd")
    assert socket.read_only


def test_pods_are_told_of_changes_but_not_of_what_they_started_with() -> None:
    first = config_map("demo", {"passwd": "1"}, None, pods_exist=False)
    pod = Pod(metadata=ObjectMeta(name="p", namespace="lab", uid="u", resource_version="1"), spec=a_pod())
    assert refresh(pod, first) == ()

    changed = config_map("demo", {"passwd": "2"}, first, pods_exist=True)
    (patch,) = refresh(pod, changed)
    assert config_map("demo", {"passwd": "2"}, changed, pods_exist=True) == changed

    mark = changed.metadata.annotations[DELIVERED]
    assert patch.merge == {"metadata": {"annotations": {DELIVERED: mark}}}
    told = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations={DELIVERED: mark}))
    assert refresh(told, changed) == ()


def test_people_that_come_after_the_pods_are_told_to_them() -> None:
    assert config_map("demo", {"passwd": "1"}, None, pods_exist=True).metadata.annotations[DELIVERED]


@pytest.mark.parametrize(("home", "claim"), [(Home(), "demo-home"), (Home(existing_claim="mine"), "mine")])
def test_home_is_one_claim_for_all(home: Home, claim: str) -> None:
    pod = with_home(a_pod(), "demo", home, container="slurmd")

    assert [mount.mount_path for mount in pod.containers[0].volume_mounts] == ["/home"]
    (volume,) = pod.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == claim


def test_a_cluster_without_home_leaves_the_pod_as_it_is() -> None:
    assert with_home(a_pod(), "demo", None, container="slurmd") == a_pod()
