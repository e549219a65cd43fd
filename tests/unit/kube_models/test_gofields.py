from corral.kube.generate.gofields import GoFields, facts_of_package

SOURCE = """
type Spec struct {
	metav1.TypeMeta `json:",inline"`
	Common `json:",inline"`
	// a pointer tells absent from zero
	Replicas *int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas"`
	Paused bool `json:"paused,omitempty" protobuf:"varint,2,opt,name=paused"`
	Name string `json:"name" protobuf:"bytes,3,opt,name=name"`
	Rules []Rule `json:"rules" protobuf:"bytes,4,rep,name=rules"`
	Ports []Port `json:"ports,omitempty" protobuf:"bytes,5,rep,name=ports"`
	Limits map[string]string `json:"limits"`
}

type Common struct {
	Delay int32 `json:"delay,omitempty"`
}

type Bare struct {
	Name string `json:"name"`
}
"""


def test_plain_optional_fields_are_zero_when_absent_and_slices_without_omitempty_may_be_null() -> None:
    facts = facts_of_package(SOURCE)

    assert facts["Spec"] == GoFields(zero=("delay", "paused"), null=("limits", "rules"))


def test_a_struct_without_such_fields_is_not_listed() -> None:
    assert "Bare" not in facts_of_package(SOURCE)
