"""Tools that are named outright, and names that are near to one that nobody bears."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waygraph.registry.index.analyser import AROUND_NAMES, MAX_NAMED_CHARS
from waygraph.registry.index.search_index import Leg
from waygraph.registry.model.errors import AmbiguousTool, InvalidQuery, UnknownName, likeness
from waygraph.registry.model.identity import call_name, tool_id
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Tool, ToolMatch
from waygraph.registry.routing.recipes import HYBRID, LEXICAL, TOOLS, Recipe

if TYPE_CHECKING:
    from waygraph.registry.catalog.searchable import Searchable


WhyNot = Callable[[Agent], str]
"""Why nothing runs the tools of an agent; empty: they can be tried."""
RUNS: WhyNot = lambda _: ""  # noqa: E731 - a constant of that type
NEAREST = 3
"""Names suggested, at most."""
BORNE_BY = 20
"""So many tools of one bare name are told apart."""
_NEAR_READ = 10
_WORD = re.compile(rf"\S{{1,{MAX_NAMED_CHARS}}}")
_BY_MEANING, _BY_WORDS = replace(HYBRID, calibrations=()), replace(LEXICAL, calibrations=())
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
    caseless = name.casefold()
    if caseless in (tool.id.casefold(), tool.call_name.casefold()):
        return 1
    if name == tool.name:
        return 2
    return 3 if caseless == tool.name.casefold() else 4


def _readings(name: str) -> tuple[str, ...]:
    """As it stands, since a name may end in a full stop, and without what is around it."""
    return tuple(dict.fromkeys((name.strip(), bare(name))))


def exact_first(query: str, matches: Sequence[ToolMatch]) -> list[ToolMatch]:
    """Those that the query names come first, whatever else speaks for others; else the order given."""
    return sorted(matches, key=lambda match: exactness(query, match.tool))


def runnable_first[M: ToolMatch](matches: Sequence[M], why_not: Callable[[M], str]) -> list[M]:
    """In order, but a tool that does not run comes behind each later one that runs and fits as well, or less by no more
    than a clear lead.
    """
    result: list[M] = []
    idle: list[M] = []
    for match in matches:
        if why_not(match):
            idle.append(match)
            continue
        result += [each for each in idle if match.score < (1 - CLEAR_LEAD) * each.score]
        idle = [each for each in idle if match.score >= (1 - CLEAR_LEAD) * each.score]
        result.append(match)
    return [*result, *idle]


def owner_of(registry: "Searchable", tool: Tool, principal: Principal | None) -> Agent:
    """Raises UnknownName, also for a hidden agent: an operator took it away from all who ask."""
    agent = registry.agent(tool.agent_id, principal=principal)
    if agent.hidden:
        raise UnknownName("tool", tool.call_name, ())
    return agent


def named_outright(
    registry: "Searchable", name: str, principal: Principal | None, agent_ids: frozenset[str] | None
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
    registry: "Searchable",
    query: str,
    principal: Principal | None,
    agent_ids: frozenset[str] | None,
    *,
    steps: tuple[str, ...] = (),
    within: str = "",
) -> list[str]:
    """Call names of what is nearest to the query by meaning or words, to a name by its letters; best first.

    `within`: of this category alone, in which no name is looked up by its spelling.
    """
    matches = _near(
        registry, Query(text=query, steps=steps, limit=_NEAR_READ, filters=Filters(within=within)), principal, agent_ids
    )
    names = [match.tool.call_name for match in matches]
    if is_name_like(query):
        names = _by_letters(bare(query), matches)
        if not (names or within):
            names = _by_spelling(registry, bare(query), principal, agent_ids)
    return names[:NEAREST]


def _by_spelling(
    registry: "Searchable", name: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> list[str]:
    """What the registry itself takes for meant: without vectors no search finds a misspelt name."""
    near: list[Agent | Tool] = []
    try:
        near = [registry.tool(name, principal=principal)]
    except UnknownName as unknown:
        near = [registry.lookup(each, principal=principal) for each in unknown.nearest]
    tools = [each for each in near if isinstance(each, Tool)]
    candidates = [each for each in tools if agent_ids is None or each.agent_id in agent_ids]
    return [each.call_name for each in candidates if not registry.agent(each.agent_id, principal=principal).hidden]


def _near(
    registry: "Searchable", query: Query, principal: Principal | None, agent_ids: frozenset[str] | None
) -> Sequence[ToolMatch]:
    among = None if agent_ids is None else sorted(agent_ids)

    def find_near(recipe: str | Recipe) -> Sequence[ToolMatch]:
        return registry.find_tools(query, agent_ids=among, recipe=recipe, principal=principal).matches

    try:
        return find_near(_BY_MEANING) or find_near(_BY_WORDS)
    except InvalidQuery:  # of a service, which takes recipes by name
        return find_near(TOOLS.name)


def _by_letters(name: str, matches: Iterable[ToolMatch]) -> list[str]:
    caseless = name.casefold()
    near = {
        match.tool.call_name: max(
            likeness(caseless, each.casefold()) for each in (match.tool.id, match.tool.call_name, match.tool.name)
        )
        for match in matches
    }
    return sorted(near, key=lambda call_name: -near[call_name])


READ = "read"


def reading_tool(skill: Agent) -> Tool:
    """Takes nothing, and gives the skill's text."""
    return Tool(
        id=tool_id(skill.id, READ),
        agent_id=skill.id,
        name=READ,
        call_name=call_name(skill.id, READ),
        description=skill.description,
        input_schema='{"type":"object"}',
        annotations='{"readOnlyHint":true}',
    )


