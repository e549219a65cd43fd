"""What a LoginSet becomes, and what it waits for: golden files and a table of decisions."""

from pathlib import Path

import msgspec
import pytest

from corral.engine import Apply, Create, Outcome, Plan, summary_lines
from corral.kinds.home import Home
from corral.kinds.identity import DELIVERED, Identity, Ldap
from corral.kinds.loginset.plan import FreshKeys, Snapshot, plan, report
from corral.kinds.loginset.render import config_map, deployment, host_keys, service
from corral.kinds.parts import PodTemplate, Ref, ServiceTemplate
from corral.kube.models.apps_v1 import Deployment, DeploymentStatus
from corral.kube.models.core_v1 import (
    ConfigMap,
    Container,
    ContainerState,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Secret,
)
from tests.unit.kinds.golden import as_yaml, assert_golden
from tests.unit.kinds.loginset.builders import ALICE, HOST_KEYS, a_controller, a_loginset, a_snapshot, meta

GOLDEN = Path(__file__).parent / "golden"


def reasons(decided: Plan) -> list[str]:
    return [wait.reason for wait in decided.waits]


def test_a_plain_loginset_is_as_in_the_golden_file() -> None:
    loginset, controller = a_loginset(), a_controller(identity=ALICE, home=Home())
    made = (config_map(loginset, controller), service(loginset), deployment(loginset, controller))

    assert_golden(GOLDEN / "plain.yaml", as_yaml(made))


def test_a_loginset_with_everything_is_as_in_the_golden_file() -> None:
    loginset = a_loginset(
        replicas=3,
        version="24.11",
        login={"resources": {"limits": {"memory": "2Gi"}}},
        sackd={"env": [{"name": "SACKD_DEBUG", "value": "debug"}]},
        template=PodTemplate(labels={"team": "hpc"}, spec={"terminationGracePeriodSeconds": 3600}),
        strategy={"type": "Recreate"},
        service=ServiceTemplate(port=2222, node_port=32022, spec={"type": "NodePort"}),
        host_keys_ref=Ref(name="old-keys"),
        root_ssh_authorized_keys="ssh-ed25519 ROOT",
        extra_sshd_config="Banner /etc/issue",
        profile="module load slurm",
    )
    controller = a_controller(identity=Identity(ldap=Ldap(uris=("ldap://one",), base="dc=example")))
    made = (config_map(loginset, controller), service(loginset), deployment(loginset, controller))

    assert_golden(GOLDEN / "overridden.yaml", as_yaml(made))


def test_a_pod_is_made_last_when_all_that_it_mounts_is_there() -> None:
    assert [line.split(":")[0] for line in summary_lines(plan(a_snapshot()))] == [
        "create Secret lab/demo-host-keys",
        "create ConfigMap lab/demo-login",
        "create Service lab/demo-login",
        "create Deployment lab/demo-login",
    ]


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (a_snapshot(slurm_key=None), "KeyMissing"),
        (a_snapshot(slurm_key=Secret(metadata=meta("demo-auth-slurm"))), "KeyMissing"),
        (a_snapshot(people=None), "PeopleMissing"),
        (a_snapshot(a_loginset(host_keys_ref=Ref(name="mine"))), "HostKeysMissing"),
        (
            a_snapshot(a_loginset(host_keys_ref=Ref(name="mine")), host_keys=Secret(metadata=meta("mine"))),
            "HostKeysMissing",
        ),
        (a_snapshot(a_loginset(login={"ports": 3})), "BadOverride"),
        (a_snapshot(a_loginset(strategy={"type": 3})), "BadOverride"),
    ],
    ids=["no key", "empty key", "no people", "no host keys", "empty host keys", "bad override", "bad strategy"],
)
def test_what_cannot_be_decided_waits_with_a_reason_and_leaves_what_is_there(snapshot: Snapshot, reason: str) -> None:
    decided = plan(msgspec.structs.replace(snapshot, children=(ConfigMap(metadata=meta("demo-login")),)))

    assert decided.is_empty
    assert reasons(decided) == [reason]


def test_a_loginset_whose_controller_is_gone_goes_on_as_it_is() -> None:
    decided = plan(msgspec.structs.replace(a_snapshot(), controller=None))

    assert decided.is_empty
    assert reasons(decided) == ["ControllerMissing"]


