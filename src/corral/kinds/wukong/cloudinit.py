"""What cloud-init is told: user data and network data, as a Secret that the machine names. Pure.

Everything is data until one YAML writer writes it, so no name, key or command can become syntax. The machine itself
carries none of it: KubeVirt allows 2,048 bytes there, and whoever may read machines would read password hashes.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from corral.kinds.wukong import names
from corral.kinds.wukong.networks import network_data
from corral.kinds.wukong.spec import Wukong
from corral.kinds.wukong.spec_disks import DiskConfig
from corral.kinds.wukong.spec_guest import CRYPT_HASH, CloudInit, CloudInitUser, Mount
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import Secret

HEADER = "#cloud-config\n"
KEY_NAMES = ("ssh-publickey", "id_rsa.pub", "authorized_keys", "publickey")  # tried in this order, then all others

ON_A_DISK = ("/dev/", "LABEL=", "UUID=", "PARTLABEL=", "PARTUUID=")
# How udev names a disk that says its serial number, by bus.
BY_ID = {
    "virtio": "virtio-{}",
    "scsi": "scsi-0QEMU_QEMU_HARDDISK_{}",
    "sata": "ata-QEMU_HARDDISK_{}",
    "usb": "usb-QEMU_QEMU_HARDDISK_{}-0:0",
}

Secrets = Mapping[str, Secret | None]


class Unfit(Exception):
    """A Secret that cloud-init's data needs is missing or does not hold what it should; never says what it holds."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def users_of(wukong: Wukong) -> tuple[CloudInitUser, ...]:
    single = (wukong.spec.cloud_init_user,) if wukong.spec.cloud_init_user else ()
    return (*single, *(_init(wukong).users))


def secrets_needed(wukong: Wukong) -> frozenset[str]:
    """Every Secret of which something goes into the guest."""
    named = [wukong.spec.ssh_key_secret, _init(wukong).user_data_secret]
    for user in users_of(wukong):
        named += [user.ssh_key_secret, user.password_hash_secret.name if user.password_hash_secret else ""]
    return frozenset(filter(None, named))


def cloud_init_secret(wukong: Wukong, secrets: Secrets) -> Secret:
    """Raises Unfit."""
    own_data = _init(wukong).user_data_secret
    if own_data:
        _value(secrets, own_data, names.USER_DATA)
        user_data = {}
    else:
        user_data = {names.USER_DATA: (HEADER + _yaml(user_data_of(wukong, secrets))).encode()}
    return Secret(
        metadata=ObjectMeta(
            name=names.cloud_init_name(wukong.metadata.name),
            labels={**names.MANAGED_BY, names.WUKONG_LABEL: wukong.metadata.name},
        ),
        data={**user_data, names.NETWORK_DATA: _yaml(network_data(wukong)).encode()},
    )


def user_data_of(wukong: Wukong, secrets: Secrets) -> Mapping[str, Any]:
    init, users = _init(wukong), users_of(wukong)
    keys = _public_keys(secrets, wukong.spec.ssh_key_secret)
    data: dict[str, Any] = {
        "hostname": init.hostname or names.machine_name(wukong.metadata.name),
        "manage_etc_hosts": "localhost",  # its own name is known without a DNS; sudo would wait for one
        "growpart": {"mode": "auto", "devices": ["/"]},
        "resize_rootfs": True,
    }
    if users:
        data["users"] = [_user(user, keys, secrets) for user in users]
        data["ssh_pwauth"] = any(_has_password(user) and not user.lock_passwd for user in users)
    elif keys:
        data["ssh_authorized_keys"] = list(keys)  # of the user that the image brings
    if init.packages:
        data |= {"package_update": True, "packages": list(init.packages)}
    if init.run_commands:
        data["runcmd"] = list(init.run_commands)
    return {**data, **_mounts(wukong, init.mounts)}


def _init(wukong: Wukong) -> CloudInit:
    return wukong.spec.cloud_init or CloudInit()


