"""JSON pointers (RFC 6901), by which records are named."""


def escaped(key: object) -> str:
    """A key as a part of a pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")
