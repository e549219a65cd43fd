"""Which keys a cluster has, who has loaded them, and what comes next. Pure; shows no key.

A person raises a counter in `spec.keyRotation`. The slurm key goes from set to set (see `keyset`): each must have been
loaded by every daemon before the next is written, and the old key is retired when nothing that it signed can be in use
any more. All that is known of the way is in the Secret itself, so a crash at any point loses nothing.

There is but one JWT key of HS256: it is replaced, slurmctld and slurmdbd load it, tokens are signed anew. Between these
moments a token may be refused; whoever has one asks again.

    slurmctld, slurmd, sackd    load the mounted file when slurmctld reconfigures
    slurmdbd                    when it starts: its pod is replaced when the Secret changes

Secrets that a person refers to are theirs: nothing is written there, and what they write is loaded in the same way.

A Secret of ours that somebody deletes is made again with the very key, which slurmctld's pod still has, and every
worker: with another one the daemons would not understand each other. So does a Controller that is created again while
workers of the one before it run, and with them jobs. If it cannot be had, no other is made.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import timedelta

from corral.engine import NOTHING, Action, EmitEvent, Once, Patch, Plan, Wait, is_controlled_by, target
from corral.kinds import keys, names
from corral.kinds.controller import keyset, objects
from corral.kinds.controller.keyset import KeySet, Stage
from corral.kinds.controller.snapshot import Holder, KeyFact, Snapshot, is_ready, some
from corral.kinds.parts import GROUP, KeyRef
from corral.kube.meta import Object, ObjectRef
from corral.kube.models.core_v1 import Pod, Secret
from corral.kube.values import parse_duration

ROTATION = f"{GROUP}/rotation"  # on the Secret of the JWT key: the rotation that brought it
DELIVERED = f"{GROUP}/keys-delivered"  # on pods: changing it makes kubelet look at the mounted Secrets at once
LOOK_AGAIN_S = 1.0
MISSED_AFTER = timedelta(seconds=20)  # a daemon that has not loaded by then has missed the reconfigure
PATCHED_MAX = 250  # pods in one pass

TRIED_MAX = 5  # workers that are asked for a key

SLURMD, SLURMDBD = "slurmd", "slurmdbd"
HOLDERS = (SLURMD, "sackd")  # containers that hold the slurm key; slurmctld and slurmdbd are known by name


def secrets(snapshot: Snapshot) -> tuple[Object | Once, ...]:
    """The Secrets of generated keys as they should be now. What need not change is never written."""
    controller, missing = snapshot.object, {at.name for at in beyond_recall(snapshot)}
    found: list[Object | Once] = []
    if controller.spec.slurm_key_ref is None:
        at, present = keys.slurm_key_of(controller), slurm_keys(snapshot)
        after = next_slurm_keys(snapshot)
        secret = objects.key_secret(at.name, at.key, keyset.encoded(after), controller)
        found.append(Once(secret) if after == present or present is None else secret)
    if controller.spec.jwt_key_ref is None:
        at, wanted = keys.jwt_key_of(controller), controller.spec.key_rotation.jwt
        mark = {ROTATION: str(wanted)} if wanted else {}
        value = snapshot.kept_keys.files.get(at.key) or snapshot.fresh_keys.jwt
        secret = objects.key_secret(at.name, at.key, value, controller, annotations=mark)
        found.append(secret if _is_behind(snapshot) else Once(secret))
    return tuple(one for one in found if _name_of(one) not in missing)


def lost(snapshot: Snapshot) -> tuple[KeyRef, ...]:
    """Generated keys whose Secret is gone although a slurmctld runs, or has run, with them; or workers do."""
    controller, spec = snapshot.object, snapshot.object.spec
    has_run = snapshot.pod is not None or bool(controller.status.slurm_version)
    has_daemons = has_run or bool(_workers(snapshot))
    generated = (
        *((keys.slurm_key_of(controller),) if spec.slurm_key_ref is None and has_daemons else ()),
        *((keys.jwt_key_of(controller),) if spec.jwt_key_ref is None and has_run else ()),
    )
    return tuple(at for at in generated if _secret(snapshot, at) is None)


def with_keys(snapshot: Snapshot) -> tuple[tuple[str, str], ...]:
    """Pods, with a container, in which keys may still be mounted: slurmctld's, and some workers."""
    own = ((snapshot.pod.metadata.name, objects.COMPONENT),) if snapshot.pod is not None else ()
    workers = sorted(_workers(snapshot), key=lambda one: not is_ready(one.pod))
    return (*own, *((one.pod.metadata.name, one.daemon) for one in workers[:TRIED_MAX]))


