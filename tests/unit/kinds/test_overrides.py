"""What a user's override does to what Corral makes."""

import pytest

from corral.kinds import overrides
from corral.kinds.overrides import BadOverride, laid_over, overridden
from corral.kinds.parts import PodTemplate, ServiceTemplate
from corral.kube.meta import ObjectMeta
from corral.kube.models.core_v1 import (
    Container,
    EnvVar,
    PodSpec,
    PodTemplateSpec,
    SecurityContext,
    Service,
    ServicePort,
    ServiceSpec,
    Volume,
)


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}, id="key by key"),
        pytest.param({"a": True}, {"a": False}, {"a": False}, id="false counts"),
        pytest.param({"a": 1}, {"a": 0}, {"a": 0}, id="zero counts"),
        pytest.param({"a": ["x"]}, {"a": []}, {"a": []}, id="an empty list counts"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null takes away"),
        pytest.param({"a": ["x"]}, {"a": ["y"]}, {"a": ["y"]}, id="a plain list is replaced"),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
            id="named things by name",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
            id="one volume in two places",
        ),
    ],
)
def test_the_users_value_counts(ours: object, theirs: object, result: object) -> None:
    assert laid_over(ours, theirs) == result


def a_template() -> PodTemplateSpec:
    daemon = Container(
        name="slurmctld",
        image="corral/slurm:26.05",
        env=(EnvVar(name="A", value="1"),),
        security_context=SecurityContext(run_as_non_root=True),
    )
    return PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "ours"}),
        spec=PodSpec(containers=(daemon,), volumes=(Volume(name="state"),), automount_service_account_token=False),
    )


def test_a_pod_takes_the_users_image_sidecar_and_labels_but_keeps_its_own_selector_label() -> None:
    template = PodTemplate(
        labels={"app": "theirs", "team": "hpc"},
        spec={"containers": [{"name": "side", "image": "side:1"}], "automountServiceAccountToken": True},
    )
    made = overrides.pod_template(a_template(), template, container="slurmctld", daemon={"image": "mine:2"})

    assert made.metadata.labels == {"app": "ours", "team": "hpc"}
    assert [(one.name, one.image) for one in made.spec.containers] == [("slurmctld", "mine:2"), ("side", "side:1")]
    assert made.spec.automount_service_account_token is True
    assert made.spec.containers[0].env[0].value == "1"


def test_a_false_of_the_user_is_not_lost() -> None:
    daemon = {"securityContext": {"runAsNonRoot": False}}
    made = overrides.pod_template(a_template(), PodTemplate(), container="slurmctld", daemon=daemon)

    context = made.spec.containers[0].security_context
    assert context is not None
    assert context.run_as_non_root is False


def test_a_service_takes_the_users_port_and_type() -> None:
    ours = Service(metadata=ObjectMeta(name="s"), spec=ServiceSpec(ports=(ServicePort(name="p", port=6817),)))
    made = overrides.service(ours, ServiceTemplate(node_port=30000, spec={"type": "NodePort"}))

    assert (made.spec.type, made.spec.ports[0].port, made.spec.ports[0].node_port) == ("NodePort", 6817, 30000)


def test_a_value_of_the_wrong_type_is_told_with_its_path() -> None:
    with pytest.raises(BadOverride, match=r"spec\.slurmctld: .*\$\.image"):
        overridden(Container(name="slurmctld"), {"image": 7}, what="spec.slurmctld")


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        pytest.param({"imagee": "x"}, "spec.slurmctld.imagee is no field of Container: did you mean image?", id="here"),
        pytest.param({"resources": {"limit": {}}}, "spec.slurmctld.resources.limit is no field of", id="below"),
        pytest.param({"env": [{"name": "A", "valu": "1"}]}, "spec.slurmctld.env[0].valu is no field of", id="list"),
    ],
)
def test_a_field_that_there_is_not_is_told_with_its_path_and_not_dropped(theirs: dict[str, object], told: str) -> None:
    with pytest.raises(BadOverride) as raised:
        overridden(Container(name="slurmctld"), theirs, what="spec.slurmctld")
    assert str(raised.value).startswith(told)


def test_names_of_the_users_own_are_no_fields() -> None:
    made = overridden(PodSpec(containers=()), {"nodeSelector": {"any": "thing"}}, what="spec.template.spec")
    assert made.node_selector == {"any": "thing"}
