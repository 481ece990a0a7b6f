"""What the turns before a request say of it: votes by what was called, and the words that it goes on from.

Calls count by name and outcome, never by what they gave: a result is no request. What the caller may not see counts as
what is not there, and what may not be found now gets no vote.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from waygraph.registry.access.visibility import routable, tools_within
from waygraph.registry.index.names import find_all_named
from waygraph.registry.index.search_index import LegHits, Scope, SearchIndex
from waygraph.registry.model.errors import IndexOutdated
from waygraph.registry.model.nouns import Principal, Query, Turn
from waygraph.registry.routing.fusion import Standing, Weights
from waygraph.registry.routing.recipes import HistoryShares

TURN_CHARS = 400
"""So much of the end of an earlier turn is read: there the question stands that a request answers."""
MAX_NUMBERS = 10
"""Numbers of turns in a notice, at most."""


class Words(NamedTuple):
    """The `text` before a request; `is_answered`: the last of it is the assistant's, as in a dialogue."""

    text: str = ""
    is_answered: bool = False


NO_WORDS = Words()


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a history gives to `agents`, to `tools` and their agents, and against the tools that failed (`failures`).

    `silent`: tools that were called for the request under way; they do not speak for their agents again. `fit`: of what
    agents and tools get, that which the request gives by itself.
    """

    agents: tuple[Standing, ...] = ()
    tools: tuple[Standing, ...] = ()
    failures: Standing | None = None
    silent: frozenset[str] = frozenset()
    fit: tuple[Standing, ...] = ()
    words: Words = NO_WORDS
    notice: str = ""

    def has_failed(self, tool_id: str) -> bool:
        return self.failures is not None and tool_id in self.failures.parts


class _Call(NamedTuple):
    """`tool_id` empty: of the agent as a whole."""

    agent_id: str
    tool_id: str
    has_failed: bool
    is_under_way: bool


def read_words(query: Query, shares: HistoryShares | None) -> Words:
    if shares is None:
        return NO_WORDS
    words = [turn for turn in query.history if turn.role != "call" and turn.text.strip()]
    if words and words[-1].text.strip() == query.text.strip():
        words.pop()  # hosts keep the request itself among their turns
    text = " ".join(turn.text[-TURN_CHARS:] for turn in words[-shares.topic_turns :])
    return Words(text, bool(words) and words[-1].role == "assistant")


def read_calls(
    index: SearchIndex, query: Query, shares: HistoryShares, weights: Weights, principal: Principal | None
) -> Past:
    """What the calls before the query's text give, of what may be found. Raises IndexOutdated.

    To be asked after the search: the index is then not older than what was found.
    """
    history, scope = query.history, Scope(query.filters, principal)
    calls, unknown = _read_calls(index, history, scope)
    follows = _follow(index, calls, scope)
    by_agent, by_tool = _latest(calls, "agent_id"), _latest(calls, "tool_id")
    agents = _findable_agents(index, {*by_agent, *map(_owner, follows)}, scope)
    tools = _findable_tools(index, {*by_tool, *follows}, scope)
    follows = {each: chance for each, chance in follows.items() if each in tools or each in agents}
    agent_follows = dict.fromkeys(map(_owner, follows), 0.0)
    for each, chance in follows.items():
        agent_follows[_owner(each)] += chance
    follows = {each: chance for each, chance in follows.items() if each in tools}
    used_agents = {agent_id: worth for agent_id, worth in _use(calls, shares).items() if agent_id in agents}
    failing = {agent_id: 1.0 for agent_id, call in by_agent.items() if call.has_failed and agent_id in agents}
    failed_tools = {tool_id: 1.0 for tool_id, call in by_tool.items() if call.has_failed and tool_id in tools}
    called_tools = {
        tool_id: float(by_tool[tool_id].is_under_way) for tool_id in by_tool if tool_id in tools - failed_tools.keys()
    }
    of_agent, of_tool = weights["agent"], weights["tool"]
    for_agents = (
        *_standing("used", used_agents, of_agent),
        *_standing("failed", failing, -of_agent * shares.failed / 2),
        *_standing("follows", agent_follows, of_agent * shares.follows),
    )
    for_tools = (
        *_standing("used", called_tools, -of_tool * shares.done),
        *_standing("follows", follows, of_tool * shares.follows),
    )
    return Past(
        agents=for_agents,
        tools=(*for_agents, *for_tools),
        silent=frozenset(tool_id for tool_id, is_under_way in called_tools.items() if is_under_way),
        failures=next(_standing("failed", failed_tools, -of_tool * shares.failed), None),
        notice=_unknown_notice(unknown),
    )


def _read_calls(index: SearchIndex, history: Sequence[Turn], scope: Scope) -> tuple[list[_Call], list[int]]:
    """The calls of what the caller sees, latest first, and the numbers of the turns that name nothing so, from 1."""
    calls = [(at, turn) for at, turn in enumerate(history, start=1) if turn.role == "call"]
    last_answer = max((at for at, turn in enumerate(history, start=1) if turn.role == "assistant"), default=0)
    ids_by_name = find_all_named(index, {turn.tool: None for _, turn in calls}, scope.principal) if calls else {}
    read = [
        _Call(*ids_by_name[turn.tool], turn.outcome == "failed", at > last_answer)
        for at, turn in calls
        if turn.tool in ids_by_name
    ]
    return read[::-1], [at for at, turn in calls if turn.tool not in ids_by_name]


def _latest(calls: Iterable[_Call], field: str) -> dict[str, _Call]:
    """Of each agent or tool the latest call; of calls latest first."""
    latest: dict[str, _Call] = {}
    for call in calls:
        if name := getattr(call, field):
            latest.setdefault(name, call)
    return latest


def _use(calls: Sequence[_Call], shares: HistoryShares) -> dict[str, float]:
    """What each agent gets by its latest call that did not fail."""
    worths: dict[str, float] = {}
    for back, call in enumerate(calls):
        if not call.has_failed:
            share = shares.under_way if call.is_under_way else shares.used
            worths.setdefault(call.agent_id, share * shares.decay**back)
    return worths


def _follow(index: SearchIndex, calls: Sequence[_Call], scope: Scope) -> Mapping[str, float]:
    """The chance of each next tool, and of agents where it is left open which of their tools it is."""
    ids = [call.tool_id or call.agent_id for call in reversed(calls)]
    transitions = index.transitions if ids else None
    return transitions.follows(ids, scope.principal) if transitions else {}


def _findable_agents(index: SearchIndex, ids: Collection[str], scope: Scope) -> frozenset[str]:
    agents = index.agents()
    return frozenset(each for each in ids if each in agents and routable(agents[each], scope.principal, scope.filters))


def _findable_tools(index: SearchIndex, ids: Collection[str], scope: Scope) -> frozenset[str]:
    """Those that are there, and that a search in the scope may find. Raises IndexOutdated."""
    owners = sorted(_findable_agents(index, set(map(_owner, ids)), scope))
    tool_ids = frozenset(chain.from_iterable(index.tool_ids_of(owners).values())) if owners else frozenset()
    tool_ids = tool_ids if (within := tools_within(scope.filters)) is None else tool_ids.intersection(within)
    try:
        return frozenset(tool.id for tool in index.tools(sorted(tool_ids.intersection(ids))) if not tool.pending)
    except KeyError:  # gone since, on a server
        raise IndexOutdated from None


def _owner(tool_id: str) -> str:
    return tool_id.partition("/")[0]


def _standing(leg: str, worths: Mapping[str, float], weight: float) -> Iterator[Standing]:
    """One, or none where nobody gets anything; best first."""
    if not worths:
        return
    ids = sorted(worths, key=lambda each: (-worths[each], each))
    hits = LegHits(ids, [_owner(each) for each in ids], [worths[each] for each in ids])
    parts = {each: weight * worths[each] for each in ids}
    yield Standing(leg, hits, ids, weight, parts, may_bring=leg != "failed")


def _unknown_notice(turns: Sequence[int]) -> str:
    """The same of what is hidden from the caller and of what there is not."""
    if not turns:
        return ""
    numbers = ", ".join(map(str, turns[:MAX_NUMBERS])) + (", …" if len(turns) > MAX_NUMBERS else "")
    return f"Calls of the history name no agent and no tool that is known here, and do not count: turns {numbers}."
