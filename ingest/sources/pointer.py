"""JSON pointers (RFC 6901)."""


def pointer(*parts: object) -> str:
    """`/mcpServers/a~1b` of `mcpServers` and `a/b`."""
    return "".join(f"/{escaped(part)}" for part in parts)


def escaped(part: object) -> str:
    """`a~1b` of `a/b`."""
    return str(part).replace("~", "~0").replace("/", "~1")
