"""What a RestApi becomes, and what it waits for: golden files and a table of decisions."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from corral.engine import Outcome, summary_lines
from corral.kinds import endpoints
from corral.kinds.accounting.spec import Accounting, AccountingSpec
from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.parts import External, PodTemplate, Ref, ServiceTemplate
from corral.kinds.restapi.controller import RestApiReconciler, Snapshot
from corral.kinds.restapi.render import objects, slurm_conf
from corral.kinds.restapi.spec import RestApi, RestApiSpec, Tls
from corral.kube.meta import ObjectMeta
from corral.kube.models.apps_v1 import Deployment, DeploymentStatus
from corral.kube.models.core_v1 import ConfigMap, Secret, Service, ServicePort, ServiceSpec
from corral.slurm.transport import Endpoint
from tests.unit.kinds.golden import as_yaml, assert_golden

GOLDEN = Path(__file__).parent / "golden"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
META = ObjectMeta(name="slurm", namespace="lab", uid="u1", generation=1)
TLS = Tls(secret_ref=Ref(name="rest-tls"))
CERTIFICATE = Secret(
    metadata=ObjectMeta(name="rest-tls", namespace="lab"),
    data={"tls.crt": b"CERTIFICATE", "tls.key": b"KEY", "ca.crt": b"AUTHORITY"},
)


def a_restapi(**spec: object) -> RestApi:
    return RestApi(metadata=META, spec=RestApiSpec(controller_ref=Ref(name="slurm"), **spec))  # type: ignore[arg-type]


def a_controller(**spec: object) -> Controller:
    return Controller(metadata=META, spec=ControllerSpec(**spec))  # type: ignore[arg-type]


def an_accounting(**spec: object) -> Accounting:
    return Accounting(metadata=META, spec=AccountingSpec(**spec))  # type: ignore[arg-type]


def test_a_restapi_with_accounting_is_as_in_the_golden_file() -> None:
    made = objects(a_restapi(replicas=2), a_controller(accounting_ref=Ref(name="slurm")), an_accounting())

    assert_golden(GOLDEN / "with-accounting.yaml", as_yaml(made))


def test_a_restapi_with_overrides_is_as_in_the_golden_file() -> None:
    restapi = a_restapi(
        version="24.11",
        slurmrestd={"resources": {"limits": {"memory": "256Mi"}}, "env": [{"name": "A", "value": ""}]},
        template=PodTemplate(labels={"team": "hpc"}, spec={"enableServiceLinks": True, "nodeSelector": {"zone": "a"}}),
        service=ServiceTemplate(port=80, spec={"type": "LoadBalancer"}),
    )

    assert_golden(GOLDEN / "overridden.yaml", as_yaml(objects(restapi, a_controller(), None)))


def test_a_restapi_with_tls_is_as_in_the_golden_file() -> None:
    """slurmrestd listens in its pod only; the proxy has the certificate, and slurmrestd has not."""
    made = objects(a_restapi(tls=TLS), a_controller(), None)

    assert_golden(GOLDEN / "with-tls.yaml", as_yaml(made))


def test_a_client_of_a_restapi_with_tls_trusts_its_authority_and_wants_its_name() -> None:
    service = Service(metadata=META, spec=ServiceSpec(cluster_ip="fd00::1", ports=(ServicePort(port=6820),)))
    at = endpoints.slurmrestd(a_restapi(tls=TLS), service, CERTIFICATE)

    assert at == Endpoint(url="https://[fd00::1]:6820", ca_pem="AUTHORITY", name="slurm-restapi.lab")
    assert endpoints.slurmrestd(a_restapi(tls=TLS), service, None) is None
    assert endpoints.slurmrestd(a_restapi(), service, None) == Endpoint(url="http://[fd00::1]:6820")


def test_without_accounting_no_accounting_host_is_named() -> None:
    assert "Accounting" not in slurm_conf(a_controller(), None)


def test_daemons_elsewhere_are_named_as_they_were_given() -> None:
    elsewhere = External(host="slurm.example.org", port=7000)
    conf = slurm_conf(a_controller(external=elsewhere), an_accounting(external=External(host="db.example.org", port=1)))

    assert "SlurmctldHost=slurm.example.org\nSlurmctldPort=7000\n" in conf
    assert "AccountingStorageHost=db.example.org\nAccountingStoragePort=1\n" in conf


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (Snapshot(object=a_restapi(), now=NOW), "ControllerMissing"),
        (
            Snapshot(object=a_restapi(), now=NOW, controller=a_controller(accounting_ref=Ref(name="other"))),
            "AccountingMissing",
        ),
        (Snapshot(object=a_restapi(tls=TLS), now=NOW, controller=a_controller()), "CertificateMissing"),
        (
            Snapshot(
                object=a_restapi(tls=TLS),
                now=NOW,
                controller=a_controller(),
                certificate=msgspec.structs.replace(CERTIFICATE, data={"tls.crt": b"CERTIFICATE"}),
            ),
            "CertificateMissing",
        ),
        (Snapshot(object=a_restapi(slurmrestd={"ports": 3}), now=NOW, controller=a_controller()), "BadOverride"),
    ],
    ids=["no controller", "no accounting", "no certificate", "no key of it", "bad override"],
)
def test_what_cannot_be_decided_waits_with_a_reason_and_leaves_what_is_there(snapshot: Snapshot, reason: str) -> None:
    theirs = ConfigMap(metadata=ObjectMeta(name="slurm-restapi", namespace="lab"))
    plan = RestApiReconciler().plan(msgspec.structs.replace(snapshot, children=(theirs,)))

    assert plan.is_empty
    assert [wait.reason for wait in plan.waits] == [reason]


def test_the_configuration_is_made_before_what_reads_it() -> None:
    plan = RestApiReconciler().plan(Snapshot(object=a_restapi(), now=NOW, controller=a_controller()))

    assert [line.split(":")[0] for line in summary_lines(plan)] == [
        "create ConfigMap lab/slurm-restapi",
        "create Service lab/slurm-restapi",
        "create Deployment lab/slurm-restapi",
    ]


def test_another_configuration_replaces_the_pods() -> None:
    with_it = objects(a_restapi(), a_controller(), an_accounting())[-1]
    without = objects(a_restapi(), a_controller(), None)[-1]

    assert isinstance(with_it, Deployment)
    assert isinstance(without, Deployment)
    assert with_it.spec.template.metadata != without.spec.template.metadata


def test_the_status_counts_what_the_deployment_says() -> None:
    status = DeploymentStatus(replicas=3, ready_replicas=2)
    deployment = msgspec.structs.replace(objects(a_restapi(), a_controller(), None)[-1], status=status)
    assert isinstance(deployment, Deployment)
    snapshot = Snapshot(object=a_restapi(), now=NOW, controller=a_controller(), deployment=deployment)

    told = RestApiReconciler().report(snapshot, Outcome(plan=RestApiReconciler().plan(snapshot)))
    assert (told.replicas, told.ready_replicas) == (3, 2)
    assert "app.kubernetes.io/instance=slurm" in told.selector
