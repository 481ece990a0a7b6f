"""What names a graph server: a URL without secrets, the members of a cluster that it lists, and the database."""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl

from waygraph.registry.http.addresses import names_user, split_url
from waygraph.registry.model.errors import InvalidSetting

_TLS = {"": (False, False), "s": (True, True), "ssc": (True, False)}
"""Suffix of a scheme → encrypted, certificate checked."""
_ROUTING = {"neo4j": {"policy"}, "bolt": set[str]()}
"""What may follow a `?`: the routing policy, which a cluster has and a single server has not."""
CLUSTER_HOST = "cluster.invalid"
"""Stands in the address of a cluster for the members that its URL lists: no name of a host, by RFC 2606."""
DEFAULT_PORT = 7687
_URL_FORMS = (
    "A graph server is named like neo4j://host, neo4j+s://host:7687 or bolt://host/database, a cluster by some of its "
    "members: neo4j://one:7687,two:7687."
)
_NO_SECRETS = (
    "a URL is shown and logged, so it may not hold a user, password or token. "
    "Set WAYGRAPH_NEO4J_USER and WAYGRAPH_NEO4J_PASSWORD (or WAYGRAPH_NEO4J_TOKEN)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLocation:
    """`address` is scheme, host, port and routing context, as the driver takes it, with encryption taken apart.

    `members`: host and port of each, where the URL lists several; the address then names `CLUSTER_HOST`.
    """

    address: str
    database: str
    encrypted: bool
    verified: bool
    place: str
    """As people name it."""
    members: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, location: str, default_database: str) -> "ServerLocation":
        """`neo4j[+s|+ssc]://host[:port][,host[:port]…][/database]`, or `bolt…` with one host.

        Raises InvalidSetting, whose message repeats nothing of what it refuses: that may be a password.
        """
        scheme, _, rest = location.partition("://")
        hosts_end = re.search(r"[/?#]|$", rest)
        end = hosts_end.start() if hosts_end else len(rest)
        each = [_check_address(f"{scheme}://{host}{rest[end:]}") for host in rest[:end].split(",")]
        parts = each[0]
        kind, _, tls = parts.scheme.partition("+")
        if len(each) > 1 and kind != "neo4j":
            raise InvalidSetting(f"bolt:// names one server. {_URL_FORMS}")
        encrypts, verifies = _TLS[tls]
        database = _database(parts.path.strip("/") or default_database)
        query = f"?{parts.query}" if parts.query else ""
        hosts = ",".join(one.netloc for one in each)
        return cls(
            address=f"{kind}://{hosts if len(each) == 1 else CLUSTER_HOST}{query}",
            database=database,
            encrypted=encrypts,
            verified=verifies,
            place=f"{parts.scheme}://{hosts}/{database}",
            members=tuple((str(one.hostname), one.port or DEFAULT_PORT) for one in each) if len(each) > 1 else (),
        )


def _check_address(location: str) -> SplitResult:
    if names_user(location):
        raise InvalidSetting(_NO_SECRETS)
    parts = split_url(location)
    if parts is None or not parts.hostname or parts.fragment:
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
