"""The methods that Agent-as-a-Graph compares, as recipes where a recipe can tell them, else as routings.

All read the paper's texts, `name: description`, but BM25: the words index holds each tool's agent and parameters too.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.model.nouns import AgentMatch, Filters, Query, Route
from waygraph.registry.routing.recipes import AGENTS, PAPER, TOOLS, Recipe, RecipeLeg
from waygraph_lab.evaluation.run import Routing

N = 100
"""Of Algorithm 1: nodes that are read."""
SERVERS = 5
"""Servers that MCP-Zero looks into; beyond them it finds nothing, so its recall at 10 is that at 5."""
EVERY = 10_000
"""More than any of these catalogues holds."""

BM25 = Recipe(
    name="BM25",
    purpose="tools and agents in one list by BM25, each tool for its agent",
    legs=(RecipeLeg(leg="capability_text", kind="tool"), RecipeLeg(leg="agent_text", kind="agent")),
    merge="one_list",
    literals=True,
)
Q_RETRIEVAL = replace(AGENTS, name="Q.Retrieval", texts="plain")
"""The paper names it and says no more. Taken as: agents by the query's vector, over the agent-only dataset of its
section 4.1, which holds servers' names and descriptions alone."""
SCALEMCP = replace(TOOLS, name="ScaleMCP", texts="plain")
"""Tools by vector, each for its owner."""
WRRF = replace(PAPER, name="standard wRRF", merge="by_owner", agent_weight=1.0)
"""Equation 2 over two lists of agents: by their own vectors, and by their best tool's."""
ALGORITHM_1 = replace(PAPER, name="Algorithm 1", agent_weight=1.0)
"""Its line 1: N tools and N agents are read."""
UNIFIED = replace(ALGORITHM_1, name="Algorithm 1, N together")
"""Section 3.2: N nodes of the unified catalogue are read, whatever their kind. To be routed by `unified`."""
MCP_ZERO = replace(PAPER, name="MCP-Zero", agent_weight=1.0)
"""To be routed by `mcp_zero`."""


def mcp_zero(registry: Searchable, query: Query, recipe: Recipe, *, servers: int = SERVERS) -> Route:  # noqa: ARG001
    """The `servers` best by vector, then their tools: (s_server × s_tool) × max(s_server, s_tool), s a cosine.

    Source: Fei et al., "MCP-Zero" (2025), hierarchical vector routing. A server counts by its best tool.
    """
    first = registry.route(replace(query, limit=servers), recipe=replace(Q_RETRIEVAL, depth=servers))
    inside = Filters(agent_ids=tuple(match.agent.id for match in first.matches))
    tools = registry.route(replace(query, limit=servers, filters=inside), recipe=replace(SCALEMCP, depth=EVERY))
    server, tool = _cosines(first), _cosines(tools)
    scores = {name: (server[name] * tool[name]) * max(server[name], tool[name]) for name in tool}
    matches = sorted(tools.matches, key=lambda match: -scores[match.agent.id])[: query.limit]
    return replace(first, matches=tuple(matches), elapsed_ms=first.elapsed_ms + tools.elapsed_ms)


def unified(registry: Searchable, query: Query, recipe: Recipe) -> Route:
    """Algorithm 1 over the N nearest nodes of both kinds: r(e) is the rank among them."""
    agents = registry.route(replace(query, limit=N), recipe=Q_RETRIEVAL)
    tools = registry.find_tools(replace(query, limit=N), recipe=SCALEMCP)
    weights = {"agent": recipe.agent_weight, "tool": recipe.tool_weight}
    nodes = [(match.votes[0], match.agent) for match in agents.matches]
    nodes += [(match.votes[0], match.agent) for match in tools.matches]
    nodes = sorted(nodes, key=lambda node: -node[0].score)[:N]
    k = recipe.legs[0].k
    scored = [(weights[vote.kind] / (k + rank), agent) for rank, (vote, agent) in enumerate(nodes, start=1)]
    first: dict[str, AgentMatch] = {}
    for score, agent in sorted(scored, key=lambda each: -each[0]):
        first.setdefault(agent.id, AgentMatch(agent=agent, score=score))
    elapsed_ms = agents.elapsed_ms + tools.elapsed_ms
    return replace(agents, matches=tuple(first.values())[: query.limit], elapsed_ms=elapsed_ms)


def _cosines(route: Route) -> Mapping[str, float]:
    """Agent → the cosine that speaks for it; each match has one vote."""
    return {match.agent.id: match.votes[0].score for match in route.matches}


MCP_ZERO_EVERYWHERE: Routing = partial(mcp_zero, servers=EVERY)
"""The same score over all servers."""
