"""Who sees what, and who may do what. One rule, applied inside the search and by every list, before anything is ranked.

A library and a command that a person runs see everything (`principal=None`). A service asks in the name of a `Caller`.
"""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal, get_args

from waygraph.registry.http.addresses import is_public, split_url
from waygraph.registry.model.errors import NotAllowed
from waygraph.registry.model.nouns import NOTICE, Agent, Filters, JsonText, Principal, Tool, canonical_json, reachable
from waygraph.registry.model.transitions import owner_of

Scope = Literal["route", "read", "write", "cypher", "use", "admin"]
"""What a caller may do: find agents and tools; list them; change the registry; type Cypher; call tools; read how
servers are started."""
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls a service. `id` tells callers apart (`key:3f2a…`, `oidc:…`, `local`) and holds no secret.

    `principal` decides what it sees; None: everything. `toolset`: it is kept to the endpoint of this one.
    """

    id: str
    name: str = ""
    scopes: frozenset[Scope]
    principal: Principal | None
    toolset: str = ""

    @property
    def sees_everything(self) -> bool:
        return self.principal is None

    @property
    def writer(self) -> Principal | None:
        """In whose name something is changed."""
        return self.principal and replace(self.principal, id=self.id, operates="admin" in self.scopes)

    @property
    def transport_filter(self) -> Callable[[JsonText], JsonText] | None:
        """What the caller may read of an agent's transport; None: all of it."""
        return None if "admin" in self.scopes else public_transport

    def require(self, scope: Scope) -> None:
        """Raises NotAllowed without this scope."""
        if scope not in self.scopes:
            has = ", ".join(sorted(self.scopes)) or "none"
            raise NotAllowed(f"this needs the scope {scope!r}; the caller has: {has}")

    def require_everything(self, what: str) -> None:
        """Raises NotAllowed for a caller that sees a part only: of `what` no part can be given."""
        if not self.sees_everything:
            raise NotAllowed(f"{what} needs a caller who sees everything, since it cannot be limited to some agents")


LOCAL = Caller(id="local", name="without authentication", scopes=frozenset(SCOPES), principal=None)
"""Whoever calls a service that asks nobody who they are."""


_PUBLIC_FIELDS = frozenset({"type", "protocolBinding", "protocolVersion", "preferredTransport"})
_INTERNAL_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".corp", ".intranet")


def public_transport(transport: JsonText) -> JsonText:
    """The kind of a transport, its protocol and its public address: all that callers without scope `admin` read.

    Empty if nothing of it is public, and for a text that is no JSON object.
    """
    try:
        fields = json.loads(transport)
    except ValueError:
        return ""
    if not isinstance(fields, dict):
        return ""
    public = {name: value for name, value in fields.items() if name in _PUBLIC_FIELDS and isinstance(value, str)}
    if "command" in fields:
        public.setdefault("type", "stdio")
    elif address := _public_address(fields.get("url")):
        public["url"] = address
    return canonical_json(public) if public else ""


def _public_address(url: object) -> str:
    """Without login, query and fragment; empty if its host is not one of the open internet, by its name."""
    parts = split_url(url) if isinstance(url, str) else None
    host = (parts and parts.hostname) or ""
    if parts is None or parts.scheme not in {"http", "https"} or not _is_public_host(host):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_public_host(host: str) -> bool:
    if ":" in host or host.replace(".", "").isdigit():
        return is_public(host)
    return "." in host.strip(".") and not host.rstrip(".").endswith(_INTERNAL_NAMES) and "$" not in host


def visible(agent: Agent, principal: Principal | None) -> bool:
    """Whether the principal may know of the agent. `None` sees everything; others see nothing hidden."""
    if principal is None:
        return True
    return not agent.hidden and (not agent.visible_to or not set(agent.visible_to).isdisjoint(principal.groups))


def routable(agent: Agent, principal: Principal | None, filters: Filters) -> bool:
    """Whether a route or search may name the agent: visible, not hidden nor waiting, and what was asked for."""
    return not (agent.hidden or agent.pending) and visible(agent, principal) and fits(agent, filters)


