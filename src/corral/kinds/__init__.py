"""What users write, one folder a kind. `KINDS` is what the operator runs and the commands know."""

from corral.engine.registry import KindController

KINDS: tuple[KindController, ...] = ()
