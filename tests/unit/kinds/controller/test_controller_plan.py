"""What is decided about a Controller: what is made and in which order, what is waited for, what is delivered."""

from datetime import timedelta

import msgspec
import pytest

from corral.engine import Apply, Create, EmitEvent, Outside, Patch, Plan
from corral.engine.reconciler import Outcome, Problem, Result
from corral.kinds.controller.changes import Rest
from corral.kinds.controller.objects import CONFIG_MAP_BYTES_MAX, DELIVERED, RESTART
from corral.kinds.controller.plan import plan, rest_of
from corral.kinds.controller.snapshot import ApplyConfig, HoldJobs, Jobs, Snapshot, Taken
from corral.kinds.controller.spec import Controller, Metrics
from corral.kinds.controller.status import status
from corral.kinds.parts import External, KeyRef, Ref, ServiceTemplate
from corral.kube.models.apps_v1 import StatefulSet
from corral.kube.models.core_v1 import (
    ConfigMap,
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Secret,
    Service,
)
from tests.unit.kinds.controller.builders import (
    NOW,
    a_config_map,
    a_controller,
    a_nodeset,
    a_pod,
    a_secret,
    a_snapshot,
    made_by,
    running,
    settled,
)


def changed(snapshot: Snapshot, **spec: object) -> Snapshot:
    """The same cluster after the user has changed the spec."""
    controller = snapshot.object
    return msgspec.structs.replace(
        snapshot,
        object=msgspec.structs.replace(controller, spec=msgspec.structs.replace(controller.spec, **spec)),
    )


def steps(decided: Plan) -> list[str]:
    return [
        f"{action.object.resource.kind}/{action.object.metadata.name}"
        if isinstance(action, Create | Apply)
        else type(action).__name__
        for action in decided.actions
    ]


def told(decided: Plan) -> list[tuple[str, str]]:
    return [(action.type, action.reason) for action in decided.actions if isinstance(action, EmitEvent)]


def delivery_of(decided: Plan) -> Outside:
    return next(action for action in decided.actions if isinstance(action, Outside))


def reasons(decided: Plan) -> list[str]:
    return [wait.reason for wait in decided.waits]


def test_the_steps_come_in_order_services_keys_files_stateful_set() -> None:
    decided = plan(a_snapshot())

    assert steps(decided) == [
        "Service/demo-controller",
        "Service/demo-workers",
        "Secret/demo-auth-slurm",
        "Secret/demo-auth-jwt",
        "ConfigMap/demo-config",
        "StatefulSet/demo-controller",
    ]
    assert reasons(decided) == ["SlurmctldStarting"]


def test_a_cluster_in_which_all_is_done_has_an_empty_plan() -> None:
    assert plan(settled()) == Plan()


def test_keys_are_made_once_and_never_overwritten() -> None:
    other_keys = msgspec.structs.replace(settled(), fresh_keys=a_snapshot().fresh_keys.__class__(b"x", b"y"))

    assert plan(other_keys) == Plan()
    assert [type(a).__name__ for a in plan(a_snapshot()).actions if isinstance(getattr(a, "object", None), Secret)] == [
        "Create",
        "Create",
    ]


@pytest.mark.parametrize(
    ("controller", "reason", "says"),
    [
        pytest.param(
            a_controller(accounting_ref=Ref(name="acct")), "AccountingMissing", "Accounting lab/acct", id="accounting"
        ),
        pytest.param(
            a_controller(config_file_refs=(Ref(name="files"),)), "ReferenceMissing", "ConfigMap lab/files", id="files"
        ),
        pytest.param(
            a_controller(slurm_key_ref=KeyRef(name="mine", key="k")), "KeyMissing", "Secret lab/mine", id="a key"
        ),
    ],
)
def test_what_is_referred_to_and_missing_is_waited_for_by_name(controller: Controller, reason: str, says: str) -> None:
    decided = plan(a_snapshot(controller))

    assert reason in reasons(decided)
    assert says in " ".join(wait.message for wait in decided.waits)
    assert "Service/demo-controller" in steps(decided)
    assert "StatefulSet/demo-controller" not in steps(decided)


def test_a_reference_that_goes_takes_nothing_away() -> None:
    files = a_config_map("files", job_submit_lua="return 0")
    before = settled(a_controller(config_file_refs=(Ref(name="files"),)), config_maps={"files": files})
    decided = plan(msgspec.structs.replace(before, config_maps={}))

    assert decided.actions == ()
    assert reasons(decided) == ["ReferenceMissing"]