def _workers(snapshot: Snapshot) -> list[Holder]:
    return [holder for holder in snapshot.holders if holder.daemon == SLURMD]


def beyond_recall(snapshot: Snapshot) -> tuple[KeyRef, ...]:
    """Of the lost ones, those that no pod could give back."""
    kept = snapshot.kept_keys.files
    is_there = {
        names.SLURM_JWKS: keyset.parsed(kept.get(names.SLURM_JWKS, b"")) is not None,
        names.JWT_KEY: bool(kept.get(names.JWT_KEY)),
    }
    return tuple(at for at in lost(snapshot) if not is_there[at.key])


def losses(snapshot: Snapshot) -> Plan:
    """What is told of keys whose Secret is gone, and what is waited for."""
    namespace, gone = snapshot.object.metadata.namespace, beyond_recall(snapshot)
    told = tuple(
        EmitEvent(
            regarding=target(snapshot.object),
            type="Warning",
            reason="KeyRestored",
            message=f"Secret {namespace}/{at.name} was missing; it is created again with the key of the pods that run",
            action="Restore",
        )
        for at in lost(snapshot)
        if at not in gone
    )
    waits = tuple(
        Wait(
            reason="KeyLost",
            message=f"Secret {namespace}/{at.name} is missing and the key cannot be read from the pods that run with "
            "it: restore the Secret from a backup, name their key in spec.slurmKeyRef, or end those pods with their "
            "jobs (kubectl delete pod --grace-period=30); with a new key the daemons would not understand each other",
            on=ObjectRef("Secret", namespace, at.name),
            stalled=True,
        )
        for at in gone
    )
    return Plan(actions=told, waits=waits)


def _name_of(wanted: Object | Once) -> str:
    return (wanted.object if isinstance(wanted, Once) else wanted).metadata.name


def next_slurm_keys(snapshot: Snapshot) -> KeySet:
    """The present set, or the next one when every daemon is ready for it."""
    wanted, fresh = snapshot.object.spec.key_rotation.slurm, snapshot.fresh_keys.slurm
    present = slurm_keys(snapshot)
    if present is None:
        kept = keyset.parsed(snapshot.kept_keys.files.get(names.SLURM_JWKS, b""))
        return kept or keyset.first(wanted, fresh)
    if refusal(snapshot) or _slurm_waits_for(snapshot, present):
        return present
    return keyset.following(present, wanted, fresh)


def plan(snapshot: Snapshot) -> Plan:
    """Bring the mounted files up to date, and say what a rotation waits for."""
    if not is_under_way(snapshot):
        return NOTHING
    if why := refusal(snapshot):
        return Plan(waits=(Wait(reason="RotationRefused", message=why, stalled=True),))
    waits = tuple(_waits(snapshot))
    again_s = LOOK_AGAIN_S if waits or due(snapshot) else None  # daemons tell nobody when they have read their files
    told = tuple(_steps_taken(snapshot))
    return Plan(actions=(*told, *tuple(_renewals(snapshot))[:PATCHED_MAX]), waits=waits, again_after_s=again_s)


def _steps_taken(snapshot: Snapshot) -> Iterable[EmitEvent]:
    """Each step once: the Secret, or the status, has it from then on."""
    present, done = slurm_keys(snapshot), snapshot.object.status.keys
    if present is not None:
        after = next_slurm_keys(snapshot)
        if after != present:
            told = _TOLD[after.stage] if after.stage is not Stage.SETTLED else "the old key is removed"
            yield _told(snapshot, f"rotation {after.newest} of the slurm key: {told}")
        elif present.newest > done.slurm and has_settled(snapshot, present):
            yield _told(snapshot, f"rotation {present.newest} of the slurm key is complete: every daemon has it")
    if _is_behind(snapshot):
        number = snapshot.object.spec.key_rotation.jwt
        yield _told(snapshot, f"rotation {number} of the JWT key: it is replaced, and Tokens are signed again")


def _told(snapshot: Snapshot, message: str) -> EmitEvent:
    return EmitEvent(regarding=target(snapshot.object), reason="KeyRotated", message=message, action="Rotate")


def is_under_way(snapshot: Snapshot) -> bool:
    """Whether daemons besides slurmctld have to be asked about their keys."""
    controller, present = snapshot.object, slurm_keys(snapshot)
    asked, done = controller.spec.key_rotation, controller.status.keys
    if present is not None and (present.stage is not Stage.SETTLED or asked.slurm > done.slurm):
        return True
    return asked.jwt > done.jwt or slurm_file(snapshot) in due(snapshot)


