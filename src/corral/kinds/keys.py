"""Where the keys of a Slurm cluster are, and what a reference to a Secret's key holds. Keys are never shown."""

from corral.kinds import names
from corral.kinds.controller.spec import Controller
from corral.kinds.parts import KeyRef
from corral.kube.models.core_v1 import Secret


def slurm_key_of(controller: Controller) -> KeyRef:
    """The key of auth/slurm: what the Controller refers to, else what was generated for it."""
    generated = KeyRef(name=names.slurm_key_name(controller.metadata.name), key=names.SLURM_JWKS)
    return controller.spec.slurm_key_ref or generated


def slurm_key_file(key: KeyRef) -> str:
    """What the daemons must find it as: a set of keys is told from a plain key by the name of its file alone."""
    return names.SLURM_JWKS if key.key.endswith(".jwks") else names.SLURM_KEY


def jwt_key_of(controller: Controller) -> KeyRef:
    """The key that signs tokens: what the Controller refers to, else what was generated for it."""
    generated = KeyRef(name=names.jwt_key_name(controller.metadata.name), key=names.JWT_KEY)
    return controller.spec.jwt_key_ref or generated


def missing(ref: KeyRef, namespace: str, secret: Secret | None) -> str:
    """What is waited for, in words; nothing when the key is there."""
    if secret is None:
        return f"Secret {namespace}/{ref.name} with key {ref.key!r}"
    if not secret.data.get(ref.key):
        return f"key {ref.key!r} in Secret {namespace}/{ref.name}, which is missing or empty"
    return ""