def test_a_wrong_configuration_is_not_delivered_and_the_last_good_one_stays() -> None:
    wrong = changed(settled(), extra_conf="MinJobAg=2")
    decided = plan(wrong)

    assert (steps(decided), told(decided)) == (["EmitEvent"], [("Warning", "ConfigInvalid")])
    said = msgspec.structs.replace(wrong.object, status=status(wrong, Outcome(plan=decided)))
    assert told(plan(msgspec.structs.replace(wrong, object=said))) == []
    assert [(wait.reason, wait.stalled) for wait in decided.waits] == [("ConfigInvalid", True)]
    assert "spec.extraConf: line 1: MinJobAg is no key" in decided.waits[0].message
    assert "the last good configuration stays" in decided.waits[0].message


def test_a_wrong_first_configuration_starts_nothing() -> None:
    decided = plan(a_snapshot(a_controller(extra_conf="MinJobAg=2")))

    assert "StatefulSet/demo-controller" not in steps(decided)
    assert "slurmctld is not started" in decided.waits[0].message


def test_a_changed_configuration_is_delivered_in_place() -> None:
    decided = plan(changed(settled(), extra_conf="MinJobAge=2"))

    assert steps(decided) == ["ConfigMap/demo-config", "Patch", "Outside", "EmitEvent"]
    delivery = delivery_of(decided)
    assert isinstance(delivery.call, ApplyConfig)
    assert told(decided) == [("Normal", "Reconfigured")]
    assert delivery.call.pod == "demo-controller-0"
    assert "applied by a reconfigure; running jobs are not affected" in delivery.message
    patch = decided.actions[1]
    assert isinstance(patch, Patch)
    assert patch.merge == {"metadata": {"annotations": {DELIVERED: delivery.call.digest}}}


def test_a_partition_that_goes_is_told_with_what_it_costs() -> None:
    before = settled(nodesets=(a_nodeset("gpu", partition=True),))
    delivery = delivery_of(plan(msgspec.structs.replace(before, nodesets=())))

    assert delivery.message.endswith("jobs of a partition that is no longer defined are cancelled")


def test_many_changes_at_once_are_one_delivery() -> None:
    decided = plan(changed(settled(), extra_conf="MinJobAge=2\nTreeWidth=7\nPartitionName=x Nodes=ALL"))

    assert [step for step in steps(decided) if step == "Outside"] == ["Outside"]


def test_a_key_that_needs_a_restart_gets_one_announced() -> None:
    before = settled()
    decided = plan(changed(before, extra_conf="CommunicationParameters=EnableIPv6"))

    assert steps(decided) == ["EmitEvent", "ConfigMap/demo-config", "StatefulSet/demo-controller"]
    told = decided.actions[0]
    assert isinstance(told, EmitEvent)
    assert "because a reconfigure cannot change CommunicationParameters" in told.message
    assert reasons(decided) == ["SlurmctldRestarting"]


def test_a_restart_is_not_lost_when_only_the_files_were_written() -> None:
    before = settled()
    wanted = changed(before, extra_conf="CommunicationParameters=EnableIPv6")
    written = [one for one in made_by(plan(wanted)) if isinstance(one, ConfigMap)]
    kept = [one for one in before.children if not isinstance(one, ConfigMap)]
    crashed = msgspec.structs.replace(wanted, children=(*kept, *written))

    assert steps(plan(crashed)) == ["StatefulSet/demo-controller"]


def test_after_the_restart_all_is_done_and_later_changes_do_not_restart_again() -> None:
    before = settled()
    wanted = changed(before, extra_conf="CommunicationParameters=EnableIPv6")
    made = {type(one): one for one in made_by(plan(wanted))}
    files, daemon = made[ConfigMap], made[StatefulSet]
    mark = files.metadata.annotations[RESTART]
    kept = [one for one in before.children if not isinstance(one, ConfigMap | StatefulSet)]
    done = msgspec.structs.replace(
        wanted,
        children=(*kept, files, daemon),
        pod=a_pod(wanted.object, annotations={RESTART: mark}),
        running=running(mark),
    )

    assert plan(done) == Plan()
    later = plan(changed(done, extra_conf="CommunicationParameters=EnableIPv6\nMinJobAge=2"))
    assert steps(later) == ["ConfigMap/demo-config", "Patch", "Outside", "EmitEvent"]


