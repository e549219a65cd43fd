"""What things are called: children, labels, ports, paths and images. Every name is derived here and nowhere else.

Kubernetes names of Services and pods' host names hold 63 characters; a name that would be longer is cut and ends in a
digest of the whole, so that it stays unique and stays the same.
"""

import hashlib
import re
from collections.abc import Mapping

NAME_MAX = 63
DIGEST_LENGTH = 8
ORDINAL_DIGITS_MAX = 9

SLURMCTLD_PORT = 6817
SLURMD_PORT = 6818
SLURMDBD_PORT = 6819
SLURMRESTD_PORT = 6820
SLURMRESTD_INNER_PORT = 6821  # in its pod, behind the proxy that speaks TLS
SSH_PORT = 22
MYSQL_PORT = 3306

SLURM_UID = 64030  # Debian's `slurm`, in all releases
MYSQL_UID = 999
NOBODY_UID = 65534

SLURM_KEY = "slurm.key"  # keys of our Secrets, and file names in /etc/slurm
SLURM_JWKS = "slurm.jwks"  # several keys of which one signs; Slurm prefers it to slurm.key
JWT_KEY = "jwt.key"
JWKS = "jwks.json"  # public halves of keys that sign RS256 tokens
TLS_CERT, TLS_KEY, TLS_CA = "tls.crt", "tls.key", "ca.crt"  # keys of a Secret of type kubernetes.io/tls
TOKEN_KEY = "SLURM_JWT"  # noqa: S105 - the name of a key, not a secret

CLUSTER_LABEL = "slurm.corral.dev/cluster"  # the Controller's name, on everything of one Slurm cluster
COMPONENT_LABEL = "app.kubernetes.io/component"
NODESET_LABEL = "slurm.corral.dev/nodeset"
DRAIN_REASON = "slurm.corral.dev/drain-reason"  # annotation of a Kubernetes node: why `corral drain` cordoned it
DRAINED_BY = "slurm.corral.dev/drained-by"  # and who did
REVISION_LABEL = "slurm.corral.dev/revision"  # on a worker's pod: what it was made from
NODE_CONF = "slurm.corral.dev/node-conf"  # annotation of a worker's pod: how it registers, when it asks its node
NODE_CONF_AT = "slurm.corral.dev/node-conf-at"  # and since when it is told that
MACHINE = "slurm.corral.dev/machine"  # annotation of a worker's pod: the Kubernetes node that it stands for
PINNED = "slurm.corral.dev/pinned"  # annotation of a worker's pod: the Kubernetes node that it was made for again


def fitted(name: str, *, length_max: int = NAME_MAX) -> str:
    if len(name) <= length_max:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{name[: length_max - DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"


def controller_name(controller: str) -> str:
    """StatefulSet, Service and pods (`-0`) of slurmctld."""
    return fitted(f"{controller}-controller", length_max=NAME_MAX - 2 - 11)  # room for -0 and a revision hash


def config_name(controller: str) -> str:
    return fitted(f"{controller}-config")


def slurm_key_name(controller: str) -> str:
    return fitted(f"{controller}-auth-slurm")


def jwt_key_name(controller: str) -> str:
    return fitted(f"{controller}-auth-jwt")


def workers_name(controller: str) -> str:
    """The headless Service under which every worker of a cluster is found by its host name."""
    return fitted(f"{controller}-workers")


def worker_name(nodeset: str, ordinal: int, *, padding: int = 0) -> str:
    """Pod, host and Slurm node at once. All ordinals of a NodeSet share the stem, however long its name is."""
    return f"{worker_stem(nodeset)}-{ordinal:0{padding}d}" if padding else f"{worker_stem(nodeset)}-{ordinal}"


def worker_stem(nodeset: str) -> str:
    return fitted(nodeset, length_max=NAME_MAX - 1 - ORDINAL_DIGITS_MAX)


def worker_ordinal(nodeset: str, name: str) -> int | None:
    """The ordinal of a worker of this NodeSet; None for any other name."""
    stem, _, digits = name.rpartition("-")
    return int(digits) if stem == worker_stem(nodeset) and digits.isdecimal() and digits.isascii() else None


def worker_on(nodeset: str, machine: str) -> str:
    """The one worker of a NodeSet on a Kubernetes node: `gpu-rack1-node7`."""
    return fitted(f"{worker_stem(nodeset)}-{machine.replace('.', '-')}")


def is_worker_of(nodeset: str, name: str) -> bool:
    """Whether a worker of this NodeSet may have this name, an ordinal's or a Kubernetes node's."""
    return name.startswith(f"{worker_stem(nodeset)}-")


def claim_name(template: str, worker: str) -> str:
    """The claim of one worker, from one of its NodeSet's volumeClaimTemplates."""
    return fitted(f"{template}-{worker}", length_max=253)


def revision_name(nodeset: str, revision: str) -> str:
    """The ControllerRevision that keeps what workers were made from."""
    return fitted(f"{nodeset}-{revision}")


def reservation_name(nodeset: str) -> str:
    """In Slurm: the time at which its workers are replaced."""
    return fitted(f"corral-{nodeset}")


def guard_name(nodeset: str) -> str:
    """The PodDisruptionBudget that keeps its workers from being evicted."""
    return fitted(nodeset)


def accounting_name(accounting: str) -> str:
    return fitted(f"{accounting}-accounting", length_max=NAME_MAX - 2 - 11)


def database_name(accounting: str) -> str:
    return fitted(f"{accounting}-database", length_max=NAME_MAX - 2 - 11)


def dumps_name(accounting: str) -> str:
    """The volume with the dumps of its database."""
    return fitted(f"{accounting}-dumps")


def dump_name(accounting: str, version: str) -> str:
    """The Job that dumps the database of this version of slurmdbd."""
    return fitted(f"{accounting}-dump-{version.replace('.', '-')}", length_max=NAME_MAX - 6)  # room for a pod's hash


def restapi_name(restapi: str) -> str:
    return fitted(f"{restapi}-restapi", length_max=NAME_MAX - 17)  # room for a Deployment's two hashes


def login_name(loginset: str) -> str:
    """ConfigMap, Service and Deployment of a LoginSet."""
    return fitted(f"{loginset}-login", length_max=NAME_MAX - 17)


def host_keys_name(loginset: str) -> str:
    return fitted(f"{loginset}-host-keys")


def identity_name(controller: str) -> str:
    """The ConfigMap with the people of a cluster."""
    return fitted(f"{controller}-identity")


def home_name(controller: str) -> str:
    """The claim of the /home that workers and login nodes of a cluster share."""
    return fitted(f"{controller}-home")


def token_secret_name(token: str, username: str) -> str:
    return fitted(f"{token}-jwt-{re.sub('[^a-z0-9]', '-', username.lower())}".rstrip("-"))


def slurm_image(version: str) -> str:
    return f"corral/slurm:{version}"


MARIADB_IMAGE = "corral/mariadb:11.8"
CORRAL_IMAGE = "corral/corral:0.1.0"


def labels(component: str, name: str, *, cluster: str = "") -> Mapping[str, str]:
    """What selects the pods of one component of one object; `cluster` adds which Slurm cluster they belong to."""
    found = {
        "app.kubernetes.io/name": component,
        "app.kubernetes.io/instance": name[:NAME_MAX].rstrip("-."),
        "app.kubernetes.io/managed-by": "corral",
    }
    return {**found, CLUSTER_LABEL: cluster[:NAME_MAX].rstrip("-.")} if cluster else found
