"""Who sees what. One rule, applied inside the search and by every list, before anything is ranked or counted."""

from waygraph.registry.model import Agent, Filters, Principal


def visible(agent: Agent, principal: Principal | None) -> bool:
    """Whether the principal may know of the agent. `None` sees everything; others see nothing hidden."""
    if principal is None:
        return True
    return not agent.hidden and (not agent.visible_to or not set(agent.visible_to).isdisjoint(principal.groups))


def routable(agent: Agent, principal: Principal | None, filters: Filters) -> bool:
    """Whether a route or search may name the agent: visible, not hidden from routing, and what was asked for."""
    return not agent.hidden and visible(agent, principal) and _fits(agent, filters)


def _fits(agent: Agent, filters: Filters) -> bool:
    return (
        (not filters.kinds or agent.kind in filters.kinds)
        and (not filters.agent_ids or agent.id in filters.agent_ids)
        and (not filters.tags or not set(filters.tags).isdisjoint(agent.tags))
    )