def test_a_cluster_without_users_needs_no_list_of_them() -> None:
    assert not plan(a_snapshot(controller=a_controller(), people=None)).is_empty


def test_host_keys_are_made_once_and_never_overwritten() -> None:
    settled = after(a_snapshot())
    assert "demo-host-keys" not in str(summary_lines(plan(msgspec.structs.replace(settled, fresh_keys=FreshKeys()))))


def test_a_login_node_in_which_all_is_done_has_an_empty_plan() -> None:
    assert plan(after(a_snapshot())) == Plan()


def test_other_settings_of_sshd_replace_the_pods_and_other_people_do_not() -> None:
    def template(loginset_extra: str, identity: Identity) -> object:
        made = deployment(a_loginset(extra_sshd_config=loginset_extra), a_controller(identity=identity))
        return made.spec.template

    assert template("", ALICE) != template("Banner none", ALICE)
    assert template("", ALICE) == template("", Identity())


def test_the_clusters_key_is_not_mounted_where_people_are() -> None:
    pod = deployment(a_loginset(), a_controller()).spec.template.spec
    (login,), (sackd,) = pod.containers, pod.init_containers
    keys = {volume.name for volume in pod.volumes if volume.secret and volume.secret.secret_name == "demo-auth-slurm"}

    assert keys & {mount.name for mount in sackd.volume_mounts}
    assert not keys & {mount.name for mount in login.volume_mounts}
    assert next(m for m in login.volume_mounts if m.mount_path == "/run/slurm").read_only
    assert pod.security_context is not None
    assert pod.security_context.fs_group is None  # it would take all of /home


def test_people_who_are_new_are_told_to_the_pods_that_run() -> None:
    people = ConfigMap(metadata=meta("demo-identity", annotations={DELIVERED: "new"}), data={"passwd": "bob"})
    decided = plan(after(a_snapshot(people=people, pods=(a_pod(),))))

    assert [line.split(":")[0] for line in summary_lines(decided)] == ["patch Pod lab/demo-login-x"]


def test_why_a_pod_does_not_start_is_told() -> None:
    pod = a_pod(waiting="CrashLoopBackOff")
    settled = after(a_snapshot(a_loginset(replicas=2), pods=(pod,)), available=1)

    (wait,) = plan(settled).waits
    assert wait.reason == "NotAvailable"
    assert wait.message.startswith("1 of 2 replicas of Deployment lab/demo-login are up to date and available; ")
    assert "CrashLoopBackOff" in wait.message


def test_the_status_shows_counts_and_fingerprints_and_no_key() -> None:
    snapshot = after(a_snapshot())
    snapshot = msgspec.structs.replace(snapshot, host_keys=host_keys(snapshot.object, HOST_KEYS))
    told = report(snapshot, Outcome(plan=plan(snapshot)))

    assert (told.replicas, told.ready_replicas) == (1, 1)
    assert [shown.split()[1] for shown in told.host_keys] == ["(ssh-ed25519)"]
    assert "private" not in str(told)
    assert "private" not in repr(snapshot.fresh_keys)


def a_pod(*, waiting: str = "") -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=waiting)) if waiting else ContainerState()
    status = ContainerStatus(name="login", state=state, image="", image_id="", ready=False, restart_count=0)
    return Pod(
        metadata=meta("demo-login-x"),
        spec=PodSpec(containers=(Container(name="login"),)),
        status=PodStatus(container_statuses=(status,)),
    )


def after(snapshot: Snapshot, *, available: int | None = None) -> Snapshot:
    """The plan was carried out, and as many pods as asked for are available, or as few as told."""
    made = [
        msgspec.structs.replace(
            action.object,
            metadata=msgspec.structs.replace(action.object.metadata, uid="u", resource_version="1", generation=1),
        )
        for action in plan(snapshot).actions
        if isinstance(action, Create | Apply)
    ]
    count = snapshot.object.spec.replicas if available is None else available
    status = DeploymentStatus(
        observed_generation=1, replicas=count, ready_replicas=count, updated_replicas=count, available_replicas=count
    )
    running = next(one for one in made if isinstance(one, Deployment))
    return msgspec.structs.replace(
        snapshot, children=tuple(made), deployment=msgspec.structs.replace(running, status=status)
    )
