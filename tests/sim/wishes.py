"""What people ask of a NodeSet beside its size, by seed: where its workers are, how they are called, what they keep."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final

VOLUME: Final = "scratch"
SCRATCH: Final = {"metadata": {"name": VOLUME}, "spec": {"accessModes": ["ReadWriteOnce"]}}
KEPT: Final = ("Retain", "Delete", "Delete")
FORCED_AFTER_S: Final = (60, 120)


def wishes(luck: Random) -> Mapping[str, Any]:
    """Each by itself, so that all pairs of them are met."""
    kept = {"whenScaled": luck.choice(KEPT), "whenDeleted": luck.choice(KEPT)}
    drawn: list[tuple[float, Mapping[str, Any]]] = [
        (0.25, {"pinToNode": True}),
        (0.2, {"ordinalPadding": luck.choice((2, 3))}),
        (0.25, {"reserveOrdinals": sorted(luck.sample(range(5), luck.choice((1, 2))))}),
        (0.3, {"volumeClaimTemplates": [SCRATCH], "persistentVolumeClaimRetentionPolicy": kept}),
        (0.3, {"update": {"maxUnavailable": luck.choice((0, 1, 2, "40%")), "maxSurge": luck.choice((0, 1, 2, "50%"))}}),
        (0.6, {"slurmd": {"resources": {"limits": {"cpu": "2"}}}}),
        (0.15, {"forceDrainAfterSeconds": luck.choice(FORCED_AFTER_S)}),
        (0.15, {"scalingMode": "DaemonSet", "update": {"maxUnavailable": luck.choice((1, 2))}}),  # which has no surge
    ]
    asked: dict[str, Any] = {}
    for probability, wish in drawn:
        asked |= wish if luck.random() < probability else {}
    return asked