def _has_password(user: CloudInitUser) -> bool:
    return user.password_hash is not None or user.password_hash_secret is not None


def _user(user: CloudInitUser, keys: tuple[str, ...], secrets: Secrets) -> Mapping[str, Any]:
    # cloud-init calls a guest degraded that is to unlock a password which there is not.
    locked = user.lock_passwd or not _has_password(user)
    entry: dict[str, Any] = {"name": user.name, "shell": user.shell, "lock_passwd": locked}
    if user.sudo:
        entry["sudo"] = user.sudo
    if user.groups:
        entry["groups"] = list(user.groups)
    if hashed := _password_hash(user, secrets):
        entry["passwd"] = hashed
    own = (*user.ssh_authorized_keys, *_public_keys(secrets, user.ssh_key_secret), *keys)
    if own:
        entry["ssh_authorized_keys"] = list(dict.fromkeys(own))
    return entry


def _password_hash(user: CloudInitUser, secrets: Secrets) -> str:
    if user.password_hash_secret is None:
        return user.password_hash or ""
    where = user.password_hash_secret
    found = _value(secrets, where.name, where.key).strip()
    if not re.match(CRYPT_HASH, found):
        message = f"Secret {where.name}, key {where.key}: expected a crypt hash, as `openssl passwd -6` makes it"
        raise Unfit("SecretUnfit", message)
    return found


def _public_keys(secrets: Secrets, name: str) -> tuple[str, ...]:
    """The first of the usual keys that is there; else every value that is a public key."""
    if not name:
        return ()
    data = _secret(secrets, name).data
    usual = [key for key in KEY_NAMES if key in data][:1] or sorted(data)
    lines = [line.strip() for key in usual for line in _text(data[key]).splitlines()]
    keys = tuple(line for line in lines if line.startswith(("ssh-", "ecdsa-", "sk-")))
    if not keys:
        raise Unfit("SecretUnfit", f"Secret {name} holds no public key; expected one under {', '.join(KEY_NAMES)}")
    return keys


def _value(secrets: Secrets, name: str, key: str) -> str:
    found = _secret(secrets, name).data.get(key)
    if found is None:
        raise Unfit("SecretUnfit", f"Secret {name} has no key {key}")
    return _text(found)


def _secret(secrets: Secrets, name: str) -> Secret:
    found = secrets.get(name)
    if found is None:
        raise Unfit("SecretMissing", f"waiting for Secret {name}, which the guest's users need")
    return found


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _mounts(wukong: Wukong, mounts: Iterable[Mount]) -> Mapping[str, Any]:
    disks = {disk.name: disk for disk in wukong.spec.disks}
    placed = [(mount, guest_device(disks[mount.disk]) if mount.disk else mount.device) for mount in mounts]
    if not placed:
        return {}
    # With `any` cloud-init looks first: a disk that was kept, cloned or restored comes to a new guest with what is on
    # it. With `none` it makes a file system there, whatever `overwrite` says.
    made = [
        {"device": device, "filesystem": mount.type, "partition": "any", "overwrite": False}
        for mount, device in placed
        if mount.disk
    ]
    table = [[device, mount.path, mount.type, mount.options, "0", _check_pass(device)] for mount, device in placed]
    return {**({"fs_setup": made} if made else {}), "mounts": table}


def _check_pass(device: str) -> str:
    """Of fsck: after the root file system, or never for what is on no disk of the guest (NFS, tmpfs)."""
    return "2" if device.startswith(ON_A_DISK) else "0"


def guest_device(disk: DiskConfig) -> str:
    return f"/dev/disk/by-id/{BY_ID[disk.bus].format(names.disk_serial(disk.name))}"


def _yaml(data: Mapping[str, Any]) -> str:
    return _yaml_of(msgspec.json.encode(data))


@lru_cache(maxsize=2048)
def _yaml_of(data: bytes) -> str:
    """Remembered: every pass writes the same again, and that would be a fifth of what it costs."""
    content = msgspec.json.decode(data)
    return yaml.dump(content, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=4096)
