"""What the turns before a request say of it: votes by what was called, and the words that it goes on from.

Calls count by name and outcome, never by what they gave: a result is no request. What the caller may not see counts as
what is not there, and what may not be found now gets no vote.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.access.visibility import routable, tools_within
from waygraph.registry.index.names import find_all_named
from waygraph.registry.index.search_index import Scope, SearchIndex
from waygraph.registry.model.errors import IndexOutdated
from waygraph.registry.model.nouns import Notice, Principal, Query, Turn
from waygraph.registry.model.transitions import Partner, owner_of
from waygraph.registry.routing.recipes import HistoryShares
from waygraph.registry.routing.votes import Weights

TOGETHER = "together"
"""The source of votes for tools that are called beside others; these others speak."""
TURN_CHARS = 400
"""So much of the end of an earlier turn is read: there the question stands that a request answers."""
LEAST_NEED = 0.1
"""Of a request that says all: so much still decides between agents that fit alike."""
MAX_NUMBERS = 10
"""Numbers of turns in a notice, at most."""


class Words(NamedTuple):
    """The `text` before a request; `is_answered`: the last of it is the assistant's, as in a dialogue."""

    text: str = ""
    is_answered: bool = False


NO_WORDS = Words()


class Worths(NamedTuple):
    """What each agent or tool gets by its id, best first; in a recipe's scale times the weight. `speakers`: ids of
    those who give it, in the same order; none: each itself.
    """

    source: str
    by_id: Mapping[str, float]
    weight: float
    speakers: tuple[str, ...] = ()

    @property
    def scores(self) -> NDArray[np.float64]:
        return np.asarray(list(self.by_id.values()))


class Past[T](NamedTuple):
    """What a history gives: `use` to agents, `finish` to tools that were called for the request under way (1) or before
    (0), `together` to tools that are often called beside the first ones. What follows the calls, as shares of the sum
    of all scores (`votes.share_of_sum`), and what failed at last (`votes.lift_rivals`), of agents and of tools.
    """

    use: T | None = None
    finish: T | None = None
    together: T | None = None
    agent_follows: T | None = None
    agent_failures: T | None = None
    tool_follows: T | None = None
    tool_failures: T | None = None


class _Call(NamedTuple):
    """`tool_id` empty: of the agent as a whole."""

    agent_id: str
    tool_id: str
    has_failed: bool
    is_under_way: bool
    is_done: bool
    """Whether it is known to be made for the request under way: of calls alone nobody knows where a request ends."""


def read_words(query: Query, shares: HistoryShares | None) -> Words:
    if shares is None:
        return NO_WORDS
    words = [turn for turn in query.history if turn.role != "call" and turn.text.strip()]
    if words and words[-1].text.strip() in (query.text.strip(), query.step_of.strip()):
        words.pop()  # hosts keep the request itself among their turns
    text = " ".join(turn.text[-TURN_CHARS:] for turn in words[-shares.topic_turns :])
    return Words(text, bool(words) and words[-1].role == "assistant")


def has_words(query: Query) -> bool:
    """Whether anything is known of a conversation but its calls."""
    return any(turn.role != "call" for turn in query.history)


def read_need(confidence: float | None, shares: HistoryShares, *, is_first: bool) -> float:
    """How much a request needs the calls before it, in (0, 1]. `confidence`: of its answer alone; None: unknown.

    `is_first`: there are none, so that all that is known is what is called at all; this parts only what fits alike.
    """
    if confidence is None or shares.sure <= shares.unsure:
        return LEAST_NEED if is_first else 1.0
    return min(1.0, max(LEAST_NEED, (shares.sure - confidence) / (shares.sure - shares.unsure)))


def read_calls(
    index: SearchIndex,
    query: Query,
    shares: HistoryShares,
    weights: Weights,
    principal: Principal | None,
    *,
    need: float,
) -> tuple[Past[Worths], tuple[Notice, ...]]:
    """What the calls before the query's text give, of what may be found. `need`: how much all but failures counts.

    To be asked after the search: the index is then not older than what was found. Raises IndexOutdated.
    """
    scope = Scope(query.filters, principal)
    calls, unknown = _read_calls(index, query, scope)
    ids = [call.tool_id or call.agent_id for call in reversed(calls)]
    follows = transitions.follows(ids, principal) if (transitions := index.transitions) else {}
    agents = _findable_agents(index, {*(call.agent_id for call in calls), *map(owner_of, follows)}, scope)
    tools = _findable_tools(index, {*(call.tool_id for call in calls if call.tool_id), *follows}, scope)
    follows = {each: chance for each, chance in follows.items() if each in tools or each in agents}
    agent_follows = dict.fromkeys(map(owner_of, follows), 0.0)
    for each, chance in follows.items():
        agent_follows[owner_of(each)] += chance
    rest = need * max(0.0, 1 - sum(agent_follows.values()))  # what counts say of staying is not said again
    use = {agent_id: rest * worth for agent_id, worth in _use(calls, shares).items() if agent_id in agents}
    failing_agents, failing_tools = (_failures(calls, field, shares.decay) for field in ("agent_id", "tool_id"))
    finishes = {call.tool_id: float(call.is_done) for call in reversed(calls)}
    finishes = _within(finishes, tools - failing_tools.keys())
    past = Past(
        use=_worths("used", use, weights["agent"]),
        finish=_worths("used", finishes, -weights["tool"] * shares.done),
        agent_follows=_worths("follows", agent_follows, need * shares.follows),
        agent_failures=_worths("failed", _within(failing_agents, agents), shares.failed),
        tool_follows=_worths("follows", follows, need * shares.follows),
        tool_failures=_worths("failed", _within(failing_tools, tools), shares.failed),
    )
    return past, _unknown_turns(unknown)


