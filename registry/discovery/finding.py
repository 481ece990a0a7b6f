"""find_tools: what a language model is told that fits its request, in as few words as it needs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from waygraph.registry.discovery.described import DETAILS, Detail, described
from waygraph.registry.discovery.judging import Judging, judging
from waygraph.registry.discovery.naming import (
    BORNE_BY,
    exact_first,
    exactness,
    is_name_like,
    named_outright,
    nearest,
)
from waygraph.registry.discovery.overview import overview
from waygraph.registry.errors import InvalidQuery, UnknownName
from waygraph.registry.formats import TOOL_FORMATS, ToolFormat
from waygraph.registry.model import Agent, Principal, Tool, ToolMatch
from waygraph.registry.policy import CallPolicy, Judgement, danger_of
from waygraph.registry.routing.recipes import DEFAULT_RECIPE
from waygraph.registry.statuses import reachable

if TYPE_CHECKING:
    from waygraph.registry.model import ToolRoute
    from waygraph.registry.registry import Registry

DEFAULT_LIMIT, MAX_LIMIT = 5, 50
SPARE = 5
"""So many more are read than wanted, in the place of those that may not be called."""
FAR = 100
"""The same, where those do not suffice."""
REFUSED_TOLD = 5
STATUS_CHARS = 120
NO_AGENTS = "no agent is in this namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindAsked:
    """What is asked. `limit` 1 to 50; `known`: tool's call name or id → version that the caller has.

    `agent_ids`: only the tools of these; None: of all, an empty set: of none. `use_tool`: whether the caller can run
    what it finds by the tool of that name.
    """

    query: str = ""
    limit: int = DEFAULT_LIMIT
    detail: Detail = "summary"
    known: Mapping[str, str] = field(default_factory=dict)
    tool_format: ToolFormat = "mcp"
    agent_ids: frozenset[str] | None = None
    recipe: str = DEFAULT_RECIPE
    use_tool: bool = True


WhyNot = Callable[[Agent], str]
"""Why nothing runs the tools of an agent; empty: they can be tried."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A tool that fits, whether it may be called by its name, and why it could not be run all the same."""

    agent: Agent
    tool: Tool
    judgement: Judgement
    why_not: str


def find(
    registry: "Registry",
    asked: FindAsked,
    *,
    principal: Principal | None = None,
    policy: CallPolicy | None = None,
    why_not: WhyNot = lambda _: "",
) -> dict[str, Any]:
    """The answer, as JSON has it: `tools`, best first; `not_callable`, what fits as well and why it cannot be called
    (`not_callable_more`: how many beside those); `hint`, what to do next. Nothing found: `reason` and `nearest`. An
    empty query: `overview`. A tool that nothing runs here says so (`cannot_run`); where it is all of them, `hint` does.

    What has nothing to tell is left out. Raises InvalidQuery, UnknownName of another format, and what
    `Registry.find_tools` raises.
    """
    _check(asked)
    if not asked.query.strip():
        return _surveyed(registry, asked, principal)
    if asked.agent_ids is not None and not asked.agent_ids:
        return {"tools": [], "reason": NO_AGENTS}
    judges = judging(registry, policy, principal)
    found = _found(registry, asked, principal, asked.limit + SPARE)
    judged = _judged(registry, asked, found.matches, judges, why_not)
    if len(found.matches) >= asked.limit + SPARE and _callable(judged) < asked.limit:
        found = _found(registry, asked, principal, asked.limit + FAR)
        judged = _judged(registry, asked, found.matches, judges, why_not)
    return _told(asked, judged) if judged else _nothing(registry, asked, principal, found)


def _check(asked: FindAsked) -> None:
    limit: object = asked.limit
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidQuery(f"limit must be a whole number from 1 to {MAX_LIMIT}, not {limit!r}")
    if asked.detail not in DETAILS:
        raise InvalidQuery(f"detail is one of {', '.join(DETAILS)}, not {asked.detail!r}")
    if asked.tool_format not in TOOL_FORMATS:
        raise UnknownName("tool format", str(asked.tool_format), TOOL_FORMATS)
    if not isinstance(asked.query, str):
        raise InvalidQuery("query must be a text")


