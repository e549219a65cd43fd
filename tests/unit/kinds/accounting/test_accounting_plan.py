"""The Accounting's decision: what is made in which order, what is waited for, what is left alone meanwhile."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from corral.engine import Apply, Create, summary, summary_lines
from corral.engine.plan import as_data
from corral.kinds.accounting.plan import Snapshot, complaint, is_ready, plan
from corral.kinds.accounting.render import database
from corral.kinds.accounting.spec import Accounting, AccountingSpec, Database, ManagedDatabase
from corral.kinds.controller.spec import Controller, ControllerSpec
from corral.kinds.identity import Identity, Ldap, User
from corral.kinds.parts import External, KeyRef, PodTemplate, Ref
from corral.kube.codec import encode
from corral.kube.meta import Object, ObjectMeta, ref
from corral.kube.models.apps_v1 import StatefulSet, StatefulSetStatus
from corral.kube.models.batch_v1 import Job, JobStatus
from corral.kube.models.core_v1 import (
    ConfigMap,
    ContainerState,
    ContainerStateRunning,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Secret,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORAGE = Database(host="db.example.org", password_key_ref=KeyRef(name="db", key="pw"))


def an_accounting(**spec: object) -> Accounting:
    metadata = ObjectMeta(name="slurm", namespace="lab", uid="u1", generation=1)
    return Accounting(metadata=metadata, spec=AccountingSpec(**spec))  # type: ignore[arg-type]


def a_controller(name: str = "slurm", **spec: object) -> Controller:
    spec = {"accounting_ref": Ref(name="slurm"), **spec}
    return Controller(metadata=ObjectMeta(name=name, namespace="lab"), spec=ControllerSpec(**spec))  # type: ignore[arg-type]


def a_secret(name: str, **data: bytes) -> Secret:
    return Secret(
        metadata=ObjectMeta(name=name, namespace="lab"), data={k.replace("_", "."): v for k, v in data.items()}
    )


KEYS = {
    "slurm-auth-slurm": a_secret("slurm-auth-slurm", slurm_key=b"s" * 1024, slurm_jwks=b"s" * 1024),
    "slurm-auth-jwt": a_secret("slurm-auth-jwt", jwt_key=b"j" * 32),
}


def seen(
    accounting: Accounting,
    *,
    controllers: tuple[Controller, ...] = (a_controller(),),
    secrets: Mapping[str, Secret] = KEYS,
    there: tuple[Object, ...] = (),
) -> Snapshot:
    return Snapshot(
        object=accounting,
        now=NOW,
        controllers=controllers,
        secrets=secrets,
        children=there,
        fresh_password=b"fresh-password",
    )


def made_by(snapshot: Snapshot) -> tuple[Object, ...]:
    """The world after the snapshot's plan, as far as the plan makes things."""
    actions = plan(snapshot).actions
    return (*snapshot.children, *(action.object for action in actions if isinstance(action, Create | Apply)))


def reasons(snapshot: Snapshot) -> list[str]:
    return [wait.reason for wait in plan(snapshot).waits]


def test_the_database_and_the_door_are_made_first() -> None:
    assert [line.split(":")[0] for line in summary_lines(plan(seen(an_accounting())))][:4] == [
        "create Secret lab/slurm-database",
        "create Service lab/slurm-database",
        "create StatefulSet lab/slurm-database",
        "create Service lab/slurm-accounting",
    ]


