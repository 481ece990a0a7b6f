"""Tools that are named outright, and names that are near to one that nobody bears."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from waygraph.registry.index.analyser import AROUND_NAMES, MAX_NAMED_CHARS
from waygraph.registry.index.search_index import Leg
from waygraph.registry.model.errors import AmbiguousTool, InvalidQuery, UnknownName, likeness
from waygraph.registry.model.identity import call_name, tool_id
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Tool, ToolMatch, ToolRoute
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, HYBRID, LEXICAL, TOOLS, Recipe

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


class SearchScope(NamedTuple):
    """Of a registry what the principal may see, of these agents alone; `agent_ids` None: of all."""

    registry: "Searchable"
    principal: Principal | None
    agent_ids: frozenset[str] | None

    def allows(self, tool: Tool) -> bool:
        return self.agent_ids is None or tool.agent_id in self.agent_ids

    def find_tools(self, query: Query, recipe: str | Recipe = DEFAULT_RECIPE) -> ToolRoute:
        agent_ids = None if self.agent_ids is None else sorted(self.agent_ids)
        return self.registry.find_tools(query, agent_ids=agent_ids, recipe=recipe, principal=self.principal)

    def tool(self, name: str) -> Tool:
        return self.registry.tool(name, principal=self.principal)

    def owner_of(self, tool: Tool) -> Agent:
        """Raises UnknownName, also for a hidden agent: an operator took it away from all who ask."""
        agent = self.registry.agent(tool.agent_id, principal=self.principal)
        if agent.hidden:
            raise UnknownName("tool", tool.call_name, ())
        return agent


def named_outright(scope: SearchScope, name: str) -> tuple[Agent, Tool] | None:
    """The tool of exactly this id or call name, also one that waits for approval, and its agent."""
    for each in _readings(name):
        if len(each) > MAX_NAMED_CHARS or ("/" not in each and "__" not in each):
            continue
        try:
            tool = scope.tool(each)
            if scope.allows(tool):
                return scope.owner_of(tool), tool
        except UnknownName:
            continue
    return None


def nearest(scope: SearchScope, query: str, *, steps: tuple[str, ...] = (), within: str = "") -> list[str]:
    """Call names of what is nearest to the query by meaning or words, to a name by its letters; best first.

    `within`: of this category alone, in which no name is looked up by its spelling.
    """
    full_query = Query(text=query, steps=steps, limit=_NEAR_READ, filters=Filters(within=within))
    try:
        matches = scope.find_tools(full_query, _BY_MEANING).matches or scope.find_tools(full_query, _BY_WORDS).matches
    except InvalidQuery:  # of a service, which takes recipes by name
        matches = scope.find_tools(full_query, TOOLS.name).matches
    names = [match.tool.call_name for match in matches]
    if is_name_like(query):
        names = _by_letters(bare(query), matches)
        if not (names or within):
            names = _by_spelling(scope, bare(query))
    return names[:NEAREST]


def _by_spelling(scope: SearchScope, name: str) -> list[str]:
    """What the registry itself takes for meant: without vectors no search finds a misspelt name."""
    registry, principal, _ = scope
    near: list[Agent | Tool] = []
    try:
        near = [scope.tool(name)]
    except UnknownName as unknown:
        near = [registry.lookup(each, principal=principal) for each in unknown.nearest]
    candidates = [each for each in near if isinstance(each, Tool) and scope.allows(each)]
    return [each.call_name for each in candidates if not registry.agent(each.agent_id, principal=principal).hidden]


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


def skill_read(scope: SearchScope, name: str) -> Tool | None:
    """The tool that reads the skill of this id, or whose own id or call name this is. Raises UnknownName if it is of a
    hidden one.
    """
    for entry in scope.registry.agents_page(filters=Filters(kinds=("skill",)), principal=scope.principal).items:
        tool = reading_tool(entry.agent)
        if name in (entry.agent.id, tool.id, tool.call_name) and scope.allows(tool):
            scope.owner_of(tool)
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
    scope = SearchScope(registry, principal, agent_ids)
    if (by_name or is_name_like(text)) and (pair := named_outright(scope, text)):
        return pair[1]
    if by_name and (read := skill_read(scope, text)):
        return read
    # What is run must fit: where that is in doubt, nothing is run.
    full_query = Query(text=text, limit=BORNE_BY, strict=True)
    matches = exact_first(text, scope.find_tools(full_query).matches) if bare(text) else []
    if bearers := [match for match in matches if exactness(text, match.tool) < 4]:
        return _only(text, bearers, why_not)
    if by_name or not matches:
        raise _unknown(scope, text)
    return _clearly_best(text, matches, why_not)


def is_exact_name(tool: Tool, name: str) -> bool:
    """Whether the tool was called by its own full name, as those must be that may destroy."""
    return exactness(name, tool) == 0


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


def _unknown(scope: SearchScope, text: str) -> UnknownName:
    near = nearest(scope, text) if bare(text) else []
    error = UnknownName("tool", _short(text), (), hint=f"Nearest: {', '.join(near)}." if near else "")
    error.name, error.nearest = text, tuple(near)
    return error


def _short(text: str) -> str:
    """Messages repeat what was asked, and a model pays for it; the error's own `name` is whole."""
    return text if len(text) <= TOLD_CHARS else text[: TOLD_CHARS - 1] + "…"
