"""What each image is made of. Decisions only: nothing here reads or writes a file but the scripts' own."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from corral import __version__
from corral.local.roots import Root
from images.program import lock_digest, sources_digest

FORMAT = 3  # another way of packing makes other archives of the same recipe
SCRIPTS_FOLDER = "/usr/libexec/corral"
SLURM_UID = 64030  # Debian's, in all releases
MYSQL_UID = 999
CORRAL_UID = 65532

SLURM_SUITES = {"24.11": "trixie", "26.05": "forky"}
SLURM_PACKAGES = (
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurmrestd",
    "slurm-client",
    "sackd",
    "slurm-wlm-jwt-plugin",  # only recommended by slurmctld, which cannot read AuthAltTypes=auth/jwt without it
    "openssh-server",
    "tini",  # slurmd as first process would reap nothing
    "hitch",  # TLS for slurmrestd, whose Debian build has none
    "systemd-standalone-sysusers",  # else all of systemd comes
    "libnss-extrausers",  # people by mounted files
    "libnss-ldapd",  # people by a directory, which nslcd asks; forky has no SSSD
    "libpam-ldapd",
    "nslcd",
    "less",  # what people miss first on a login node
    "nano",
)
MARIADB_PACKAGES = (
    "mariadb-server-core",
    "mariadb-client-core",
    "mariadb-client",  # for mariadb-dump alone
    "tini",
)
# mariadb-client brings perl and a dozen programs of 5 MB each; nothing that we run needs them.
MARIADB_DROPPED = (
    "/usr/bin/mariadb-[abcp]*",
    "/usr/bin/mariadb-import",
    "/usr/bin/mariadb-s[hl]*",
    "/usr/lib/*/perl",
    "/usr/lib/*/libperl.so*",
    "/usr/share/perl",
    "/usr/share/perl5",
)
CORRAL_PACKAGES = ("python3", "tini")
CORRAL_PYTHON = "3.13"  # trixie's
CORRAL_DROPPED = (
    "/usr/bin/perl*",
    "/usr/lib/*-linux-gnu/gconv",
    "/usr/lib/*-linux-gnu/perl-base",
    "/usr/lib/python*/pydoc_data",
    "/usr/share/perl5",
)


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    owner: int = 0
    mode: int = 0o755


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """The packages of uv.lock, for this version of Python; `lock` is a digest of it."""

    python: str
    lock: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Corral itself, for this version of Python; `sources` is a digest of all that it is made from."""

    python: str
    sources: str


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """`scripts` are contents by name, executable in SCRIPTS_FOLDER; `users` are lines added to /etc/passwd.

    `files` are contents by path, in place of the packages' own; `links` lead from a path to another one.
    `uid` is whom the container runs as, where nobody says otherwise. `base` is another image over which this one lays
    a layer: then `root` is only where programs are found that make the layer.
    """

    name: str
    root: Root
    scripts: Mapping[str, bytes]
    folders: Mapping[str, Folder]
    files: Mapping[str, bytes] = {}
    links: Mapping[str, str] = {}
    users: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()  # patterns of paths that are left out, with all that is below them
    uid: int = 0
    packages: Packages | None = None
    program: Program | None = None
    base: "Recipe | None" = None

    @property
    def key(self) -> str:
        """Tells apart all that would make another archive."""
        return hashlib.sha256(msgspec.json.encode([FORMAT, self], order="deterministic")).hexdigest()[:12]

    @property
    def file_name(self) -> str:
        return f"{self.name.split('/')[-1].replace(':', '-')}-{self.key}"


def recipes() -> tuple[Recipe, ...]:
    return (corral(), slurm("26.05"), mariadb("11.8"), slurm("24.11"))


def slurm(version: str) -> Recipe:
    """All roles in one image: what differs between them is 10 MB, what they share is 90."""
    ours = Folder(owner=SLURM_UID)
    return Recipe(
        name=f"corral/slurm:{version}",
        root=Root(name=f"image-slurm-{version}", suite=SLURM_SUITES[version], packages=SLURM_PACKAGES),
        scripts=_scripts("slurm"),
        folders={
            "/etc/corral/config": Folder(),
            "/etc/corral/identity": Folder(),
            "/etc/corral/keys": Folder(),
            "/etc/corral/login": Folder(),
            "/etc/corral/ssh": Folder(),
            "/etc/slurm": ours,
            "/run/nslcd": Folder(),
            "/run/slurm": Folder(),  # root's for slurmd; sackd has a volume here
            "/run/slurmctld": ours,
            "/run/slurmdbd": ours,
            "/run/sshd": Folder(),
            "/var/log/slurm": ours,
            "/var/spool/slurmctld": ours,
            "/var/spool/slurmd": Folder(),
            "/var/lib/extrausers": Folder(),
        },
        files=_files("slurm-etc", "/etc"),
        links={"/etc/nslcd.conf": "/run/nslcd/nslcd.conf"},  # the one place where nslcd looks; written in the pod
    )


def mariadb(version: str) -> Recipe:
    ours = Folder(owner=MYSQL_UID)
    return Recipe(
        name=f"corral/mariadb:{version}",
        root=Root(name=f"image-mariadb-{version}", suite="trixie", packages=MARIADB_PACKAGES),
        scripts=_scripts("mariadb"),
        folders={"/dumps": ours, "/etc/corral/keys": Folder(), "/run/mysqld": ours, "/var/lib/mysql": ours},
        users=(f"mysql:x:{MYSQL_UID}:{MYSQL_UID}:MariaDB:/nonexistent:/usr/sbin/nologin",),
        dropped=MARIADB_DROPPED,
    )


def corral(version: str = __version__) -> Recipe:
    """The operator. It needs no right, writes no file, and has no key. Our own code, which changes, is a layer."""
    below = corral_base(version)
    return Recipe(
        name=f"corral/corral:{version}",
        root=below.root,
        scripts=_scripts("corral"),
        folders={},
        links={"/usr/local/bin/corral": f"{SCRIPTS_FOLDER}/corral"},
        uid=CORRAL_UID,
        program=Program(python=CORRAL_PYTHON, sources=sources_digest()),
        base=below,
    )


def corral_base(version: str = __version__) -> Recipe:
    """What the operator stands on: Debian's Python and the locked packages."""
    return Recipe(
        name=f"corral/base:{version}",
        root=Root(name="image-corral", suite="trixie", packages=CORRAL_PACKAGES),
        scripts={},
        folders={},
        dropped=CORRAL_DROPPED,
        users=(f"corral:x:{CORRAL_UID}:{CORRAL_UID}:Corral:/nonexistent:/usr/sbin/nologin",),
        packages=Packages(python=CORRAL_PYTHON, lock=lock_digest()),
    )


def _scripts(folder: str) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((Path(__file__).parent / folder).iterdir())}


def _files(folder: str, at: str) -> Mapping[str, bytes]:
    top = Path(__file__).parent / folder
    return {f"{at}/{path.relative_to(top)}": path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}