def skill_read(
    registry: "Searchable", name: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> Tool | None:
    """The tool that reads the skill of this id, or whose own id or call name this is. Raises UnknownName if it is of a
    hidden one.
    """
    for entry in registry.agents_page(filters=Filters(kinds=("skill",)), principal=principal).items:
        tool = reading_tool(entry.agent)
        if name in (entry.agent.id, tool.id, tool.call_name) and (agent_ids is None or tool.agent_id in agent_ids):
            owner_of(registry, tool, principal)
            return tool
    return None


# use_tool: which one tool is meant, by a name or by a request. Never a guess: else nothing runs.


CANDIDATES = 5
"""Named where several tools fit, at most."""
CLEAR_LEAD = 0.1
"""The best tool's score must be ahead of the second's by at least this share of it."""
TOLD_CHARS = 200
_AGREEING: tuple[Leg, ...] = ("capability_vector", "capability_text")


def tool_meant(
    registry: "Searchable",
    *,
    name: str = "",
    query: str = "",
    principal: Principal | None = None,
    agent_ids: frozenset[str] | None = None,
    why_not: WhyNot = RUNS,
) -> Tool:
    """The tool of that name, or the one that clearly fits the request best; one of the two is given.

    A name is an id, a call name, or the bare name of one tool only, whatever its case; the id of a skill means the tool
    that reads it. A request is clear if it is such a name, or if one tool is first by meaning and first by words, and
    ahead of all others by `CLEAR_LEAD`: so without a model none is. A tool that nothing runs (`why_not`) does not stand
    against one that runs. Raises InvalidQuery, UnknownName with the nearest names, AmbiguousTool with up to 5
    candidates.
    """
    if bool(name.strip()) == bool(query.strip()):
        raise InvalidQuery("say which tool: its `name`, or a `query` that says what it is to do, and not both")
    by_name, text = bool(name.strip()), (name if name.strip() else query).strip()
    if agent_ids is not None and not agent_ids:
        raise UnknownName("tool", _short(text), ())
    if (by_name or is_name_like(text)) and (pair := named_outright(registry, text, principal, agent_ids)):
        return pair[1]
    if by_name and (read := skill_read(registry, text, principal, agent_ids)):
        return read
    matches = _matches(registry, text, principal, agent_ids)
    if bearers := [match for match in matches if exactness(text, match.tool) < 4]:
        return _only(text, bearers, why_not)
    if by_name or not matches:
        raise _unknown(registry, text, principal, agent_ids)
    return _clearly_best(text, matches, why_not)


def is_exact_name(tool: Tool, name: str) -> bool:
    """Whether the tool was called by its own full name, as those must be that may destroy."""
    return exactness(name, tool) == 0


def _matches(
    registry: "Searchable", text: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> list[ToolMatch]:
    if not bare(text):
        return []
    among = None if agent_ids is None else sorted(agent_ids)
    # What is run must fit: where that is in doubt, nothing is run.
    route = registry.find_tools(Query(text=text, limit=BORNE_BY, strict=True), agent_ids=among, principal=principal)
    return exact_first(text, route.matches)


def _only(text: str, matches: Sequence[ToolMatch], why_not: WhyNot) -> Tool:
    """The one that is named most exactly. Raises AmbiguousTool."""
    best = exactness(text, matches[0].tool)
    same = [match for match in matches if exactness(text, match.tool) == best]
    same = [match for match in same if not why_not(match.agent)] or same
    if len(same) > 1:
        raise AmbiguousTool(_short(text), [match.tool.call_name for match in same[:CANDIDATES]])
    return same[0].tool


def _clearly_best(text: str, matches: Sequence[ToolMatch], why_not: WhyNot) -> Tool:
    """Raises AmbiguousTool."""
    choices = [match for match in matches if not why_not(match.agent)] or list(matches)
    idle = [match for match in matches if match not in choices]
    best, second = choices[0], choices[1].score if len(choices) > 1 else 0.0
    # Meaning and words must, each by itself, put this tool first: either alone is often wrong.
    is_first = all(_is_first(leg, best, idle) for leg in _AGREEING)
    if best.score - second >= CLEAR_LEAD * best.score and is_first:
        return best.tool
    raise AmbiguousTool(_short(text), [match.tool.call_name for match in choices[:CANDIDATES]])


def _is_first(leg: Leg, match: ToolMatch, idle: Sequence[ToolMatch]) -> bool:
    """Whether no tool stands before it in a leg but those that nothing runs."""
    rank = _rank(leg, match)
    return rank > 0 and rank == 1 + sum(0 < _rank(leg, each) < rank for each in idle)


def _rank(leg: Leg, match: ToolMatch) -> int:
    """0: the leg does not have it."""
    return next((vote.rank for vote in match.votes if (vote.leg, vote.entity_id) == (leg, match.tool.id)), 0)


def _unknown(
    registry: "Searchable", text: str, principal: Principal | None, agent_ids: frozenset[str] | None
) -> UnknownName:
    near = nearest(registry, text, principal, agent_ids) if bare(text) else []
    error = UnknownName("tool", _short(text), (), hint=f"Nearest: {', '.join(near)}." if near else "")
    error.name, error.nearest = text, tuple(near)
    return error


def _short(text: str) -> str:
    """Messages repeat what was asked, and a model pays for it; the error's own `name` is whole."""
    return text if len(text) <= TOLD_CHARS else text[: TOLD_CHARS - 1] + "…"
