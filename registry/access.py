"""Who sees what, and who may do what. One rule, applied inside the search and by every list, before anything is ranked.

A library and a command that a person runs see everything (`principal=None`). A service asks in the name of a `Caller`.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from waygraph.registry.errors import NotAllowed
from waygraph.registry.model import Agent, Filters, Principal
from waygraph.registry.statuses import reachable

Scope = Literal["route", "read", "write", "cypher", "use"]
"""What a caller may do: find agents and tools; list them; change the registry; type Cypher; call tools."""
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls a service. `id` tells callers apart (`key:3f2a…`, `oidc:…`, `local`) and holds no secret.

    `principal` decides what it sees; None: everything.
    """

    id: str
    name: str = ""
    scopes: frozenset[Scope]
    principal: Principal | None

    @property
    def sees_everything(self) -> bool:
        return self.principal is None

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
        and (not filters.reachable or reachable(agent.status))
    )
