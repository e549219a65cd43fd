"""What can go wrong with the local cluster and is not our bug. Each message is one sentence a person can act on."""


class LocalError(Exception):
    """The command ends with this sentence and a non-zero exit; what was done so far stays for `up` or `down`."""