DRAINING = "SelectType=select/linear"


def in_use(snapshot: Snapshot, jobs: Jobs | None) -> Snapshot:
    """A cluster that has run before, in which these jobs run now."""
    controller = snapshot.object
    known = msgspec.structs.replace(
        controller, status=msgspec.structs.replace(controller.status, slurm_version="26.05")
    )
    return msgspec.structs.replace(snapshot, object=known, jobs=jobs)


def test_a_change_that_jobs_would_not_survive_waits_until_they_have_ended() -> None:
    wanted = in_use(changed(settled(), extra_conf=DRAINING), Jobs(count=2, some=("17", "18")))
    decided = plan(wanted)

    assert decided.actions == ()
    assert reasons(decided) == ["WaitingForJobs"]
    assert "SelectType" in decided.waits[0].message
    assert "2 jobs (17, 18)" in decided.waits[0].message
    assert decided.again_after_s is not None
    assert config_applied(wanted)[:2] == ("False", "WaitingForJobs")


def test_without_an_answer_about_jobs_nothing_is_restarted() -> None:
    decided = plan(in_use(changed(settled(), extra_conf=DRAINING), None))

    assert decided.actions == ()
    assert reasons(decided) == ["JobsUnknown"]


def test_when_the_last_job_has_ended_none_may_start_before_the_restart() -> None:
    decided = plan(in_use(changed(settled(), extra_conf=DRAINING), Jobs(count=0)))

    assert steps(decided) == ["EmitEvent", "Outside", "ConfigMap/demo-config", "StatefulSet/demo-controller"]
    hold = decided.actions[1]
    assert isinstance(hold, Outside)
    assert hold.call == HoldJobs(pod="demo-controller-0")


def test_a_harmless_change_beside_one_that_waits_waits_too() -> None:
    decided = plan(in_use(changed(settled(), extra_conf=f"MinJobAge=9\n{DRAINING}"), Jobs(count=1, some=("17",))))

    assert decided.actions == ()


def test_a_partition_that_goes_waits_for_its_own_jobs_and_needs_no_restart() -> None:
    before = settled(nodesets=(a_nodeset("gpu", partition=True),))
    gone = in_use(msgspec.structs.replace(before, nodesets=()), Jobs(count=0))
    decided = plan(gone)

    assert steps(decided) == ["Outside", "ConfigMap/demo-config", "Patch", "Outside", "EmitEvent"]
    assert rest_of(gone) == Rest(
        ("gpu",), ("PartitionName=gpu (jobs of a partition that is no longer defined are cancelled)",)
    )
    assert decided.actions[0].call == HoldJobs(pod="demo-controller-0", partitions=("gpu",))  # type: ignore[union-attr]


def test_a_cluster_that_never_ran_has_no_jobs_to_wait_for() -> None:
    assert "StatefulSet/demo-controller" in steps(plan(changed(settled(), extra_conf=DRAINING)))


def test_a_key_that_only_slurmd_reads_at_its_start_is_told() -> None:
    decided = plan(changed(settled(), extra_conf="NamespaceType=namespace/tmpfs"))
    told = decided.actions[0]

    assert isinstance(told, EmitEvent)
    assert "NamespaceType" in told.message
    assert "StatefulSet/demo-controller" not in steps(decided)


@pytest.mark.parametrize(
    ("taken", "state", "says"),
    [
        pytest.param(Taken(yes=3), ("True", "Confirmed"), "", id="all have it"),
        pytest.param(
            Taken(yes=2, no=1, no_names=("w-1",)), ("False", "Delivering"), "1 slurmd not yet (w-1)", id="one no"
        ),
        pytest.param(
            Taken(yes=2, unknown=1, unknown_names=("w-2",)),
            ("True", "Confirmed"),
            "do not answer (w-2)",
            id="one silent",
        ),
    ],
)
def test_every_slurmd_confirms_the_configuration(taken: Taken, state: tuple[str, str], says: str) -> None:
    done = settled()
    assert done.running is not None
    seen = msgspec.structs.replace(done, running=msgspec.structs.replace(done.running, slurmd=taken))

    assert config_applied(seen)[:2] == state
    assert says in config_applied(seen)[2]
    assert bool(plan(seen).again_after_s) is bool(taken.no or taken.unknown)
    counted = status(seen, Outcome(plan=plan(seen))).daemons["slurmd"]
    assert (counted.yes, counted.no, counted.unknown) == (taken.yes, taken.no, taken.unknown)


