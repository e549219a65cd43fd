"""What the API server itself refuses, beyond what the definitions say: rules in CEL, with nobody to ask but it. Pure.

Foreground deletion. Whoever deletes an object with `propagationPolicy: Foreground` has Kubernetes delete all that it
owns first, at once, whatever finalizer holds the object itself. Of a NodeSet these are its workers, with their jobs. No
finalizer prevents it and no disruption budget is asked, so it is refused, with a sentence that says how to do it.
"""

from corral.install.rbac import NAME
from corral.kinds.nodeset.spec import NodeSet
from corral.kube.meta import Object, Resource
from corral.kube.unstructured import untyped

GROUP = "admissionregistration.k8s.io"
POLICY = Resource(GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
BINDING = Resource(
    GROUP, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
)

# Where a deletion does not say how, a finalizer that somebody gave the object does.
IN_THE_BACKGROUND = (
    "has(request.options.propagationPolicy) ? request.options.propagationPolicy != 'Foreground' : "
    "!has(oldObject.metadata.finalizers) || !('foregroundDeletion' in oldObject.metadata.finalizers)"
)
TOLD = (
    "deleted in the foreground, a NodeSet loses all its workers at once, with their jobs. Delete it in the background, "
    "as `kubectl delete nodeset` does by itself (propagationPolicy Background): its workers are drained then, and go "
    "when their jobs have ended"
)


def policies() -> tuple[Object, ...]:
    name, kind = f"{NAME}-nodesets", NodeSet.resource
    rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": ["DELETE"], "resources": [kind.plural]}
    policy = {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": IN_THE_BACKGROUND, "message": TOLD, "reason": "Forbidden"}],
        },
    }
    binding = {
        "apiVersion": BINDING.api_version,
        "kind": BINDING.kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return untyped(POLICY)(content=policy), untyped(BINDING)(content=binding)
