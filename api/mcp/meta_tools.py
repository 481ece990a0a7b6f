"""The tools that the gateway itself has, and what those answer that only ask: find_tools, route and route_agents."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata, resources
from time import perf_counter
from typing import Any, cast

from waygraph.api.mcp import EXECUTE, Surface
from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.offers import Kind, find_offers
from waygraph.api.mcp.results import Result, told_as_text
from waygraph.api.mcp.sessions import Asker
from waygraph.api.telemetry.logs import without_secrets
from waygraph.ingest.manifest.own_gateway import NAME
from waygraph.registry.catalog import find
from waygraph.registry.catalog.resolve import WhyNot, reading_tool
from waygraph.registry.catalog.tool_formats import Detail, summary
from waygraph.registry.model.arguments import Mending, check_arguments, mend_arguments, unknown_name
from waygraph.registry.model.errors import InvalidArguments
from waygraph.registry.model.nouns import AgentMatch, Filters, Mode, Notice, Query, Tool, Turn
from waygraph.registry.model.parameters import parameters_of_text
from waygraph.registry.model.validation import read_history
from waygraph.registry.routing.notices import failure

IDENTITY = {"name": NAME, "title": "Waygraph"}
FIND_TOOLS, ROUTE, ROUTE_AGENTS, RUN_CODE = "find_tools", "route", "route_agents", "run_code"
AGENTS, MAX_STEPS, MAX_CODE_CHARS = 5, 50, 32_000
RFC_LIMIT = 5
"""As the RFC has it, which sends whole schemas."""
_IN_NUMBERS = "An empty query tells what there is, in numbers."
_IN_CATEGORIES = "An empty query browses: `within` opens what it lists."
_WITHIN = {"type": "string", "description": "Category, as travel/flights"}
_MODE = {"type": "string", "enum": [*Mode]}
"""It tells itself: a description would cost every request of a host 14 tokens."""
BY_TAXONOMY: Mapping[str, Mapping[str, Any]] = {
    FIND_TOOLS: {"within": _WITHIN, "offset": {"type": "integer"}},
    ROUTE_AGENTS: {"within": _WITHIN},
}
"""What a meta-tool takes besides, where there is a taxonomy."""
BY_WALK: Mapping[str, Mapping[str, Any]] = {FIND_TOOLS: {"mode": _MODE}}
"""And where the operator has a model walk it."""
_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "limit": {"minimum": 1},
    "steps": {"maxItems": MAX_STEPS},
    "code": {"maxLength": MAX_CODE_CHARS},
    "known": {"additionalProperties": {"type": ["string", "number", "null"]}},
}
"""Of what a meta-tool takes, beside what hosts are told, which costs each of their requests tokens."""

type Definition = dict[str, Any]
type Arguments = Mapping[str, Any]
type Question = Callable[[Gateway, Asker, Arguments], Awaitable[Result]]


@cache
def _surfaces() -> Mapping[str, Any]:
    """Instructions and definitions, as hosts get them, by surface."""
    surfaces: Mapping[str, Any] = json.loads(resources.files(__package__).joinpath("meta_tools.json").read_bytes())
    return surfaces


@cache
def version() -> str:
    return metadata.version("waygraph")


def instructions(surface: Surface) -> str:
    return str(_surfaces()[surface]["instructions"])


def meta_tools(
    surface: Surface, *, browses: bool = False, walks: bool = False, runs_code: bool = False
) -> list[Definition]:
    """In the order in which they are listed. `browses`: whether there is a taxonomy; `walks`: and a model for it."""
    more = _surfaces()["code"]["tools"] if runs_code and surface == "default" else ()
    tools: list[Definition] = [*_surfaces()[surface]["tools"], *more]
    return [_with_taxonomy(tool, walks) for tool in tools] if browses and surface == "default" else tools


def _with_taxonomy(tool: Definition, walks: bool) -> Definition:
    name = tool["name"]
    if name not in BY_TAXONOMY:
        return tool
    schema = tool["inputSchema"]
    description = tool["description"].replace(_IN_NUMBERS, _IN_CATEGORIES)
    properties = schema["properties"] | BY_TAXONOMY[name] | (BY_WALK.get(name, {}) if walks else {})
    return tool | {"description": description, "inputSchema": schema | {"properties": properties}}


@cache
def _form(tool: str) -> Tool | None:
    """A meta-tool by which arguments are checked: with what it takes on any surface; None for a tool that is none."""
    definitions = [each for surface in _surfaces().values() for each in surface["tools"] if each["name"] == tool]
    if not definitions:
        return None
    beside: Definition = {**BY_TAXONOMY.get(tool, {}), **BY_WALK.get(tool, {})}
    properties = {name: each for one in definitions for name, each in one["inputSchema"]["properties"].items()} | beside
    properties = {name: each | _BOUNDS.get(name, {}) for name, each in properties.items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return Tool(id=tool, agent_id="", name=tool, call_name=tool, input_schema=json.dumps(schema))


def is_meta_tool(name: str) -> bool:
    return _form(name) is not None


def read_arguments(tool: str, arguments: Arguments) -> tuple[Arguments, tuple[Mending, ...]]:
    """Those of a meta-tool, each of the type that it takes, and what was mended for that. Raises InvalidArguments, also
    for what is not known: it may matter, and a tool would run without what was meant for it. An empty choice is none.
    """
    form = _form(tool)
    assert form is not None, tool  # noqa: S101 - a name of ours
    properties = parameters_of_text(form.input_schema).properties
    arguments, mendings = mend_arguments(form, arguments)
    arguments = {key: each for key, each in arguments.items() if each != "" or "enum" not in properties.get(key, {})}
    unknown = arguments.keys() - properties
    if len(unknown) == 1 and "query" not in arguments and "query" in properties and "params" not in properties:
        reason = unknown_name(name := unknown.pop(), properties)
        hint = "" if "did you mean" in reason else '; did you mean "query"?'
        raise InvalidArguments(tool, [(f"/{name}", f"{reason}{hint}")])
    check_arguments(form, arguments)
    return arguments, mendings


SENT_BEFORE = "tools marked unchanged were sent to you before; known={} has all of it sent again"


def questions(surface: Surface) -> Mapping[str, Question]:
    """The meta-tools that only ask, by name."""
    if surface == "router":
        return {ROUTE: route_tool}
    return {FIND_TOOLS: find_tools} if surface == "rfc" else {FIND_TOOLS: find_tools, ROUTE_AGENTS: route_agents}


async def find_tools(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """Raises what finding raises."""
    asker.caller.require("route")
    arguments, _ = read_arguments(FIND_TOOLS, arguments)
    query, is_rfc = arguments.get("query", ""), gateway.surface == "rfc"
    if (kind := arguments.get("kind", "tool")) != "tool":
        asker.caller.require("use")
        if is_rfc:
            raise InvalidArguments(FIND_TOOLS, [("/kind", "tool: nothing else is found here")])
        limit = arguments.get("limit", find.DEFAULT_LIMIT)
        return told_as_text(await find_offers(gateway, asker, cast("Kind", kind), query, limit))
    detail = "schema" if is_rfc else arguments.get("detail", "summary")
    if (mode := arguments.get("mode")) and not gateway.settings.walk:
        raise InvalidArguments(FIND_TOOLS, [("/mode", "nothing: no language model walks a taxonomy here")])
    remembers = "known" not in arguments
    versions = asker.session.known_versions if remembers else arguments["known"]
    known = {name: str(version) for name, version in versions.items()}
    history, steps = _history(asker, arguments, FIND_TOOLS), tuple(arguments.get("steps", ()))

    def answer_find() -> find.FindAnswer:
        return _answer(
            gateway,
            asker,
            Mode(mode or Mode.ALL),
            query=query,
            steps=steps,
            limit=arguments.get("limit", RFC_LIMIT if is_rfc else find.DEFAULT_LIMIT),
            detail=cast("Detail", detail),
            known=known,
            within=arguments.get("within", ""),
            browses=gateway.surface == "default",
            offset=arguments.get("offset", 0),
            run_by=gateway.runner,
            tells_selection=mode is not None,
            history=history,
        )

    answer = await gateway.ask(answer_find)
    tools = answer.tools if isinstance(answer, find.ToolsAnswer) else ()
    _mark_failures(asker, tools)
    if detail != "names":
        asker.session.note_sent(tools)
    facts = _drop_session_notice(answer.as_json(), arguments)
    if remembers and any(tool.get("unchanged") for tool in tools):
        facts["notices"] = [*facts.get("notices", ()), {"code": "sent_before", "text": SENT_BEFORE}]
    return told_as_text(facts)


def _answer(gateway: Gateway, asker: Asker, mode: Mode | None, **request: Any) -> find.FindAnswer:
    """`request`: fields of FindAsked. Raises what finding raises."""
    registry, within = gateway.view(asker)
    from waygraph.ingest.hosts.hosts import title_of

    logins = gateway.executor.logins

    def login_of(agent_id: str) -> str:
        is_in = logins is None or not logins.lacks_login(asker.call_caller, agent_id)
        return "" if is_in else asker.needs_login("", agent_id).way

    recipe = gateway.recipe_of(mode)
    asked = find.FindAsked(agent_ids=within, recipe=recipe, title_of=title_of, login_of=login_of, **request)
    why_not = gateway.reach.now().why_not
    start_s = perf_counter()
    answer = find.answer_request(registry, asked, principal=asker.principal, policy=gateway.policy, why_not=why_not)
    is_answered = isinstance(answer, find.ToolsAnswer) and bool(answer.tools)
    _note_request(gateway, asker, asked.query, start_s, is_answered=is_answered)
    return answer


def _note_request(gateway: Gateway, asker: Asker, text: str, start_s: float, *, is_answered: bool) -> None:
    if gateway.usage and text.strip():
        took_s = perf_counter() - start_s
        gateway.usage.note_request(without_secrets(text), asker.caller.id, took_s, is_answered=is_answered)


async def route_tool(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """The best tool that can be run here, with its schema; the best one at all, and why not, if none can. If an agent
    without tools fits better than every tool, that agent.

    A walk for the single best may select what cannot be run, or failed before: then it is as if none was made. A tool
    that failed twice in a row gives way to the best other one. Raises what finding raises.
    """
    asker.caller.require("route")
    arguments, _ = read_arguments(ROUTE, arguments)
    query, history = arguments.get("query", ""), _history(asker, arguments, ROUTE)

    def find_best(mode: Mode | None) -> find.ToolsAnswer:
        answer = _answer(gateway, asker, mode, query=query, detail="schema", run_by=EXECUTE, history=history)
        answer = answer if isinstance(answer, find.ToolsAnswer) else find.ToolsAnswer((), answer.facts)
        _mark_failures(asker, answer.tools)
        return answer

    def answer_route() -> dict[str, Any]:
        answer = find_best(Mode.ONE)
        is_walked = all(each["code"] != "not_walked" for each in answer.facts.get("notices", ()))
        if gateway.settings.walk and is_walked and not _is_usable(answer):
            other = find_best(None)
            answer = _with_notice(other, failure("not_walked", UNUSABLE)) if _is_usable(other) else answer
        if agent := _better_agent(gateway, asker, answer):
            return agent
        failures = _find_failures(gateway, asker, history if "history" in arguments else None, answer.tools)
        best = min(answer.tools, key=lambda tool: ("cannot_run" in tool, tool["name"] in failures), default=None)
        if best is None:
            return dict(answer.facts)
        first_two = [tool["name"] for tool in answer.tools[:2]]  # a history lifts a rival just before what failed
        if name := next((each for each in first_two if each in failures), ""):
            instead = f": {best['name']} is the best other one" if best["name"] != name else ", and no other fits"
            answer = _with_notice(answer, Notice(code="failed", text=f"{name} failed twice{instead}."))
        agent_id = gateway.view(asker).registry.tool(best["name"], principal=asker.principal).agent_id
        return {"tool": {"name": best["name"], "agent": agent_id} | best} | dict(answer.facts)

    return told_as_text(_drop_session_notice(await gateway.ask(answer_route), arguments))


def _find_failures(
    gateway: Gateway, asker: Asker, history: Sequence[Turn] | None, tools: Sequence[Mapping[str, Any]]
) -> frozenset[str]:
    """Names of the tools whose last two calls failed. `history`: what the host sent; without a call the session
    counts.
    """
    names = [str(tool["name"]) for tool in tools]
    calls = [turn for turn in history or () if turn.role == "call"]
    if not calls:
        return frozenset(name for name in names if asker.session.failure_count(asker.caller, name) > 1)
    lookup = gateway.view(asker).registry.tool
    ids = {name: lookup(name, principal=asker.principal).id for name in names}
    last_two = {name: [turn.outcome for turn in calls if turn.tool in (name, ids[name])][-2:] for name in ids}
    return frozenset(name for name, outcomes in last_two.items() if outcomes == ["failed", "failed"])


def _better_agent(gateway: Gateway, asker: Asker, answer: find.ToolsAnswer) -> dict[str, Any] | None:
    """The answer that is an agent. A server without tools was not asked for them, and does nothing of itself."""
    skills = [str(tool["agent"]) for tool in answer.tools[:1] if "agent" in tool]
    ids = [*skills, *answer.facts.get("better_agents", ())]
    agent = gateway.view(asker).registry.agent(ids[0], principal=asker.principal) if ids else None
    if agent is None or agent.kind in ("mcp_server", "openapi"):
        return None
    entry = _agent(AgentMatch(agent=agent, score=0.0), gateway.reach.now().why_not)
    runs = "cannot_run" not in entry and "tools" in entry
    hint = f'read it with {EXECUTE}(name="{entry["tools"][0]}", params={{}})' if runs else "hand this task to it"
    of_tools = ("better_agents", "confidence")
    facts = {name: fact for name, fact in answer.facts.items() if name not in of_tools}
    return {"agent": entry} | facts | {"hint": f"no tool fits as well as this agent: {hint}"}


UNUSABLE = "what it selected cannot be run here, or has failed"


def _with_notice(answer: find.ToolsAnswer, notice: Notice) -> find.ToolsAnswer:
    notices = [*answer.facts.get("notices", ()), {"code": notice.code, "text": notice.text}]
    return replace(answer, facts={**answer.facts, "notices": notices})


def _is_usable(answer: find.ToolsAnswer) -> bool:
    """Whether it holds a tool that can be run here and has not failed."""
    return answer.can_run and not all("cannot_run" in tool or "failed" in tool for tool in answer.tools)


async def route_agents(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """Raises what routing raises."""
    asker.caller.require("route")
    arguments, _ = read_arguments(ROUTE_AGENTS, arguments)
    history = _history(asker, arguments, ROUTE_AGENTS)

    def route() -> dict[str, Any]:
        registry, agent_ids = gateway.view(asker)
        query = Query(
            text=arguments.get("query", ""),
            steps=tuple(arguments.get("steps", ())),
            limit=arguments.get("limit", AGENTS),
            filters=Filters(agent_ids=tuple(sorted(agent_ids or ())), within=arguments.get("within", "")),
            strict=gateway.policy is not None and gateway.policy.strict,
            history=history,
        )
        start_s = perf_counter()
        route = registry.route(query, recipe=gateway.recipe_of(), principal=asker.principal)
        _note_request(gateway, asker, query.text, start_s, is_answered=bool(route.matches))
        why_not = gateway.reach.now().why_not
        answer: dict[str, Any] = {"agents": [_agent(match, why_not) for match in (*route.pinned, *route.matches)]}
        if of_steps := route.steps[: len(route.query.steps)]:
            answer["steps"] = [[match.agent.id for match in step.matches] for step in of_steps]
        answer |= find.notices_field(route)
        if route.matches:
            answer |= find.confidence_field(route.confidence)
        elif route.nearest:
            answer |= {"nearest": list(route.nearest), "hint": "these agents are the nearest: name one if it is meant"}
        return answer | ({"reason": route.reason} if route.reason else {})

    return told_as_text(await gateway.ask(route))


def _agent(match: AgentMatch, why_not: WhyNot) -> dict[str, Any]:
    reader = [reading_tool(match.agent)] if match.agent.kind == "skill" else []
    entry = {
        "id": match.agent.id,
        "kind": match.agent.kind,
        "description": summary(match.agent.description),
        "tools": [tool.call_name for tool in (*reader, *match.tools)],
        "cannot_run": why_not(match.agent),
    }
    return {name: value for name, value in entry.items() if value}


def _history(asker: Asker, arguments: Arguments, tool: str) -> tuple[Turn, ...]:
    """The calls and words that the host names, else the calls of its session. Raises InvalidArguments, InvalidQuery."""
    if "history" not in arguments:
        return asker.session.calls_of(asker.caller)
    turns = arguments["history"]
    for at, turn in enumerate(turns):
        if unknown := turn.keys() - ({"said"} if "said" in turn else {"tool", "outcome"}):
            raise InvalidArguments(tool, [(f"/history/{at}/{min(unknown)}", "not known here")])
    return read_history(
        [{"role": "user", "text": turn["said"]} if "said" in turn else {"role": "call", **turn} for turn in turns]
    )


def _mark_failures(asker: Asker, tools: Sequence[dict[str, Any]]) -> None:
    """Of tools that failed in this session, `failed`: when and why."""
    for tool in tools:
        if failure := asker.session.failure_of(asker.caller, str(tool["name"])):
            tool["failed"] = failure


def _drop_session_notice(answer: Mapping[str, Any], arguments: Arguments) -> dict[str, Any]:
    """A notice about calls of the session says nothing to a model that did not name them."""
    if "history" in arguments or "notices" not in answer:
        return dict(answer)
    return {**answer, "notices": [each for each in answer["notices"] if each["code"] != "history"]}
