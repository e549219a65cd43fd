"""The verbs that write: create, update, patch, apply and delete, on plain JSON objects, synchronously.

Every write of an existing object goes through `_update`: preconditions, what a writer may not touch, validation,
generation, ownership, and the rule that a write which changes nothing keeps the version. Nothing here knows HTTP,
faults, or waits. Time and randomness come from outside.
"""

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import msgspec

from corral.kube.errors import Cause
from corral.testing.apiserver import answers
from corral.testing.apiserver.admission import (
    SYSTEM_METADATA,
    Preconditions,
    Propagation,
    admitted,
    blocked,
    check,
    check_apply,
    check_identity,
    check_preconditions,
    check_size,
    check_uid,
    check_version,
    finalizers_for,
    is_due,
    meaning,
    only_status,
    own_part,
    stated,
)
from corral.testing.apiserver.answers import Json
from corral.testing.apiserver.kinds import Kinds, Served, from_definition
from corral.testing.apiserver.ownership import Writer, applied, written
from corral.testing.apiserver.patches import json_patch, merge_patch
from corral.testing.apiserver.storage import Key, Storage

GENERATED: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
IDENTITY: Final = ("name", "namespace", "uid", "creationTimestamp", "generation")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    manager: str = "unknown"
    subresource: str = ""
    force: bool = False
    dry_run: bool = False


PLAIN: Final = Options()
ANY: Final = Preconditions()


