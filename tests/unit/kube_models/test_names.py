import pytest

from corral.kube.generate import names


@pytest.mark.parametrize(
    ("wire", "attribute"),
    [
        ("podIP", "pod_ip"),
        ("clusterIPs", "cluster_ips"),
        ("nonResourceURLs", "non_resource_urls"),
        ("hostIPC", "host_ipc"),
        ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
        ("containerPort", "container_port"),
        ("HTTPGetAction", "http_get_action"),
        ("from", "from_"),
        ("not", "not_"),
        ("$ref", "ref"),
        ("x-kubernetes-list-map-keys", "x_kubernetes_list_map_keys"),
        ("openAPIV3Schema", "openapi_v3_schema"),
        ("Port", "port"),
        ("ipv4Address", "ipv4_address"),
    ],
)
def test_a_field_is_named_in_snake_case_with_acronyms_as_words(wire: str, attribute: str) -> None:
    assert names.attribute(wire) == attribute


@pytest.mark.parametrize(
    ("schema", "module"),
    [
        ("io.k8s.api.core.v1.Pod", "core_v1"),
        ("io.k8s.api.rbac.v1.Role", "rbac_v1"),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "apiextensions_v1"),
        ("kubevirt.io.v1.VirtualMachine", "kubevirt_v1"),
        ("k8s.cni.cncf.io.v1.NetworkAttachmentDefinition", "k8s_v1"),
    ],
)
def test_a_schema_lives_in_the_module_of_its_group_and_version(schema: str, module: str) -> None:
    assert names.module(schema) == module


def test_a_name_that_msgspec_would_spell_differently_is_written_out() -> None:
    assert names.renames_to("container_port", "containerPort")
    assert not names.renames_to("pod_ip", "podIP")