def fits(agent: Agent, filters: Filters) -> bool:
    """Whether the agent is what was asked for."""
    return (
        (not filters.kinds or agent.kind in filters.kinds)
        and (not filters.agent_ids or agent.id in filters.agent_ids)
        and (not filters.tags or not set(filters.tags).isdisjoint(agent.tags))
        and agent.kind not in filters.without_kinds
        and agent.id not in filters.without_agent_ids
        and set(filters.without_tags).isdisjoint(agent.tags)
        and (not filters.reachable or reachable(agent.status))
        and (filters.members is None or agent.id in filters.members)
    )


def tools_within(filters: Filters) -> frozenset[str] | None:
    """The ids of the only tools that may be found; None: all of the agents that fit."""
    tools = frozenset(member for member in filters.members or () if "/" in member)
    return tools or None


def narrow(filters: Filters, members: frozenset[str]) -> Filters:
    """The filters, that let through only these agents and tools too; of an agent without any tool there all of its.

    Where members are told, some with tools and some without, an agent stays by one tool that both sides let through.
    """
    if filters.members is None:
        return replace(filters, members=members)
    sides = (filters.members, members)
    agents = {each for each in filters.members & members if "/" not in each}
    tool_sets = [tools for side in sides if (tools := {each for each in side if "/" in each})]
    tools = {each for each in set.intersection(*tool_sets) if owner_of(each) in agents} if tool_sets else set[str]()
    silent = agents.difference(*(map(owner_of, each) for each in tool_sets))
    return replace(filters, members=frozenset([*tools, *silent, *map(owner_of, tools)]))


# Flags that tell of another agent: only who may see that agent reads them.
#
# All of them are kept, and few are told: were they counted before it is known who reads them, those that tell of agents
# nobody sees could leave no room for the others.


MAX_FLAGS, MAX_OWNERS = 5, 5
"""So many are told of one entity, and so many agents in one of them."""
IN_PLACE, CALLS_ANOTHER = "puts itself in the place of a tool of ", "has the model call a tool of "
NEAR_COPY, NEAR_ID = "is nearly the same as a tool of ", "differs by case, punctuation or blanks alone from that of "
_OF_ANOTHER = re.compile(
    rf"(?P<before>(?:{NOTICE})?[a-z ]+: (?:{IN_PLACE}|{CALLS_ANOTHER}|{NEAR_COPY}|{NEAR_ID}))"
    r"(?P<owners>[^:]+)(?P<after>: .*)",
    re.DOTALL,
)
"""What a source wrote stands behind the second colon only: nobody writes an owner into it, or out of it."""

Shows = Callable[[str], bool]
"""Whether somebody may see the agent of an id."""


def of_others(reason: str, owners: Collection[str], words: str) -> str:
    """The reason (IN_PLACE, CALLS_ANOTHER, NEAR_COPY, NEAR_ID), with the agents whose tool is meant by the words."""
    return f"{reason}{', '.join(sorted(owners))}: {words}"


def as_seen[E: Agent | Tool](entity: E, shows: Shows | None, principal: Principal | None = None) -> E:
    """With those flags that tell of no agent which somebody may not see. `shows` None: of somebody who sees all.

    Of what waits for approval a principal who is no operator is not given by which tags and questions it will be found.
    """
    entity = replace(entity, flags=seen_flags(entity.flags, shows)) if entity.flags else entity
    if not entity.pending or principal is None or principal.operates:
        return entity
    return replace(entity, tags=()) if isinstance(entity, Agent) else replace(entity, tags=(), questions=())


def seen_flags(flags: Collection[str], shows: Shows | None) -> tuple[str, ...]:
    """The first `MAX_FLAGS`, without the owners that may not be seen, and without what tells of no others."""
    return tuple(text for flag in flags if (text := _visible_text(flag, shows)))[:MAX_FLAGS]


def _visible_text(flag: str, shows: Shows | None) -> str:
    """Empty: nothing of it may be told."""
    match = _OF_ANOTHER.fullmatch(flag)
    if not match:
        return flag
    owners = [owner for owner in match["owners"].split(", ") if shows is None or shows(owner)][:MAX_OWNERS]
    return f"{match['before']}{', '.join(owners)}{match['after']}" if owners else ""