class Objects:
    def __init__(self, kinds: Kinds, storage: Storage, random: Random, now: Callable[[], datetime]) -> None:
        self.kinds = kinds
        self.storage = storage
        self._random = random
        self._now = now

    def get(self, served: Served, namespace: str, name: str) -> Json:
        found = self.storage.get(key(served, namespace, name))
        if found is None:
            raise answers.not_found(served.resource, name)
        return found

    def exists(self, served: Served, namespace: str, name: str) -> bool:
        return self.storage.get(key(served, namespace, name)) is not None

    def create(self, served: Served, namespace: str, body: Json, options: Options = PLAIN) -> Json:
        value = self._new(served, namespace, body)
        if served.status and not served.custom:
            value = {**value, "status": {}}
        elif served.status:
            value = {field: each for field, each in value.items() if field != "status"}
        value = served.prepare(value)
        check(served, value, None)
        writer = self._writer(served, "Update", options)
        owned = written(None, own_part(served, value), writer, self.timestamp(), served.topology)
        return self._put_new(served, {**value, "metadata": owned["metadata"]}, options)

    def update(self, served: Served, namespace: str, name: str, body: Json, options: Options = PLAIN) -> Json:
        """PUT. The client has no such verb; stand-ins for other people's controllers do."""
        old = self.get(served, namespace, name)
        check_identity(served, body, namespace, name)
        return self._update(served, old, body, self._writer(served, "Update", options), options)

    def merge(self, served: Served, namespace: str, name: str, patch: Json, options: Options = PLAIN) -> Json:
        old = self.get(served, namespace, name)
        return self._patched(served, old, merge_patch(old, patch), options)

    def json_patch(self, served: Served, namespace: str, name: str, operations: Any, options: Options = PLAIN) -> Json:
        old = self.get(served, namespace, name)
        return self._patched(served, old, json_patch(old, operations), options)

    def apply(self, served: Served, namespace: str, name: str, config: Json, options: Options) -> Json:
        check_apply(config, options.manager)
        check_identity(served, config, namespace, name)
        old = self.storage.get(key(served, namespace, name))
        writer = self._writer(served, "Apply", options)
        config = only_status(config) if options.subresource == "status" else own_part(served, config)
        if old is None:
            return self._create_by_apply(served, namespace, name, config, writer, options)
        check_version(served, old, stated(config).version)
        new = applied(old, config, writer, self.timestamp(), served.topology, force=options.force)
        return self._update(served, old, new, None, options)

    def delete(
        self,
        served: Served,
        namespace: str,
        name: str,
        *,
        propagation: Propagation = "",
        grace_s: int | None = None,
        preconditions: Preconditions = ANY,
        dry_run: bool = False,
    ) -> Json:
        """The object as it was marked or removed, or a Status for kinds whose DELETE answers so."""
        old = self.get(served, namespace, name)
        check_preconditions(served, old, preconditions)
        finalizers = finalizers_for(old, propagation)
        grace = served.grace(old, grace_s)
        if not finalizers and not blocked(old) and grace == 0:
            last = old if dry_run else self._removed(served, old)
            return last if served.returns_deleted else answers.success(served.resource, name, old["metadata"]["uid"])
        marked = self._marked(served, old, finalizers, grace)
        return marked if marked == old or dry_run else self.storage.put(key_of(served, old), marked)

    def _removed(self, served: Served, old: Json) -> Json:
        if served.marked_first and "deletionTimestamp" not in old["metadata"]:
            self.storage.put(key_of(served, old), self._marked(served, old, [], 0))
        return self.storage.remove(key_of(served, old))

    def store(self, served: Served, old: Json, new: Json) -> Json:
        """The last step of every write of an existing object: nothing, a new version, or the end of it."""
        if new == old:
            return old
        if is_due(new):
            self.storage.remove(key_of(served, old))
            return new  # with the version before the deletion: the server does not tell which one that got
        return self.storage.put(key_of(served, old), new)

    def timestamp(self, later_s: int = 0) -> str:
        return (self._now() + timedelta(seconds=later_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _new(self, served: Served, namespace: str, body: Json) -> Json:
        metadata = dict(body.get("metadata") or {})
        check_identity(served, body, namespace, "")
        if metadata.get("resourceVersion"):
            raise answers.Rejection(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generated_name(served, namespace, metadata["generateName"])
        self._check_namespace(served, namespace, metadata.get("name", ""))
        for field in (*SYSTEM_METADATA, "managedFields"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = self.timestamp()
        if served.generation:
            metadata["generation"] = 1
        if served.resource.namespaced:
            metadata["namespace"] = namespace
        return {**body, "apiVersion": served.resource.api_version, "kind": served.resource.kind, "metadata": metadata}

    def _generated_name(self, served: Served, namespace: str, prefix: str) -> str:
        for _ in range(8):  # as often as the server tries
            name = prefix[:58] + "".join(self._random.choices(GENERATED, k=5))
            if self.storage.get(key(served, namespace, name)) is None:
                return name
        raise answers.already_exists(served.resource, prefix)

    def _check_namespace(self, served: Served, namespace: str, name: str) -> None:
        if not served.resource.namespaced:
            return
        found = self.storage.get(Key("namespaces", "", namespace))
        if found is None:
            spaces = self.kinds.find("", "v1", "namespaces")
            assert spaces is not None
            raise answers.not_found(spaces.resource, namespace)
        if "deletionTimestamp" in found["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating")
            raise answers.forbidden(served.resource, name, why, [cause])

    def _put_new(self, served: Served, value: Json, options: Options) -> Json:
        check_size(value)
        where = key_of(served, value)
        if self.storage.get(where) is not None:
            raise answers.already_exists(served.resource, where.name)
        if options.dry_run:
            return value
        if served.resource.kind == "CustomResourceDefinition":
            value = self._established(value)
        return self.storage.put(where, value)

    def _established(self, definition: Json) -> Json:
        for each in from_definition(definition):
            self.kinds.add(each)
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": self.timestamp(),
            }
            for kind, reason, message in (
                ("NamesAccepted", "NoConflicts", "no conflicts found"),
                ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        ]
        return {**definition, "status": {"conditions": conditions, "acceptedNames": definition["spec"]["names"]}}

    def _create_by_apply(
        self, served: Served, namespace: str, name: str, config: Json, writer: Writer, options: Options
    ) -> Json:
        if options.subresource:
            raise answers.not_found(served.resource, name)
        asked = stated(config)
        if asked.uid:
            why = f"uid mismatch: the provided object specified uid {asked.uid}, and no existing object was found"
            raise answers.conflict(served.resource, name, why)
        config = {**config, "metadata": {**(config.get("metadata") or {}), "name": name}}
        config["metadata"].pop("resourceVersion", None)  # an apply that creates does not mind which version it expected
        value = self._new(served, namespace, config)
        identity = {field: value["metadata"][field] for field in IDENTITY if field in value["metadata"]}
        shell = {"apiVersion": value["apiVersion"], "kind": value["kind"], "metadata": identity}
        owned = applied(shell, config, writer, self.timestamp(), served.topology, force=True)
        value = served.prepare({**owned, **({"status": {}} if served.status and not served.custom else {})})
        check(served, value, None)
        return self._put_new(served, value, options)

    def _patched(self, served: Served, old: Json, new: Any, options: Options) -> Json:
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise answers.bad_request("the patch leaves something that is not an object with metadata")
        return self._update(served, old, new, self._writer(served, "Update", options), options)

    def _update(self, served: Served, old: Json, new: Json, writer: Writer | None, options: Options) -> Json:
        """`writer` is None when the caller has already worked out who owns what."""
        check_version(served, old, stated(new).version)
        check_identity(served, new, old["metadata"].get("namespace", ""), old["metadata"]["name"])
        check_uid(served, old, stated(new).uid)
        new = admitted(served, old, new, options.subresource)
        new = served.prepare(new)
        check(served, new, old)
        if served.generation and meaning(served, new) != meaning(served, old):
            new = {**new, "metadata": {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}}
        if writer is not None:
            new = written(old, new, writer, self.timestamp(), served.topology)
        check_size(new)
        return new if options.dry_run else self.store(served, old, new)

    def _marked(self, served: Served, old: Json, finalizers: list[str], grace: int) -> Json:
        metadata = dict(old["metadata"])
        if "deletionTimestamp" not in metadata or grace < metadata.get("deletionGracePeriodSeconds", 0):
            if "deletionTimestamp" not in metadata and served.generation:
                metadata["generation"] = metadata.get("generation", 0) + 1
            metadata["deletionTimestamp"] = self.timestamp(grace)
            if served.resource.kind != "Namespace":
                metadata["deletionGracePeriodSeconds"] = grace
        metadata.pop("finalizers", None)
        if finalizers:
            metadata["finalizers"] = finalizers
        marked = {**old, "metadata": metadata}
        if served.resource.kind == "Namespace":
            marked["status"] = {**marked.get("status", {}), "phase": "Terminating"}
        return marked

    def _writer(self, served: Served, operation: str, options: Options) -> Writer:
        return Writer(operation, options.manager, served.resource.api_version, options.subresource)


def key(served: Served, namespace: str, name: str) -> Key:
    return Key(served.resource.plural_and_group, namespace if served.resource.namespaced else "", name)


def key_of(served: Served, value: Json) -> Key:
    return key(served, value["metadata"].get("namespace", ""), value["metadata"]["name"])
