"""What names a graph server: a URL without secrets, and the database on it."""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from waygraph.registry.errors import InvalidSetting

_TLS = {"": (False, False), "s": (True, True), "ssc": (True, False)}
"""Suffix of a scheme → encrypted, certificate checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLocation:
    """`address` is scheme, host, port and routing context, as the driver takes it, with encryption taken apart."""

    address: str
    database: str
    encrypted: bool
    verified: bool
    place: str
    """As people name it."""

    @classmethod
    def parse(cls, location: str, default_database: str) -> "ServerLocation":
        """`neo4j[+s|+ssc]://host[:port][/database]`, or `bolt…`. Raises InvalidSetting; the message holds no secret."""
        parts = _split(location)
        kind, _, tls = parts.scheme.partition("+")
        encrypted, verified = _TLS[tls]
        database = parts.path.strip("/") or default_database
        if "/" in database:
            raise InvalidSetting(f"after the host of {parts.hostname} comes the name of one database, not {database!r}")
        query = f"?{parts.query}" if parts.query else ""
        return cls(
            address=f"{kind}://{parts.netloc}{query}",
            database=database,
            encrypted=encrypted,
            verified=verified,
            place=f"{parts.scheme}://{parts.netloc}/{database}",
        )


def _split(location: str) -> SplitResult:
    try:
        parts = urlsplit(location)
        port_fits = parts.port is None or parts.port > 0
    except ValueError as exc:
        raise InvalidSetting(f"this is no URL of a graph server: {exc}") from exc
    if parts.username is not None or parts.password is not None:
        raise InvalidSetting(
            "a URL is shown and logged, so it may not hold a user or password. "
            "Set WAYGRAPH_NEO4J_USER and WAYGRAPH_NEO4J_PASSWORD (or WAYGRAPH_NEO4J_TOKEN)."
        )
    if not parts.hostname or not port_fits or parts.fragment:
        raise InvalidSetting("a graph server is named like neo4j://host, neo4j+s://host:7687 or bolt://host/database")
    return parts
