"""JSON pointers (RFC 6901)."""


def pointer(*parts: object) -> str:
    """`/mcpServers/a~1b` of `mcpServers` and `a/b`."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)
