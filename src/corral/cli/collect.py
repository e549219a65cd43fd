"""What goes into a report, by file name. Reads only; what cannot be had is a sentence in its file, not an end.

objects/KIND/NAME.yaml     what people wrote, what Corral made of it, and what both stand on
secrets.txt                names of Secrets, of their keys, and how long the values are
events.txt                 the namespace's events, oldest first
explain/KIND-NAME.txt      as `corral explain` tells it, the plan included
logs/POD/CONTAINER.log     and CONTAINER.previous.log after a restart; also the operator's
slurm/CLUSTER/COMMAND.txt  what slurmctld and slurmdbd say
"""

from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any

import msgspec

from corral.cli.explain import lines, story
from corral.cli.options import Kinds
from corral.cli.output import as_yaml
from corral.engine.questions import explain, seen_event, shown
from corral.engine.store import key_of
from corral.install.rbac import NAMESPACE as OPERATOR_NAMESPACE
from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kube.client import Client, Selector
from corral.kube.errors import KubeError, NotFound
from corral.kube.logs import LogOptions
from corral.kube.meta import Object, ref
from corral.kube.models.apps_v1 import Deployment, ReplicaSet, StatefulSet
from corral.kube.models.coordination_v1 import Lease
from corral.kube.models.core_v1 import (
    ConfigMap,
    Node,
    PersistentVolumeClaim,
    Pod,
    Secret,
    Service,
)
from corral.kube.models.events_v1 import Event
from corral.kube.models.storage_v1 import StorageClass
from corral.kube.unstructured import untyped

Files = dict[str, str]

IN_NAMESPACE: tuple[type[Object], ...] = (
    ConfigMap, Deployment, Lease, PersistentVolumeClaim, Pod, ReplicaSet, Service, StatefulSet,
)  # fmt: skip
IN_CLUSTER: tuple[type[Object], ...] = (Node, StorageClass)
SLURM_COMMANDS = (
    ("scontrol", "show", "config"),
    ("scontrol", "show", "nodes"),
    ("scontrol", "show", "partitions"),
    ("scontrol", "show", "jobs"),
    ("scontrol", "show", "reservations"),
    ("scontrol", "ping"),
    ("sinfo", "--all", "--long", "--Node"),
    ("squeue", "--all", "--long"),
    ("sdiag",),
    ("sacctmgr", "--noheader", "--parsable", "show", "stats"),
    ("sacct", "--allusers", "--starttime=now-1day", "--format=jobid,user,partition,state,exitcode,start,end,nodelist"),
)
PODS_WITH_LOGS_MAX = 60
COMMAND_S_MAX = 30.0


async def secret_values(client: Client, namespace: str) -> tuple[bytes, ...]:
    """Every value of every Secret where anything of the report comes from."""
    found: list[bytes] = []
    for where in dict.fromkeys((namespace, OPERATOR_NAMESPACE)):
        page = await client.list(Secret, Selector(namespace=where))
        found += [value for secret in page.items for value in secret.data.values()]
    return tuple(found)


async def collected(
    client: Client, kinds: Kinds, namespace: str, *, log_lines: int, now: datetime, tell: Callable[[str], None]
) -> Files:
    tell("objects and events ...")
    files = await _objects(client, kinds, namespace)
    files["secrets.txt"] = await _secrets(client, namespace)
    files["events.txt"] = await _events(client, namespace)
    tell("explanations ...")
    files |= await _explanations(client, kinds, namespace, now)
    for where in dict.fromkeys((namespace, OPERATOR_NAMESPACE)):
        tell(f"logs of {where} ...")
        files |= await _logs(client, where, log_lines)
    tell("what Slurm says ...")
    return files | await _slurm(client, namespace)


async def _objects(client: Client, kinds: Kinds, namespace: str) -> Files:
    files: Files = {}
    here = [entry.kind for entry in kinds if entry.kind.resource.namespaced]
    for kind in (*here, *IN_NAMESPACE, *IN_CLUSTER):
        where = Selector(namespace=namespace if kind.resource.namespaced else "")
        try:
            page = await client.list(untyped(kind.resource), where)
        except KubeError as error:
            files[f"objects/{kind.resource.kind}.txt"] = f"{error}\n"
            continue
        for obj in page.items:
            files[f"objects/{kind.resource.kind}/{obj.metadata.name}.yaml"] = as_yaml([_whole(obj)])
    return files


