"""Follow a kind for ever: a full picture first, then every change, with nothing lost between connections."""


def version_number(version: str) -> int | None:
    """A resourceVersion as a number that can be compared, or None where the API numbers its versions otherwise."""
    return int(version) if version.isdecimal() else None