def test_another_port_is_used_by_everybody() -> None:
    controller = a_controller(service=ServiceTemplate(port=7000))
    made = made_by(plan(a_snapshot(controller)))
    files = next(one for one in made if isinstance(one, ConfigMap))
    service = next(one for one in made if isinstance(one, Service) and one.metadata.name == "demo-controller")
    pod = next(one for one in made if isinstance(one, StatefulSet)).spec.template.spec

    assert "SlurmctldPort=7000\n" in files.data["slurm.conf"]
    assert (service.spec.ports[0].port, service.spec.ports[0].target_port) == (7000, 7000)
    assert pod.containers[0].ports[0].container_port == 7000
    assert "port=7000" in str(pod.containers[0].liveness_probe)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param({"pod": None}, "SlurmctldStarting", id="no pod"),
        pytest.param({"pod": a_pod(a_controller(), ready=False)}, "SlurmctldStarting", id="not ready"),
        pytest.param({"running": None}, "StateUnknown", id="it does not say what it runs"),
    ],
)
def test_nothing_is_delivered_while_it_is_unknown_what_runs(seen: dict[str, object], reason: str) -> None:
    decided = plan(msgspec.structs.replace(changed(settled(), extra_conf="MinJobAge=2"), **seen))

    assert reasons(decided) == [reason]
    assert steps(decided) == ["ConfigMap/demo-config"]


def test_a_slurmctld_that_does_not_start_is_told_in_its_own_words() -> None:
    words = "starting\ncorral: slurmctld would not start: fatal: no such plugin\n"
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=1, message=words))
    again = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    daemon = ContainerStatus(
        name="slurmctld", image="", image_id="", ready=False, restart_count=3, state=again, last_state=ended
    )
    pod = a_pod(a_controller(), ready=False)
    pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, container_statuses=(daemon,)))
    decided = plan(msgspec.structs.replace(settled(), pod=pod, running=None))

    assert decided.waits[0].message.endswith(
        "it ended with exit code 1: corral: slurmctld would not start: fatal: no such plugin"
    )


def test_a_plain_key_of_the_users_that_changes_restarts_slurmctld() -> None:
    controller = a_controller(slurm_key_ref=KeyRef(name="mine", key="k"))
    before = settled(controller, secrets={"mine": a_secret("mine", {"k": b"old"})})
    decided = plan(msgspec.structs.replace(before, secrets={"mine": a_secret("mine", {"k": b"new"})}))

    assert steps(decided) == ["StatefulSet/demo-controller"]


def test_files_that_one_config_map_cannot_hold_are_in_several() -> None:
    controller = a_controller(config_file_refs=(Ref(name="a"), Ref(name="b")))
    big = "x" * (CONFIG_MAP_BYTES_MAX - 100)
    maps = {"a": a_config_map("a", one_lua=big), "b": a_config_map("b", two_lua=big)}
    decided = plan(a_snapshot(controller, config_maps=maps))

    made = [one for one in made_by(decided) if isinstance(one, ConfigMap)]
    assert [one.metadata.name for one in made] == ["demo-config", "demo-config-1", "demo-config-2"]
    assert {file for one in made for file in one.data} >= {"slurm.conf", "one.lua", "two.lua", "corral-digest"}


def test_in_its_own_pod_slurmctld_is_reached_without_the_service() -> None:
    (made,) = (one for one in made_by(plan(a_snapshot(a_controller()))) if isinstance(one, StatefulSet))
    aliases = made.spec.template.spec.host_aliases

    assert [(one.ip, one.hostnames) for one in aliases] == [("127.0.0.1", ("demo-controller.lab",))]


def test_more_files_never_change_the_pod() -> None:
    before = settled(a_controller())
    maps = {"a": a_config_map("a", one_lua="x" * (CONFIG_MAP_BYTES_MAX - 100))}
    decided = plan(msgspec.structs.replace(changed(before, config_file_refs=(Ref(name="a"),)), config_maps=maps))

    assert "StatefulSet/demo-controller" not in steps(decided)