def read_partners(
    index: SearchIndex, query: Query, tools: Sequence[str], weight: float, principal: Principal | None
) -> tuple[Worths | None, Mapping[str, Partner]]:
    """What conversations call beside the first tools, of what may be found: what each gets, and why. Raises
    IndexOutdated.

    `weight`: what a partner gets that is always called with one of them.
    """
    partners = transitions.partners(tools, principal) if (transitions := index.transitions) else {}
    if not partners:
        return None, {}
    shares = {each: partner.share for each, partner in partners.items()}
    shares = _within(shares, _findable_tools(index, shares, Scope(query.filters, principal)))
    worths = _worths(TOGETHER, shares, weight)
    return worths and worths._replace(speakers=tuple(partners[each].tool for each in worths.by_id)), partners


def _read_calls(index: SearchIndex, query: Query, scope: Scope) -> tuple[list[_Call], list[int]]:
    """The calls of what the caller sees, latest first, and the numbers of the turns that name nothing so, from 1."""
    history, knows_words = query.history, has_words(query)
    calls = [(at, turn) for at, turn in enumerate(history, start=1) if turn.role == "call"]
    last_answer = max((at for at, turn in enumerate(history, start=1) if turn.role == "assistant"), default=0)
    ids_by_name = find_all_named(index, {turn.tool: None for _, turn in calls}, scope.principal) if calls else {}
    read = [
        _Call(*ids_by_name[turn.tool], turn.outcome == "failed", at > last_answer, knows_words and at > last_answer)
        for at, turn in calls
        if turn.tool in ids_by_name
    ]
    return read[::-1], [at for at, turn in calls if turn.tool not in ids_by_name]


def name_calls_by_ids(index: SearchIndex, history: Sequence[Turn], principal: Principal | None) -> tuple[Turn, ...]:
    """The same turns, their calls by the id of what they name, where the caller sees it."""
    calls = {turn.tool: None for turn in history if turn.role == "call"}
    ids_by_name = find_all_named(index, calls, principal) if calls else {}
    ids = {name: tool_id or agent_id for name, (agent_id, tool_id) in ids_by_name.items()}
    return tuple(replace(turn, tool=ids.get(turn.tool, turn.tool)) for turn in history)


def _failures(calls: Iterable[_Call], field: str, decay: float) -> dict[str, float]:
    """Of each agent or tool whose latest calls failed, how much of that is left: of calls latest first."""
    rests: dict[str, float] = {}
    has_worked: set[str] = set()
    for back, call in enumerate(calls):
        name = getattr(call, field)
        if not call.has_failed:
            has_worked.add(name)
        elif name and name not in has_worked:
            rests[name] = rests.get(name, 0.0) + decay**back
    return rests


def _within(worths: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    return {name: worth for name, worth in worths.items() if name in names}


def _use(calls: Sequence[_Call], shares: HistoryShares) -> dict[str, float]:
    """What each agent gets by its latest call that did not fail, less with each such call since."""
    worths: dict[str, float] = {}
    for back, call in enumerate(call for call in calls if not call.has_failed):
        share = shares.under_way if call.is_under_way else shares.used
        worths.setdefault(call.agent_id, share * shares.decay**back)
    return worths


def _findable_agents(index: SearchIndex, ids: Collection[str], scope: Scope) -> frozenset[str]:
    agents = index.agents()
    return frozenset(each for each in ids if each in agents and routable(agents[each], scope.principal, scope.filters))


def _findable_tools(index: SearchIndex, ids: Collection[str], scope: Scope) -> frozenset[str]:
    """Those that are there, and that a search in the scope may find. Raises IndexOutdated."""
    owners = sorted(_findable_agents(index, set(map(owner_of, ids)), scope))
    tool_ids = frozenset(chain.from_iterable(index.tool_ids_of(owners).values())) if owners else frozenset()
    tool_ids = tool_ids if (within := tools_within(scope.filters)) is None else tool_ids.intersection(within)
    try:
        return frozenset(tool.id for tool in index.tools(sorted(tool_ids.intersection(ids))) if not tool.pending)
    except KeyError:  # gone since, on a server
        raise IndexOutdated from None


def _worths(source: str, by_id: Mapping[str, float], weight: float) -> Worths | None:
    """None where nobody gets anything. Of equal ones the first by id is first."""
    ids = sorted(by_id, key=lambda each: (-by_id[each], each))
    return Worths(source, {each: by_id[each] for each in ids}, weight) if ids else None


def _unknown_turns(turns: Sequence[int]) -> tuple[Notice, ...]:
    """The same of what is hidden from the caller and of what there is not."""
    if not turns:
        return ()
    numbers = ", ".join(map(str, turns[:MAX_NUMBERS])) + (", …" if len(turns) > MAX_NUMBERS else "")
    text = f"Calls of the history name no agent and no tool that is known here, and do not count: turns {numbers}."
    return (Notice(code="history", text=text),)
