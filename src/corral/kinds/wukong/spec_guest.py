"""What the guest does at its first start, by cloud-init. Nothing secret stands here: secrets are named."""

from typing import Annotated

from msgspec import Meta

from corral.kinds.parts import KeyRef
from corral.kube.crd import UNIQUE, keys, rule, rules
from corral.kube.meta import Model

DEFAULT_GROUPS = ("sudo", "adm", "dialout", "cdrom", "floppy", "audio", "dip", "video", "plugdev", "netdev")

UserName = Annotated[str, Meta(min_length=1, max_length=32, pattern=r"^[a-z_][a-z0-9_-]*$")]
CRYPT_HASH = r"^\$[0-9a-z]+\$"
ShortText = Annotated[str, Meta(max_length=4096)]


@rules(rule("!has(self.passwordHash) || !has(self.passwordHashSecret)", "set passwordHash or passwordHashSecret"))
class CloudInitUser(Model, frozen=True, kw_only=True):
    """A user of the guest. Passwords are only known as hashes (`openssl passwd -6`)."""

    name: UserName
    password_hash: Annotated[
        Annotated[str, Meta(max_length=512, pattern=CRYPT_HASH)] | None,
        Meta(description="A crypt hash, as in /etc/shadow. Better: passwordHashSecret."),
    ] = None
    password_hash_secret: KeyRef | None = None
    sudo: Annotated[str, Meta(max_length=256, description="Empty: none.")] = "ALL=(ALL) NOPASSWD:ALL"
    shell: Annotated[str, Meta(max_length=256, pattern=r"^/")] = "/bin/bash"
    groups: Annotated[tuple[Annotated[str, Meta(max_length=32)], ...], UNIQUE, Meta(max_length=32)] = DEFAULT_GROUPS
    lock_passwd: bool = False
    ssh_authorized_keys: Annotated[tuple[ShortText, ...], Meta(max_length=64)] = ()
    ssh_key_secret: Annotated[str, Meta(max_length=253, description="A Secret with public keys.")] = ""


class Mount(Model, frozen=True, kw_only=True):
    """A file system. A disk of this Wukong is named by `disk`; anything else (NFS) by `device`."""

    path: Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^/")]
    disk: Annotated[str, Meta(max_length=63)] = ""
    device: Annotated[str, Meta(max_length=1024)] = ""
    type: Annotated[str, Meta(max_length=32, description="A disk that has no file system gets this one.")] = "ext4"
    options: Annotated[str, Meta(max_length=512)] = "defaults,nofail"


class CloudInit(Model, frozen=True, kw_only=True):
    """More than one user, packages, commands and mounts; or user data of your own."""

    hostname: Annotated[
        str,
        Meta(max_length=63, pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", description="Default: the Wukong's name."),
    ] = ""
    users: Annotated[tuple[CloudInitUser, ...], keys("name"), Meta(max_length=64)] = ()
    packages: Annotated[tuple[Annotated[str, Meta(max_length=256)], ...], Meta(max_length=256)] = ()
    run_commands: Annotated[tuple[ShortText, ...], Meta(max_length=64, description="Run by a shell, in order.")] = ()
    mounts: Annotated[
        tuple[
            Annotated[
                Mount, rule("(self.disk != '') != (self.device != '')", "a mount is of a disk or of a device, not both")
            ],
            ...,
        ],
        Meta(max_length=32),
    ] = ()
    user_data_secret: Annotated[
        str, Meta(max_length=253, description="A Secret whose key `userdata` is used as it is, instead of all this.")
    ] = ""