@pytest.mark.parametrize(
    ("version", "exists", "made"),
    [
        pytest.param("26.05", True, True, id="wanted and possible"),
        pytest.param("26.05", False, False, id="a cluster without the kind"),
        pytest.param("24.11", True, False, id="24.11 has nothing to scrape"),
    ],
)
def test_metrics_are_monitored_where_the_kind_exists(version: str, exists: bool, made: bool) -> None:
    controller = a_controller(version=version, metrics=Metrics(enabled=True))
    decided = plan(a_snapshot(controller, monitors_exist=exists))

    assert (steps(decided)[-1] == "ServiceMonitor/demo-controller") is made


def test_a_slurmctld_that_runs_elsewhere_gets_only_a_name_for_its_workers() -> None:
    controller = a_controller(external=External(host="old.example", port=6817))
    decided = plan(a_snapshot(controller))

    assert steps(decided) == ["Service/demo-workers"]
    assert decided.waits == ()


def test_a_bad_override_is_told_with_its_field() -> None:
    decided = plan(a_snapshot(a_controller(slurmctld={"image": 7})))

    assert reasons(decided) == ["BadOverride"]
    assert "spec.slurmctld" in decided.waits[0].message


def test_a_suspended_controller_is_left_alone() -> None:
    assert plan(a_snapshot(a_controller(suspend=True))) == Plan()


def test_names_near_the_limit_fit() -> None:
    decided = plan(a_snapshot(a_controller("c" * 60)))

    assert all(len(one.metadata.name) <= 63 for one in made_by(decided))


def refused(decided: Plan, message: str) -> Outcome:
    outside = next(action for action in decided.actions if isinstance(action, Outside))
    result = Result(action=outside, state="failed", reason="ConfigRefused", message=message)
    problem = Problem(reason="ConfigRefused", message=message, stalled=True)
    return Outcome(plan=decided, results=(result,), problem=problem)


def config_applied(snapshot: Snapshot, outcome: Outcome | None = None) -> tuple[str, str, str]:
    said = status(snapshot, outcome or Outcome(plan=plan(snapshot)))
    found = next(condition for condition in said.conditions if condition.type == "ConfigApplied")
    return found.status, found.reason, found.message


def test_config_applied_says_yes_no_or_unknown_with_both_digests() -> None:
    done = settled()
    assert done.running is not None
    digest = done.running.digest
    other = changed(done, extra_conf="MinJobAge=2")

    assert config_applied(done) == ("True", "Confirmed", f"desired {digest}, running {digest}")
    assert config_applied(msgspec.structs.replace(done, running=None))[:2] == ("Unknown", "StateUnknown")
    assert config_applied(other)[:2] == ("False", "Delivering")
    assert f"running {digest}" in config_applied(other)[2]


def test_what_slurmctld_refuses_is_told_in_its_own_words() -> None:
    snapshot = changed(settled(), extra_conf="JobSubmitPlugins=lua")
    outcome = refused(plan(snapshot), "fatal: failed to initialize job_submit plugin")

    state, reason, message = config_applied(snapshot, outcome)
    assert (state, reason) == ("False", "ConfigRefused")
    assert "failed to initialize job_submit plugin" in message
    assert {c.type: c.status for c in status(snapshot, outcome).conditions}["Stalled"] == "True"


@pytest.mark.parametrize(
    ("age_s", "nodesets", "waits"),
    [(0.0, 0, True), (1.5, 0, True), (2.0, 0, False), (-30.0, 0, False), (0.0, 1, False)],
)
def test_the_first_configuration_waits_a_moment_for_a_nodeset_that_is_applied_with_it(
    age_s: float, nodesets: int, waits: bool
) -> None:
    young = a_controller()
    born = msgspec.structs.replace(young.metadata, creation_timestamp=NOW - timedelta(seconds=age_s))
    seen = a_snapshot(msgspec.structs.replace(young, metadata=born), nodesets=(a_nodeset(),) * nodesets)

    decided = plan(seen)

    made = {one.resource.kind for one in made_by(decided)}
    assert made == ({"Service", "Secret"} if waits else {"Service", "Secret", "ConfigMap", "StatefulSet"})
    assert decided.again_after_s == (2.0 - age_s if waits else None)


def test_a_configuration_that_was_written_is_not_waited_with() -> None:
    seen = settled()
    born = msgspec.structs.replace(seen.object.metadata, creation_timestamp=NOW)
    young = msgspec.structs.replace(seen.object, metadata=born)
    assert plan(msgspec.structs.replace(seen, object=young)).actions == ()
