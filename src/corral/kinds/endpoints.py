"""Where the daemons of a Slurm cluster are reached. Pure.

Names of Services are given with their namespace, so that they resolve from every namespace.
"""

import msgspec

from corral.kinds import names
from corral.kinds.accounting.spec import Accounting
from corral.kinds.controller.spec import Controller
from corral.kinds.restapi.spec import RestApi
from corral.kube.models.core_v1 import Secret, Service
from corral.slurm.transport import Endpoint as SlurmEndpoint


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


def slurmrestd(restapi: RestApi, service: Service | None, certificate: Secret | None) -> SlurmEndpoint | None:
    """Where a RestApi is asked; None until its Service has an address, and with TLS until its certificate is there.

    The Service's address, not its name: whoever asks may be where the cluster's names do not resolve. With TLS the
    certificate must have that name all the same.
    """
    if service is None or service.spec.cluster_ip in ("", "None") or not service.spec.ports:
        return None
    ip = service.spec.cluster_ip
    at = f"{f'[{ip}]' if ':' in ip else ip}:{service.spec.ports[0].port}"
    if restapi.spec.tls is None:
        return SlurmEndpoint(url=f"http://{at}")
    if certificate is None:
        return None
    authority = certificate.data.get(names.TLS_CA) or certificate.data.get(names.TLS_CERT, b"")
    name = f"{names.restapi_name(restapi.metadata.name)}.{restapi.metadata.namespace}"
    return SlurmEndpoint(url=f"https://{at}", ca_pem=authority.decode(errors="replace"), name=name)


def slurmdbd(accounting: Accounting) -> Endpoint:
    if external := accounting.spec.external:
        return Endpoint(external.host, external.port)
    host = f"{names.accounting_name(accounting.metadata.name)}.{accounting.metadata.namespace}"
    return Endpoint(host, accounting.spec.service.port or names.SLURMDBD_PORT)
