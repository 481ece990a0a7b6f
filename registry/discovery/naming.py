"""Tools that are named outright, and names that are near to one that nobody bears."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waygraph.registry.errors import InvalidQuery, UnknownName
from waygraph.registry.index.analyser import AROUND_NAMES, MAX_NAMED_CHARS
from waygraph.registry.model import Agent, Principal, Tool, ToolMatch
from waygraph.registry.nearest import likeness
from waygraph.registry.routing.recipes import HYBRID, LEXICAL, TOOLS, Recipe

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry

NEAREST = 3
"""Names suggested, at most."""
BORNE_BY = 20
"""So many tools of one bare name are told apart."""
_NEAR_READ = 10
_WORD = re.compile(rf"\S{{1,{MAX_NAMED_CHARS}}}")
_MEANT, _WORDS = replace(HYBRID, calibration=None), replace(LEXICAL, calibration=None)
"""Recipes that withhold nothing."""


def bare(query: str) -> str:
    """A query without the quotes and full stops around it."""
    return query.strip(AROUND_NAMES)


def is_name_like(query: str) -> bool:
    """Whether it could be a name and no sentence: one word."""
    return _WORD.fullmatch(bare(query)) is not None


def exactness(name: str, tool: Tool) -> int:
    """How the name, or what is within the quotes around it, means the tool: 0 by its id or call name, 1 but for the
    case, 2 and 3 by its bare name; 4 not so.
    """
    return min(_exactness(each, tool) for each in _readings(name))


def _exactness(name: str, tool: Tool) -> int:
    if name in (tool.id, tool.call_name):
        return 0
    folded = name.casefold()
    if folded in (tool.id.casefold(), tool.call_name.casefold()):
        return 1
    if name == tool.name:
        return 2
    return 3 if folded == tool.name.casefold() else 4


def _readings(name: str) -> tuple[str, ...]:
    """As it stands, since a name may end in a full stop, and without what is around it."""
    return tuple(dict.fromkeys((name.strip(), bare(name))))


def exact_first(query: str, matches: Sequence[ToolMatch]) -> list[ToolMatch]:
    """Those that the query names come first, whatever else speaks for others; else the order given."""
    return sorted(matches, key=lambda match: exactness(query, match.tool))


def owner_of(registry: "Registry", tool: Tool, principal: Principal | None) -> Agent:
    """Raises UnknownName, also for a hidden agent: an operator took it away from all who ask."""
    agent = registry.agent(tool.agent_id, principal=principal)
    if agent.hidden:
        raise UnknownName("tool", tool.call_name, ())
    return agent


def named_outright(
    registry: "Registry", name: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> tuple[Agent, Tool] | None:
    """The tool of exactly this id or call name, also one that waits for approval, and its agent."""
    for each in _readings(name):
        if len(each) > MAX_NAMED_CHARS or ("/" not in each and "__" not in each):
            continue
        try:
            tool = registry.tool(each, principal=principal)
            if agent_ids is None or tool.agent_id in agent_ids:
                return owner_of(registry, tool, principal), tool
        except UnknownName:
            continue
    return None


def nearest(
    registry: "Registry", query: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> list[str]:
    """Call names of what is nearest to the query by meaning or words, to a name by its letters; best first."""
    matches = _near(registry, query, principal, agent_ids)
    names = [match.tool.call_name for match in matches]
    if is_name_like(query):
        names = _by_letters(bare(query), matches) or _by_spelling(registry, bare(query), principal, agent_ids)
    return names[:NEAREST]


def _by_spelling(
    registry: "Registry", name: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> list[str]:
    """What the registry itself takes for meant: without vectors no search finds a misspelt name."""
    near: list[Agent | Tool] = []
    try:
        near = [registry.tool(name, principal=principal)]
    except UnknownName as unknown:
        near = [registry.named(each, principal=principal) for each in unknown.nearest]
    tools = [each for each in near if isinstance(each, Tool)]
    named = [each for each in tools if agent_ids is None or each.agent_id in agent_ids]
    return [each.call_name for each in named if not registry.agent(each.agent_id, principal=principal).hidden]


def _near(
    registry: "Registry", query: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> Sequence[ToolMatch]:
    among = None if agent_ids is None else sorted(agent_ids)

    def found(recipe: str | Recipe) -> Sequence[ToolMatch]:
        return registry.find_tools(query, limit=_NEAR_READ, agent_ids=among, recipe=recipe, principal=principal).matches

    try:
        return found(_MEANT) or found(_WORDS)
    except InvalidQuery:  # of a service, which takes recipes by name
        return found(TOOLS.name)


def _by_letters(name: str, matches: Iterable[ToolMatch]) -> list[str]:
    folded = name.casefold()
    near = {
        match.tool.call_name: max(
            likeness(folded, each.casefold()) for each in (match.tool.id, match.tool.call_name, match.tool.name)
        )
        for match in matches
    }
    return sorted(near, key=lambda call_name: -near[call_name])
