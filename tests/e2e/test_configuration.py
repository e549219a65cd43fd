"""A configuration that can be trusted, on a real cluster: taken in place, refused with a reason, restarted for."""

import json
import time

import pytest

from tests.e2e.test_first_job import Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.cluster

CONTROLLER = """
apiVersion: slurm.corral.dev/v1alpha1
kind: Controller
metadata: {name: demo}
"""
LOOKED_EVERY_S = 0.5


def change(lab: Lab, extra_conf: str) -> None:
    lab.kubectl("patch", "controller", "demo", "--type=merge", "-p", json.dumps({"spec": {"extraConf": extra_conf}}))


def config_applied(lab: Lab, reason: str, *, within_s: float = 60.0) -> str:
    """The message of ConfigApplied once it has this reason for the present generation."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = json.loads(lab.kubectl("get", "controller", "demo", "-o", "json"))
        conditions = found.get("status", {}).get("conditions", [])
        said: dict[str, object] = next((c for c in conditions if c["type"] == "ConfigApplied"), {})
        current = said.get("observedGeneration") == found["metadata"]["generation"]
        if current and said["reason"] == reason:
            return str(said["message"])
        assert time.monotonic() < deadline_s, f"expected {reason}, found {said}"
        time.sleep(LOOKED_EVERY_S)  # a real cluster: there is nothing to wait on for a reason


def started(lab: Lab) -> tuple[str, str]:
    """Which pod, and how often its container was started."""
    pod = json.loads(lab.kubectl("get", "pod", "demo-controller-0", "-o", "json"))
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["containerID"]


def value_of(lab: Lab, key: str) -> str:
    lines = lab.on_controller("scontrol", "show", "config").splitlines()
    return next(line.partition("=")[2].strip() for line in lines if line.split("=")[0].strip() == key)


def test_a_configuration_is_taken_in_place_or_refused_or_restarted_for(lab: Lab) -> None:
    lab.kubectl("apply", "-f", "-", stdin=CONTROLLER)
    lab.wait("controller/demo")
    first = started(lab)

    change(lab, "MinJobAge=77")
    config_applied(lab, "Confirmed")
    assert value_of(lab, "MinJobAge") == "77 sec"
    assert started(lab) == first

    change(lab, "MinJobAge=78\nMinJobAg=79")
    assert "spec.extraConf: line 2: MinJobAg is no key" in config_applied(lab, "ConfigInvalid")

    change(lab, "MinJobAge=78\nJobSubmitPlugins=nosuch")
    assert "failed to initialize job_submit plugin" in config_applied(lab, "ConfigRefused")
    assert value_of(lab, "MinJobAge") == "77 sec"
    assert started(lab) == first

    change(lab, "MinJobAge=80\nCommunicationParameters=block_null_hash")
    config_applied(lab, "Confirmed", within_s=120)
    assert value_of(lab, "MinJobAge") == "80 sec"
    assert started(lab) != first
    assert "cannot change CommunicationParameters" in lab.kubectl("get", "events", "-o", "jsonpath={..message}{..note}")
