"""What names a graph server: a URL without secrets, and the database."""

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl

from waygraph.registry.http.addresses import names_user, split_url
from waygraph.registry.model.errors import InvalidSetting

_TLS = {"": (False, False), "s": (True, True), "ssc": (True, False)}
"""Suffix of a scheme → encrypted, certificate checked."""
_ROUTING = {"neo4j": {"policy"}, "bolt": set[str]()}
"""What may follow a `?`: the routing policy, which a cluster has and a single server has not."""
_URL_FORMS = (
    "A graph server is named like neo4j://host, neo4j+s://host:7687 or bolt://host/database, a cluster by one member."
)
_NO_SECRETS = (
    "a URL is shown and logged, so it may not hold a user, password or token. "
    "Set WAYGRAPH_NEO4J_USER and WAYGRAPH_NEO4J_PASSWORD (or WAYGRAPH_NEO4J_TOKEN)."
)


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
        """`neo4j[+s|+ssc]://host[:port][/database]`, or `bolt…`.

        Raises InvalidSetting, whose message repeats nothing of what it refuses: that may be a password.
        """
        parts = _check_address(location)
        kind, _, tls = parts.scheme.partition("+")
        encrypts, verifies = _TLS[tls]
        database = _database(parts.path.strip("/") or default_database)
        query = f"?{parts.query}" if parts.query else ""
        return cls(
            address=f"{kind}://{parts.netloc}{query}",
            database=database,
            encrypted=encrypts,
            verified=verifies,
            place=f"{parts.scheme}://{parts.netloc}/{database}",
        )


def _check_address(location: str) -> SplitResult:
    if names_user(location):
        raise InvalidSetting(_NO_SECRETS)
    parts = split_url(location)
    if parts is None or not parts.hostname or "," in parts.netloc or parts.fragment:
        raise InvalidSetting(f"this is no URL of a graph server. {_URL_FORMS}")
    parameters = _ROUTING[parts.scheme.partition("+")[0]]
    if any(name not in parameters for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise InvalidSetting(f"nothing but ?policy=… of neo4j:// may follow the database; {_NO_SECRETS}")
    return parts


def _database(name: str) -> str:
    """Raises InvalidSetting for what cannot be one that holds a graph."""
    if "/" in name:
        raise InvalidSetting(f"after the host comes the name of one database. {_URL_FORMS}")
    if name.lower() == "system":
        raise InvalidSetting("the database `system` holds no graph; name another one")
    return name