def test_slurmdbd_gets_the_password_that_the_server_has_and_not_the_one_thought_of() -> None:
    first = seen(an_accounting())
    assert reasons(first) == ["DatabaseNotReady", "PasswordMissing"]

    second = msgspec.structs.replace(first, children=made_by(first), fresh_password=b"another")
    conf = [o for o in made_by(second) if isinstance(o, Secret) and o.metadata.name == "slurm-accounting"]
    assert b"StoragePass=fresh-password\n" in conf[0].data["slurmdbd.conf"]
    assert "slurm-database" not in "".join(map(summary, plan(second).actions))  # it goes on with the password it has


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        (StatefulSetStatus(observed_generation=2, updated_replicas=1, ready_replicas=1), True),
        (StatefulSetStatus(observed_generation=2, updated_replicas=1, ready_replicas=0), False),
        (StatefulSetStatus(observed_generation=2, updated_replicas=0, ready_replicas=1), False),
        (StatefulSetStatus(observed_generation=1, updated_replicas=1, ready_replicas=1), False),
    ],
    ids=["up", "starting", "the old one", "not looked at"],
)
def test_a_pod_counts_when_it_is_the_present_one_and_ready(status: StatefulSetStatus, ready: bool) -> None:
    made = database(an_accounting(), b"secret")
    metadata = msgspec.structs.replace(made.metadata, generation=2)

    assert is_ready(msgspec.structs.replace(made, metadata=metadata, status=status)) is ready


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (seen(an_accounting(), controllers=()), "NoController"),
        (seen(an_accounting(), secrets={}), "SecretMissing"),
        (seen(an_accounting(), secrets={**KEYS, "slurm-auth-jwt": a_secret("slurm-auth-jwt")}), "SecretMissing"),
        (seen(an_accounting(), controllers=(a_controller(), a_controller("other"))), "KeysDiffer"),
        (seen(an_accounting(storage=STORAGE)), "SecretMissing"),
        (seen(an_accounting(storage=STORAGE), secrets={**KEYS, "db": a_secret("db", pw=b"\xff")}), "ConfigRefused"),
        (
            seen(
                an_accounting(storage=STORAGE, extra_conf="Nonsense"), secrets={**KEYS, "db": a_secret("db", pw=b"x")}
            ),
            "ConfigRefused",
        ),
        (
            seen(
                an_accounting(storage=STORAGE, slurmdbd={"image": 1}), secrets={**KEYS, "db": a_secret("db", pw=b"x")}
            ),
            "BadOverride",
        ),
    ],
    ids=[
        "no controller",
        "no secret",
        "no key",
        "different keys",
        "no password",
        "no text",
        "bad line",
        "bad override",
    ],
)
def test_slurmdbd_waits_with_a_reason(snapshot: Snapshot, reason: str) -> None:
    assert reason in reasons(snapshot)


def test_of_two_clusters_with_different_keys_the_younger_is_told_which_to_take() -> None:
    born = {"old": NOW - timedelta(days=9), "a-new-one": NOW}
    clusters = tuple(
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, creation_timestamp=born[name]))
        for name in ("a-new-one", "old")
        for one in (a_controller(name),)
    )
    (wait,) = [one for one in plan(seen(an_accounting(), controllers=clusters)).waits if one.reason == "KeysDiffer"]
    assert "set the same slurmKeyRef in all: {name: old-auth-slurm, key: slurm.jwks}" in wait.message


def test_what_runs_goes_on_while_something_is_missing() -> None:
    first = seen(an_accounting())
    second = msgspec.structs.replace(first, children=made_by(first))
    running = msgspec.structs.replace(second, children=made_by(second))
    assert not plan(running).actions

    assert not plan(msgspec.structs.replace(running, secrets={})).actions
    assert not plan(msgspec.structs.replace(running, controllers=())).actions


def test_own_keys_need_no_controller() -> None:
    refs = {"slurm_key_ref": KeyRef(name="k", key="slurm"), "jwt_key_ref": KeyRef(name="k", key="jwt")}
    secrets = {"k": a_secret("k", slurm=b"s", jwt=b"j"), "db": a_secret("db", pw=b"secret\n")}
    decided = plan(seen(an_accounting(storage=STORAGE, **refs), controllers=(), secrets=secrets))

    assert [line.split(":")[0] for line in summary_lines(decided)] == [
        "create Service lab/slurm-accounting",
        "create Secret lab/slurm-accounting",
        "create StatefulSet lab/slurm-accounting",
    ]


def test_slurmdbd_elsewhere_needs_nothing_here() -> None:
    running = made_by(seen(an_accounting()))
    elsewhere = an_accounting(external=External(host="dbd.example.org", port=6819))

    assert not plan(seen(elsewhere)).actions
    deleted = summary_lines(plan(seen(elsewhere, there=running)))
    assert all(line.startswith("delete ") for line in deleted)
    assert len(deleted) == len(running)


def test_no_secret_is_in_the_texts_of_a_plan() -> None:
    storage = {**KEYS, "db": a_secret("db", pw=b"hunter2-password")}
    decided = plan(seen(an_accounting(storage=STORAGE), secrets=storage))

    assert "hunter2" not in str(as_data(decided)) + "".join(summary_lines(decided))


def test_a_suspended_or_deleted_accounting_is_left_alone() -> None:
    going = msgspec.structs.replace(an_accounting().metadata, deletion_timestamp=NOW)

    assert plan(seen(an_accounting(suspend=True))).is_empty
    assert plan(seen(msgspec.structs.replace(an_accounting(), metadata=going))).is_empty


