"""`vm.novasphere.dev/v1alpha1`: the fields have our names; what differs is what they did, or did not do. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from corral.kinds.wukong.importing.parts import CannotImport, Document, Imported, Notes, ours, without_nothing
from corral.kinds.wukong.spec_networks import BRIDGE_PREFIX, LINK_NAME_MAX, POD_NETWORK

GROUP = "vm.novasphere.dev"


def snapshot(document: Document) -> Imported:
    spec = document.get("spec") or {}
    return Imported(ours("WukongSnapshot", document, {"wukongName": spec.get("wukongName", "")}))


def wukong(document: Document) -> Imported:
    spec, notes = dict(document.get("spec") or {}), Notes()
    name = str((document.get("metadata") or {}).get("name", ""))
    spec["networks"] = list(_networks(name, spec.get("networks") or [], notes))
    spec["disks"] = [without_nothing(disk) for disk in spec.get("disks") or []]
    spec["cloudInitUser"] = _user(spec.get("cloudInitUser"), notes)
    start, availability = _power(spec, notes)
    spec["startStrategy"], spec["highAvailability"] = start, availability
    if spec.get("osImage") and not any(disk.get("image") for disk in spec["disks"]):
        notes.add("osImage did nothing before; it fills the boot disk now")
    if snapshot := spec.pop("restoreFromSnapshot", None):
        notes.add(
            f"restoreFromSnapshot is left out: it did nothing before, and would fill the disks from {snapshot} now; "
            "write it if that is what you want"
        )
    notes.add(f"its VirtualMachine was called {name}-vm and is called {name} now: delete the old one first")
    notes.add(
        "its disks and networks keep their names, so those that exist are in the way: delete its "
        "NetworkAttachmentDefinitions; label its claims, and the DataVolumes of disks that have an image, with "
        f"vm.corral.dev/wukong={name} to have them taken over, with what is on them"
    )
    return Imported(ours("Wukong", document, spec), tuple(notes))


def _networks(wukong: str, networks: Iterable[Mapping[str, Any]], notes: Notes) -> Iterator[dict[str, Any]]:
    networks = tuple(networks)
    has_primary = any(network.get("primary") for network in networks)
    for network in networks:
        name, kind = str(network.get("name", "")), network.get("type")
        if name == POD_NETWORK and has_primary:
            notes.add("networks[default] is left out: another network is primary and takes its place")
        elif name == POD_NETWORK:
            _tell_dropped(
                name, without_nothing(network), ("ipConfig",), "the pod network gives every guest its address", notes
            )
            yield {"name": name}
        elif kind in NEEDS and not network.get("nadName") and not network.get(NEEDS[kind]):
            notes.add(
                f"networks[{name}] is left out: {kind} gave the machine no interface before, and needs {NEEDS[kind]}, "
                "or nadName, to give it one"
            )
        else:
            yield _network(wukong, network, notes)


# What a type of network cannot do without, unless it names a NetworkAttachmentDefinition.
NEEDS = {"sriov": "resourceName", "macvlan": "physicalInterface"}


def _network(wukong: str, network: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    name, kind = str(network.get("name", "")), network.get("type") or "bridge"
    kept = without_nothing({**network, "ipConfig": _address(network.get("ipConfig"))})
    if kept.get("nadName"):
        why = f"NetworkAttachmentDefinition {kept['nadName']} says that itself"
        return _without(name, kept, ("vlanId", "bridgeName", "physicalInterface"), why, notes)
    if kind == "macvlan":
        return _without(name, kept, ("vlanId", "bridgeName"), "macvlan has neither", notes)
    why = "the ports of a bridge belong to the nodes; make the bridge there (a NodeBridge): a Wukong never does"
    kept = _without(name, kept, ("physicalInterface",), why, notes)
    if kind == "sriov":
        return _without(name, kept, ("bridgeName",), "sriov has none", notes)
    bridge = f"{BRIDGE_PREFIX}{name}"
    if not kept.get("bridgeName") and len(bridge) > LINK_NAME_MAX:
        raise CannotImport(
            f"Wukong {wukong}: networks[{name}] has no bridgeName, and {bridge} has more than the {LINK_NAME_MAX} "
            "characters that Linux allows: no such bridge can be there; write the one that is as bridgeName"
        )
    return kept


def _without(name: str, network: Mapping[str, Any], fields: tuple[str, ...], why: str, notes: Notes) -> dict[str, Any]:
    _tell_dropped(name, network, fields, why, notes)
    return {field: value for field, value in network.items() if field not in fields}


def _tell_dropped(name: str, network: Mapping[str, Any], fields: tuple[str, ...], why: str, notes: Notes) -> None:
    for field in fields:
        if field in network:
            notes.add(f"networks[{name}].{field} is left out: {why}")


def _address(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not config:
        return None
    static = config.get("mode") == "static"
    return without_nothing({k: v for k, v in config.items() if static or k not in ("address", "gateway")})


def _user(user: Mapping[str, Any] | None, notes: Notes) -> dict[str, Any] | None:
    if not user:
        return None
    if user.get("password"):
        notes.add(
            "cloudInitUser.password is left out: put its hash (`openssl passwd -6`) in a Secret and name that in "
            "passwordHashSecret"
        )
    return without_nothing({name: value for name, value in user.items() if name != "password"})


def _power(spec: Mapping[str, Any], notes: Notes) -> tuple[dict[str, Any], dict[str, Any]]:
    """There `autoStart` alone decided, and a block without it meant no; run strategy and restart policy did nothing."""
    block, availability = spec.get("startStrategy"), dict(spec.get("highAvailability") or {})
    if availability.get("antiAffinity"):
        notes.add("highAvailability.antiAffinity did nothing before; it keeps machines of a group apart now")
    if block is not None and not block.get("autoStart"):
        if block.get("runStrategy"):
            notes.add("startStrategy.runStrategy is left out: without autoStart the machine did not run")
        return {"autoStart": False}, without_nothing(availability)
    start = without_nothing({"runStrategy": (block or {}).get("runStrategy")})
    if start and availability.pop("restartPolicy", None):
        notes.add("highAvailability.restartPolicy is left out: it did nothing, and runStrategy says the same")
    for acts, field in ((start, "startStrategy.runStrategy"), (availability, "highAvailability.restartPolicy")):
        said = acts.get(field.rpartition(".")[2])
        if said and said != "Always":
            notes.add(f"{field} did nothing before: the machine was started whenever it had ended; it is {said} now")
    return start, without_nothing(availability)
