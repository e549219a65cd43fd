"""`vm.novasphere.dev/v1alpha1`: the fields have our names; what differs is what they did, or did not do. Pure."""

from collections.abc import Mapping
from typing import Any

from corral.kinds.wukong.importing.parts import Document, Imported, ours, without_nothing
from corral.kinds.wukong.spec_networks import POD_NETWORK

GROUP = "vm.novasphere.dev"


def snapshot(document: Document) -> Imported:
    spec = document.get("spec") or {}
    return Imported(ours("WukongSnapshot", document, {"wukongName": spec.get("wukongName", "")}))


def wukong(document: Document) -> Imported:
    spec, notes = dict(document.get("spec") or {}), list[str]()
    spec["networks"] = _networks(spec.get("networks") or [], notes)
    spec["disks"] = [without_nothing(disk) for disk in spec.get("disks") or []]
    spec["cloudInitUser"] = _user(spec.get("cloudInitUser"), notes)
    start, availability = _power(spec, notes)
    spec["startStrategy"], spec["highAvailability"] = start, availability
    if spec.get("osImage") and not any(disk.get("image") for disk in spec["disks"]):
        notes.append("osImage did nothing before; it fills the boot disk now")
    name = (document.get("metadata") or {}).get("name", "")
    notes.append(f"its VirtualMachine was called {name}-vm and is called {name} now: delete the old one first")
    notes.append(
        "its disks and networks keep their names, so those that exist are in the way: label claims with "
        f"vm.corral.dev/wukong={name} to have them taken over, with what is on them"
    )
    return Imported(ours("Wukong", document, spec), tuple(notes))


def _networks(networks: list[Mapping[str, Any]], notes: list[str]) -> list[dict[str, Any]]:
    has_primary = any(network.get("primary") for network in networks)
    found = []
    for network in networks:
        name, kind = network.get("name", ""), network.get("type")
        if name == POD_NETWORK and has_primary:
            notes.append("networks[default] is left out: another network is primary and takes its place")
            continue
        kept = dict(network)
        if name == POD_NETWORK:
            kept = {"name": name}
        elif kept.get("physicalInterface") and kind != "macvlan":
            del kept["physicalInterface"]
            notes.append(
                f"networks[{name}].physicalInterface is left out: the ports of a bridge belong to the nodes; "
                "make the bridge there (NMState), for a virtual machine no longer does"
            )
        kept["ipConfig"] = _address(kept.get("ipConfig"))
        found.append(without_nothing(kept))
    return found


def _address(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not config:
        return None
    static = config.get("mode") == "static"
    return without_nothing({k: v for k, v in config.items() if static or k not in ("address", "gateway")})


def _user(user: Mapping[str, Any] | None, notes: list[str]) -> dict[str, Any] | None:
    if not user:
        return None
    if user.get("password"):
        notes.append(
            "cloudInitUser.password is left out: put its hash (`openssl passwd -6`) in a Secret and name that in "
            "passwordHashSecret"
        )
    return without_nothing({name: value for name, value in user.items() if name != "password"})


def _power(spec: Mapping[str, Any], notes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """There `autoStart` alone decided, and a block without it meant no; run strategy and restart policy did nothing."""
    block, availability = spec.get("startStrategy"), dict(spec.get("highAvailability") or {})
    if availability.get("antiAffinity"):
        notes.append("highAvailability.antiAffinity did nothing before; it keeps machines of a group apart now")
    if block is not None and not block.get("autoStart"):
        if block.get("runStrategy"):
            notes.append("startStrategy.runStrategy is left out: without autoStart the machine did not run")
        return {"autoStart": False}, without_nothing(availability)
    start = without_nothing({"runStrategy": (block or {}).get("runStrategy")})
    if start and availability.pop("restartPolicy", None):
        notes.append("highAvailability.restartPolicy is left out: it did nothing, and runStrategy says the same")
    return start, without_nothing(availability)