def with_version(snapshot: Snapshot, version: str) -> Snapshot:
    spec = msgspec.structs.replace(snapshot.object.spec, version=version)
    return msgspec.structs.replace(snapshot, object=msgspec.structs.replace(snapshot.object, spec=spec))


def running(snapshot: Snapshot) -> Snapshot:
    """The world when everything that the plans ask for is made."""
    for _ in range(3):
        made = {ref(obj): obj for obj in made_by(snapshot)}
        snapshot = msgspec.structs.replace(snapshot, children=tuple(made.values()))
    return snapshot


def image_of_slurmdbd(snapshot: Snapshot) -> str:
    sets = [c for c in snapshot.children if isinstance(c, StatefulSet) and c.metadata.name == "slurm-accounting"]
    return sets[-1].spec.template.spec.containers[0].image


def test_a_new_version_dumps_first_and_slurmdbd_goes_on_as_it_is() -> None:
    older = running(seen(an_accounting(version="24.11")))
    upgrading = with_version(older, "26.05")

    lines = [line.split(":")[0] for line in summary_lines(plan(upgrading))]
    assert lines[:2] == ["create PersistentVolumeClaim lab/slurm-dumps", "create Job lab/slurm-dump-24-11"]
    assert reasons(upgrading)[0] == "Dumping"
    assert image_of_slurmdbd(running(upgrading)) == "corral/slurm:24.11"


def test_a_complete_dump_lets_slurmdbd_go_and_its_file_stays() -> None:
    waiting = running(with_version(running(seen(an_accounting(version="24.11"))), "26.05"))
    done = tuple(
        msgspec.structs.replace(child, status=JobStatus(succeeded=1)) if isinstance(child, Job) else child
        for child in waiting.children
    )
    dumped = running(msgspec.structs.replace(waiting, children=done))

    assert image_of_slurmdbd(dumped) == "corral/slurm:26.05"
    assert [line.split(":")[0] for line in summary_lines(plan(dumped)) if line.startswith("delete")] == [
        "delete Job lab/slurm-dump-24-11"
    ]


def test_a_database_elsewhere_is_dumped_too_with_its_own_password_and_authority() -> None:
    storage = msgspec.structs.replace(STORAGE, ca_key_ref=KeyRef(name="db", key="ca"))
    secrets = {**KEYS, "db": a_secret("db", pw=b"hunter2", ca=b"PEM")}
    older = running(seen(an_accounting(version="24.11", storage=storage), secrets=secrets))
    (job,) = (c for c in running(with_version(older, "26.05")).children if isinstance(c, Job))

    container = job.spec.template.spec.containers[0]
    assert {e.name: e.value for e in container.env}["DUMP_HOST"] == "db.example.org"
    sources = job.spec.template.spec.volumes[0].projected
    assert sources is not None
    assert [item.path for one in sources.sources or () if one.secret for item in one.secret.items] == [
        "password",
        "database-ca.pem",
    ]
    assert "hunter2" not in str(encode(job))


LOG = (
    "[2026-11-16T03:51:04.504] error: Database settings not recommended values",
    "[2026-11-16T03:52:00.791] error: mysql_real_connect failed: 2026 TLS/SSL error: bad hunter2",
    "[2026-11-16T03:52:00.791] error: The database must be up when starting.  Trying again in 5 seconds.",
    "[2026-11-16T03:52:01.791] debug: nothing",
)


def a_pod(name: str, *, ready: bool = False, waiting: str = "") -> Pod:
    state = (
        ContainerState(waiting=ContainerStateWaiting(reason=waiting))
        if waiting
        else ContainerState(running=ContainerStateRunning())
    )
    status = ContainerStatus(
        name="slurmdbd", image="", image_id="", ready=ready, restart_count=0, state=state, last_state=ContainerState()
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="lab"),
        spec=PodSpec(containers=()),
        status=PodStatus(container_statuses=(status,)),
    )


def test_the_last_complaint_is_told_without_its_time_and_without_secrets() -> None:
    assert complaint(LOG, [b"hunter2\n", b""]) == "error: mysql_real_connect failed: 2026 TLS/SSL error: bad ***"
    assert complaint(LOG[3:], []) == ""