def refusal(snapshot: Snapshot) -> str:
    """Why the keys cannot be rotated, if so."""
    accounting = snapshot.accounting
    if accounting is None or accounting.spec.external is None:
        return ""
    return (
        f"the keys cannot be rotated: Accounting {accounting.metadata.name} runs elsewhere and cannot get new keys "
        "from Corral; the old keys stay in use. To change keys yourself, create the Controller with "
        "spec.slurmKeyRef and spec.jwtKeyRef"
    )


def slurm_file(snapshot: Snapshot) -> str:
    return keys.slurm_key_file(keys.slurm_key_of(snapshot.object))


def wanted_files(snapshot: Snapshot) -> Mapping[str, str]:
    """The digests of the key files that slurmctld should have loaded, by name; of keys that exist."""
    controller = snapshot.object
    slurm, jwt = keys.slurm_key_of(controller), keys.jwt_key_of(controller)
    values = {slurm_file(snapshot): _value(snapshot, slurm), names.JWT_KEY: _value(snapshot, jwt)}
    values.pop(names.SLURM_KEY, None)  # a single key is loaded by a restart, of everybody
    if public := controller.spec.jwks_key_ref:
        given = snapshot.config_maps.get(public.name)
        values[names.JWKS] = given.data.get(public.key, "").encode() if given else b""
    return {file: file_digest(value) for file, value in values.items() if value}


def file_digest(content: bytes) -> str:
    """As sha256sum prints it, cut. Compared in memory; it is written nowhere."""
    return hashlib.sha256(content).hexdigest()[:16]


def due(snapshot: Snapshot) -> Mapping[str, str]:
    """Key files that the running slurmctld has not loaded; nothing while it does not say what it has."""
    running = snapshot.running
    if running is None or not running.keys:
        return {}
    return {file: wanted for file, wanted in wanted_files(snapshot).items() if running.keys.get(file) != wanted}


def has_loaded(said: KeyFact, wanted: Mapping[str, str]) -> bool:
    """Whether a daemon has loaded all that it has got, and that is what it should have."""
    known = {file: digest for file, digest in said.files.items() if file in wanted}
    return said.loaded and bool(known) and all(wanted[file] == digest for file, digest in known.items())


def not_mounted(snapshot: Snapshot) -> tuple[Holder, ...]:
    """Daemons in whose pods the slurm key has not arrived, or that do not say."""
    file, wanted = slurm_file(snapshot), wanted_files(snapshot).get(slurm_file(snapshot))
    reloading = (holder for holder in snapshot.holders if holder.daemon != SLURMDBD)
    return tuple(one for one in reloading if one.said is None or one.said.files.get(file) != wanted)


def have_missed_it(snapshot: Snapshot) -> bool:
    """Everybody has the file and slurmctld has loaded it, but somebody has not: tell them once more."""
    running = snapshot.running
    if running is None or running.keys_since is None or due(snapshot) or not_mounted(snapshot):
        return False
    late = any(one.said is not None and not one.said.loaded for one in snapshot.holders if one.daemon != SLURMDBD)
    return late and snapshot.now - running.keys_since >= MISSED_AFTER


def slurm_keys(snapshot: Snapshot) -> KeySet | None:
    """The generated set, as it is in its Secret."""
    if snapshot.object.spec.slurm_key_ref is not None:
        return None
    at = keys.slurm_key_of(snapshot.object)
    return keyset.parsed(_value(snapshot, at)) if _secret(snapshot, at) else None


def has_settled(snapshot: Snapshot, present: KeySet) -> bool:
    """Whether the key that was asked for is the only one, and no daemon has another any more."""
    done = snapshot.object.status.keys.slurm
    if present.stage is not Stage.SETTLED or snapshot.object.spec.key_rotation.slurm > present.newest:
        return False
    return present.newest == done or not _slurm_waits_for(snapshot, present)


def jwt_rotation(snapshot: Snapshot) -> int:
    """Which rotation brought the JWT key that is in the Secret."""
    secret = _secret(snapshot, keys.jwt_key_of(snapshot.object))
    number = secret.metadata.annotations.get(ROTATION, "0") if secret else "0"
    return int(number) if number.isdecimal() else 0


