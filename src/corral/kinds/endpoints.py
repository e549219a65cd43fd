"""Where the daemons of a Slurm cluster are reached. Pure.

Names of Services are given with their namespace, so that they resolve from every namespace.
"""

import msgspec

from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller


class Endpoint(msgspec.Struct, frozen=True):
    host: str
    port: int


def slurmctld(controller: Controller) -> Endpoint:
    if external := controller.spec.external:
        return Endpoint(external.host, external.port)
    host = f"{names.controller_name(controller.metadata.name)}.{controller.metadata.namespace}"
    return Endpoint(host, controller.spec.service.port or names.SLURMCTLD_PORT)


def slurmctld_host(controller: Controller) -> str:
    """The value of SlurmctldHost: who it is (its host name) and where it is reached."""
    at = slurmctld(controller)
    return at.host if controller.spec.external else f"{names.controller_name(controller.metadata.name)}-0({at.host})"


def workers_domain(controller: Controller) -> str:
    """Where the bare name of a worker is found, for the search list of a pod.

    The API does not tell the cluster's domain; where it is another one, `template.spec.dnsConfig` says so.
    """
    return f"{names.workers_name(controller.metadata.name)}.{controller.metadata.namespace}.svc.cluster.local"


def slurmdbd(accounting: Accounting) -> Endpoint:
    if external := accounting.spec.external:
        return Endpoint(external.host, external.port)
    host = f"{names.accounting_name(accounting.metadata.name)}.{accounting.metadata.namespace}"
    return Endpoint(host, accounting.spec.service.port or names.SLURMDBD_PORT)