def _whole(obj: Object) -> dict[str, Any]:
    """Everything but the bookkeeping of field managers; unlike a diff's view it has times and versions."""
    content = shown(obj) or {}
    meta = msgspec.to_builtins(obj.metadata)
    kept = {name: meta[name] for name in ("uid", "resourceVersion", "generation", "creationTimestamp") if name in meta}
    return {**content, "metadata": {**content.get("metadata", {}), **kept}}


async def _secrets(client: Client, namespace: str) -> str:
    page = await client.list(Secret, Selector(namespace=namespace))
    told = [
        f"{secret.metadata.name}  {secret.type}  "
        + ", ".join(f"{key}: {len(value)} bytes" for key, value in sorted(secret.data.items()))
        for secret in page.items
    ]
    return "".join(f"{line}\n" for line in told)


async def _events(client: Client, namespace: str) -> str:
    events = (await client.list(Event, Selector(namespace=namespace))).items
    told = sorted(((seen_event(event), event.regarding) for event in events), key=lambda one: str(one[0].last_seen))
    return "".join(
        f"{seen.last_seen}  {seen.type}  {about.kind} {about.name}  {seen.reason}: {seen.note} ({seen.count} times)\n"
        for seen, about in told
    )


async def _explanations(client: Client, kinds: Kinds, namespace: str, now: datetime) -> Files:
    files: Files = {}
    for entry in kinds:
        try:
            found = (await client.list(entry.kind, Selector(namespace=namespace))).items
        except NotFound:
            continue  # its definition is not there
        for obj in found:
            name = f"explain/{entry.kind.resource.kind}-{obj.metadata.name}.txt"
            try:
                told = lines(await story(client, await explain(client, entry.build(), key_of(obj)), now))
                files[name] = "\n".join(told) + "\n"
            except KubeError as error:
                files[name] = f"{ref(obj)}: {error}\n"
    return files


async def _logs(client: Client, namespace: str, log_lines: int) -> Files:
    try:
        pods = (await client.list(Pod, Selector(namespace=namespace))).items
    except KubeError as error:
        return {f"logs/{namespace}.txt": f"{error}\n"}
    chosen = sorted(pods, key=_is_well)[:PODS_WITH_LOGS_MAX]
    files: Files = {}
    for pod in chosen:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            for previous in (False, True) if status.restart_count else (False,):
                options = LogOptions(container=status.name, previous=previous, tail_lines=log_lines, timestamps=True)
                file = f"logs/{pod.metadata.name}/{status.name}{'.previous' if previous else ''}.log"
                files[file] = await _log(client, pod, options)
    if len(pods) > len(chosen):
        files[f"logs/{namespace}-left-out.txt"] = f"{len(pods) - len(chosen)} pods that are ready\n"
    return files


def _is_well(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)


async def _log(client: Client, pod: Pod, options: LogOptions) -> str:
    told: list[str] = []
    try:
        async with aclosing(client.logs(pod.metadata.name, pod.metadata.namespace, options, silence_s_max=60.0)) as log:
            told += [line async for line in log]
    except KubeError as error:
        told.append(str(error))
    return "".join(f"{line}\n" for line in told)


async def _slurm(client: Client, namespace: str) -> Files:
    files: Files = {}
    try:
        controllers = (await client.list(Controller, Selector(namespace=namespace))).items
    except NotFound:
        return files
    for controller in controllers:
        name = controller.metadata.name
        for command in SLURM_COMMANDS:
            words = [word for word in command if not word.startswith("-")]
            said = await _said(client, f"{names.controller_name(name)}-0", namespace, command)
            files[f"slurm/{name}/{'-'.join(words)}.txt"] = said
    return files


async def _said(client: Client, pod: str, namespace: str, command: tuple[str, ...]) -> str:
    try:
        done = await client.exec(pod, namespace, command, container="slurmctld", run_s_max=COMMAND_S_MAX)
    except KubeError as error:
        return f"$ {' '.join(command)}\n{error}\n"
    said = (done.stdout + done.stderr).decode(errors="replace")
    return f"$ {' '.join(command)}\n{said}" + (f"(exit code {done.exit_code})\n" if done.exit_code else "")