def jwt_waits_for(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(_without(snapshot, names.JWT_KEY, [h for h in snapshot.holders if h.daemon == SLURMDBD]))


def _is_behind(snapshot: Snapshot) -> bool:
    present = _secret(snapshot, keys.jwt_key_of(snapshot.object))
    is_old = present is not None and jwt_rotation(snapshot) < snapshot.object.spec.key_rotation.jwt
    return is_old and not refusal(snapshot)


def _slurm_waits_for(snapshot: Snapshot, present: KeySet) -> tuple[str, ...]:
    """Who must load the present set before the next one may be written. A rotation begins in a cluster that is well."""
    missing = tuple(_without(snapshot, slurm_file(snapshot), snapshot.holders))
    if missing or present.stage is not Stage.SIGNING:
        return missing
    running = snapshot.running
    times = [running.keys_since if running else None, *(one.said.since for one in snapshot.holders if one.said)]
    last = max((time for time in times if time is not None), default=snapshot.now)
    until = last + parse_duration(snapshot.object.spec.key_rotation.overlap)
    return (f"signatures of the old key to expire at {until:%H:%M:%S}",) if snapshot.now < until else ()


def _without(snapshot: Snapshot, file: str, holders: Iterable[Holder]) -> Iterable[str]:
    """Who has not loaded the file as it is in its Secret; slurmctld first."""
    wanted, running, pod = wanted_files(snapshot).get(file), snapshot.running, snapshot.pod
    if running is None or pod is None:
        yield "slurmctld (unknown)"
    elif running.keys.get(file) != wanted:
        yield "slurmctld"
    for holder in holders:
        said = holder.said
        if said is None:
            yield f"{holder.name} (unknown)"
        elif said.files.get(file) != wanted or not said.loaded:
            yield holder.name
    accounting = snapshot.accounting
    if accounting is not None and accounting.spec.external is None:
        dbd = [holder.pod for holder in snapshot.holders if holder.daemon == SLURMDBD]
        if not dbd or not is_ready(dbd[0]):
            yield f"slurmdbd of Accounting {accounting.metadata.name} (not ready)"


def _waits(snapshot: Snapshot) -> Iterable[Wait]:
    asked, present = snapshot.object.spec.key_rotation, slurm_keys(snapshot)
    if present is not None and not has_settled(snapshot, present):
        missing = _slurm_waits_for(snapshot, present)
        is_new = asked.slurm <= present.newest
        told = "the new key is the only one" if is_new and len(present.keys) == 1 else _TOLD[present.stage]
        waiting = f"waiting for {some(missing)}" if missing else "every daemon is ready for the next step"
        message = f"rotation {max(asked.slurm, present.newest)} of the slurm key: {told}; {waiting}"
        yield Wait(reason="KeyRotation", message=message)
    if asked.jwt > snapshot.object.status.keys.jwt:
        missing = jwt_waits_for(snapshot)
        if missing or jwt_rotation(snapshot) < asked.jwt:
            waiting = some(missing) or "the new key"
            yield Wait(reason="KeyRotation", message=f"rotation {asked.jwt} of the JWT key: waiting for {waiting}")


_TOLD: Mapping[Stage, str] = {
    Stage.SETTLED: "about to begin",
    Stage.INTRODUCED: "the new key is known, the old one still signs",
    Stage.SIGNING: "the new key signs, the old one is still valid",
}


def _renewals(snapshot: Snapshot) -> Iterable[Action]:
    """kubelet renews a pod's mounted files when the pod changes; by itself it may take a minute and more."""
    slurm = _secret(snapshot, keys.slurm_key_of(snapshot.object))
    if slurm is None or next_slurm_keys(snapshot) != slurm_keys(snapshot):
        return  # the Secret is about to change: then is the time
    mark = slurm.metadata.resource_version
    for holder in not_mounted(snapshot):
        if holder.pod.metadata.deletion_timestamp is None:  # others get no new files
            yield from renewed(holder.pod, mark)


def renewed(pod: Pod, mark: str) -> Iterable[Action]:
    if pod.metadata.annotations.get(DELIVERED) == mark:
        return
    yield Patch(
        target=target(pod),
        merge={"metadata": {"annotations": {DELIVERED: mark}}},
        reason="KeysChanged",
        message="so that kubelet updates the mounted keys at once",
    )


def mark_of_all(snapshot: Snapshot) -> str:
    """Differs whenever one of the Secrets that slurmctld mounts does."""
    places = (keys.slurm_key_of(snapshot.object), keys.jwt_key_of(snapshot.object))
    found = (_secret(snapshot, place) for place in places)
    return "-".join(one.metadata.resource_version if one else "0" for one in found)


def _secret(snapshot: Snapshot, at: KeyRef) -> Secret | None:
    given = snapshot.secrets.get(at.name)
    if given is not None:
        return given
    for child in snapshot.children:
        if isinstance(child, Secret) and child.metadata.name == at.name and is_controlled_by(child, snapshot.object):
            return child
    return None


def _value(snapshot: Snapshot, at: KeyRef) -> bytes:
    secret = _secret(snapshot, at)
    return secret.data.get(at.key, b"") if secret else b""