def _found(registry: "Registry", asked: FindAsked, principal: Principal | None, limit: int) -> "ToolRoute":
    return registry.find_tools(
        asked.query,
        limit=max(limit, BORNE_BY) if is_name_like(asked.query) else limit,
        agent_ids=None if asked.agent_ids is None else sorted(asked.agent_ids),
        recipe=asked.recipe,
        principal=principal,
    )


def _callable(judged: Sequence[_Judged]) -> int:
    return sum(each.judgement.verdict != "deny" for each in judged)


def _judged(
    registry: "Registry", asked: FindAsked, matches: Sequence[ToolMatch], judges: Judging, why_not: WhyNot
) -> list[_Judged]:
    """In order; a tool that is named outright and waits for approval, which no search finds, before all others."""
    pairs = [(match.agent, match.tool) for match in exact_first(asked.query, matches)]
    if is_name_like(asked.query) and not (pairs and exactness(asked.query, pairs[0][1]) == 0):
        named = named_outright(registry, asked.query, judges.principal, asked.agent_ids)
        pairs = [named, *pairs] if named else pairs
    return [_Judged(agent, tool, judges.judge(agent, tool, by_name=True), why_not(agent)) for agent, tool in pairs]


def _told(asked: FindAsked, judged: Sequence[_Judged]) -> dict[str, Any]:
    """As many as wanted that may be called, and those that may not among the best or between them."""
    places = [place for place, each in enumerate(judged) if each.judgement.verdict != "deny"][: asked.limit]
    last = max(asked.limit, places[-1] + 1) if len(places) == asked.limit else len(judged)
    refused = [each for each in judged[:last] if each.judgement.verdict == "deny"]
    given = [judged[place] for place in places]
    some_run = not all(each.why_not for each in given)
    answer: dict[str, Any] = {"tools": [_entry(asked, each, tell_why_not=some_run) for each in given]}
    if refused:
        told = refused[:REFUSED_TOLD]
        answer["not_callable"] = [{"name": each.tool.call_name, "why": each.judgement.reason} for each in told]
    if len(refused) > REFUSED_TOLD:
        answer["not_callable_more"] = len(refused) - REFUSED_TOLD
    if given:
        answer["hint"] = _hint(asked) if some_run else _none_runs(given)
    return answer


def _entry(asked: FindAsked, each: _Judged, *, tell_why_not: bool) -> dict[str, Any]:
    tool = each.tool
    known = asked.known.get(tool.call_name) or asked.known.get(tool.id) or ""
    told = described(tool, asked.detail, asked.tool_format, known)
    if each.why_not and tell_why_not:
        told["cannot_run"] = each.why_not
    if asked.detail == "names":
        return told
    if each.judgement.verdict == "ask":
        told["consent"] = "asked of a person at each call"
    if danger_of(each.agent, tool) == "destructive":
        told["destructive"] = True
    if not reachable(each.agent.status):
        told["status"] = _cut(each.agent.status)  # of when it was last asked: a call may yet succeed
    return told


def _cut(status: str) -> str:
    return status if len(status) <= STATUS_CHARS else status[: STATUS_CHARS - 1] + "…"


def _hint(asked: FindAsked) -> str:
    run = "run one with use_tool(name=…, params=…)" if asked.use_tool else "call one by its name"
    if asked.detail == "schema":
        return run
    return f'{run}; detail="schema" tells its parameters in full'


def _none_runs(given: Iterable[_Judged]) -> str:
    return f"none of these can be run from here: {'; '.join(dict.fromkeys(each.why_not for each in given))}"


def _surveyed(registry: "Registry", asked: FindAsked, principal: Principal | None) -> dict[str, Any]:
    hint = "say in `query` what you want to do, or name a tool, to find those that fit"
    return {"overview": overview(registry, principal, asked.agent_ids), "hint": hint}


def _nothing(registry: "Registry", asked: FindAsked, principal: Principal | None, found: "ToolRoute") -> dict[str, Any]:
    near = nearest(registry, asked.query, principal, asked.agent_ids)
    answer: dict[str, Any] = {"tools": [], "reason": found.reason}
    if near:
        answer |= {"nearest": near, "hint": "these are the nearest: if one is meant, find it by its name"}
    if found.notice:
        answer["notice"] = found.notice
    return answer