@pytest.mark.parametrize(
    ("pod", "words", "told"),
    [
        (a_pod("slurm-accounting-0"), "error: no route", ": error: no route"),
        (a_pod("slurm-accounting-0", waiting="ImagePullBackOff"), "", ": ImagePullBackOff"),
    ],
    ids=["it says why", "kubelet says why"],
)
def test_a_slurmdbd_that_is_not_ready_is_told_with_the_reason(pod: Pod, words: str, told: str) -> None:
    up = running(seen(an_accounting()))
    found = msgspec.structs.replace(up, pods={pod.metadata.name: pod}, last_words={pod.metadata.name: words})
    decided = plan(found)

    assert next(w.message for w in decided.waits if w.reason == "SlurmdbdNotReady").endswith(told)
    assert (decided.again_after_s is not None) == bool(words)


@pytest.mark.parametrize(
    ("managed", "field"),
    [
        (ManagedDatabase(mariadb={"image": 1}), "spec.managed.mariadb: "),
        (ManagedDatabase(template=PodTemplate(spec={"hostname": 1})), "spec.managed.template.spec: "),
    ],
    ids=["container", "pod"],
)
def test_a_bad_override_of_the_database_names_the_field_that_is_wrong(managed: ManagedDatabase, field: str) -> None:
    (wait,) = [wait for wait in plan(seen(an_accounting(managed=managed))).waits if wait.reason == "BadOverride"]

    assert wait.message.startswith(field)


def slurmdbd_pod(snapshot: Snapshot) -> PodSpec:
    """Of the StatefulSet that is made once the database's password is known."""
    second = msgspec.structs.replace(snapshot, children=made_by(snapshot))
    found = [o for o in made_by(second) if isinstance(o, StatefulSet) and o.metadata.name == "slurm-accounting"]
    return found[0].spec.template.spec


def slurmdbd_conf_of(snapshot: Snapshot) -> str:
    second = msgspec.structs.replace(snapshot, children=made_by(snapshot))
    found = [o for o in made_by(second) if isinstance(o, Secret) and o.metadata.name == "slurm-accounting"]
    return found[0].data["slurmdbd.conf"].decode()


def test_slurmdbd_knows_the_people_of_the_cluster_that_has_any() -> None:
    people = Identity(users=(User(name="alice", uid=2001),))
    nobodies, theirs = a_controller("a-first"), a_controller("slurm", identity=people)
    keys = {"slurm_key_ref": KeyRef(name="keys", key="a"), "jwt_key_ref": KeyRef(name="keys", key="b")}
    secrets = {"keys": a_secret("keys", a=b"s", b=b"j")}
    pod = slurmdbd_pod(seen(an_accounting(**keys), controllers=(nobodies, theirs), secrets=secrets))
    sources = {volume.name: volume.config_map.name for volume in pod.volumes if volume.config_map}
    assert sources == {"people": "slurm-identity"}
    assert any(mount.mount_path == "/var/lib/extrausers" for mount in pod.containers[0].volume_mounts)


def test_slurmdbd_asks_the_directory_beside_it() -> None:
    ldap = Ldap(uris=("ldaps://ldap.example.org",), base="dc=example,dc=org")
    pod = slurmdbd_pod(seen(an_accounting(), controllers=(a_controller(identity=Identity(ldap=ldap)),)))
    assert [container.name for container in pod.init_containers] == ["nslcd"]


def test_tokens_of_the_controllers_public_keys_count_for_slurmdbd_too() -> None:
    public = KeyRef(name="public", key="keys.json")
    snapshot = seen(an_accounting(), controllers=(a_controller(jwks_key_ref=public),))
    waiting = msgspec.structs.replace(snapshot, children=made_by(snapshot))
    assert "ReferenceMissing" in reasons(waiting)

    given = ConfigMap(metadata=ObjectMeta(name="public", namespace="lab"), data={"keys.json": "{}"})
    conf = slurmdbd_conf_of(msgspec.structs.replace(snapshot, config_maps={"public": given}))
    assert "AuthAltParameters=jwt_key=/etc/slurm/jwt.key,jwks=/etc/slurm/jwks.json\n" in conf


def test_other_public_keys_replace_the_pod_since_slurmdbd_reads_them_when_it_starts() -> None:
    controllers = (a_controller(jwks_key_ref=KeyRef(name="public", key="keys.json")),)

    def mark(text: str) -> str:
        given = ConfigMap(metadata=ObjectMeta(name="public", namespace="lab"), data={"keys.json": text})
        first = msgspec.structs.replace(seen(an_accounting(), controllers=controllers), config_maps={"public": given})
        second = msgspec.structs.replace(first, children=made_by(first))
        made = [o for o in made_by(second) if isinstance(o, StatefulSet) and o.metadata.name == "slurm-accounting"]
        return str(made[0].spec.template.metadata.annotations)

    assert mark("one") == mark("one") != mark("another")
