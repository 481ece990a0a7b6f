"""What a host sees of the gateway before it asks anything: instructions, and tools/list.

Listed are the meta-tools, then the tools of pinned agents. Everything else is found, not listed. The list depends on
the registry, on the door and on who asks, and on nothing that was asked before.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from waygraph.api.mcp import Surface, protocol
from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.offers import LISTED, MAY_KNOW, find_offers
from waygraph.api.mcp.results import Result, told_as_text
from waygraph.api.mcp.sessions import Asker
from waygraph.ingest.manifest.own_gateway import NAME
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.catalog.find_tools.find import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    FindAnswer,
    FindAsked,
    ToolsAnswer,
    WhyNot,
    answer_request,
    confidence_field,
    judging,
    list_agents,
    overview,
)
from waygraph.registry.catalog.find_tools.resolve import reading_tool
from waygraph.registry.catalog.tool_formats import DETAILS, definition, host_schema, summary
from waygraph.registry.model.arguments import unknown_name
from waygraph.registry.model.errors import InvalidArguments, RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import AgentMatch, Filters, Query, Turn, is_doubtful
from waygraph.registry.model.validation import read_history

if TYPE_CHECKING:
    from waygraph.api.mcp.offers import Kind
    from waygraph.registry.catalog.tool_formats import Detail
    from waygraph.registry.model.nouns import Tool


IDENTITY = {"name": NAME, "title": "Waygraph"}
FIND_TOOLS, USE_TOOL, ROUTE_AGENTS = "find_tools", "use_tool", "route_agents"
ROUTE, EXECUTE = "route", "execute"
MAX_AGENTS, MAX_STEPS = 20, 50

type Definition = dict[str, Any]
_log = logging.getLogger("waygraph.gateway")

INSTRUCTIONS = (
    "This server reaches many tools without listing them. Call find_tools first, with what you want to do: one search "
    "for each thing that you need. Then call a found tool by its name, directly or by use_tool(name, params). If a "
    'description is cut or has no parameters, ask again with detail="schema". A tool that changes or deletes things '
    "runs only by its exact name, never by use_tool(query). route_agents tells which servers and agents fit a whole "
    "task. If find_tools takes `within`, you may browse: do so if you cannot say what you need, or two searches failed."
)
INSTRUCTIONS_OF_RFC = (
    "This server reaches many tools without listing them. Call find_tools with what you want to do before you use a "
    "tool that you have not retrieved yet. Then call a found tool directly, by its name."
)
INSTRUCTIONS_OF_ROUTER = (
    "This server reaches many tools without listing them. Call route with the one thing that you want to do next: it "
    "returns the best tool with its schema. Run it with execute(name, params). After a failure call route again: it "
    "returns another tool. Route each further thing that the task needs by itself."
)

_QUERY = {"type": "string", "description": "Natural language description of what you want to do"}
_HISTORY = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"tool": {"type": "string"}, "outcome": {"enum": ["ok", "failed"]}},
        "required": ["tool"],
    },
    "description": "Tools called before, oldest first, if not through this connection",
}
_IN_NUMBERS = "An empty query tells what there is, in numbers."
_IN_CATEGORIES = "An empty query tells the categories of all tools; `within` goes into one, down to its tools."
_WITHIN = {"type": "string", "description": "Only in this category, such as travel/flights"}
_READS = {"readOnlyHint": True, "openWorldHint": False}

FIND_TOOLS_OF_RFC: Definition = {
    "name": FIND_TOOLS,
    "description": (
        "Search for available tools by capability. Returns tool schemas matching the query. "
        "Call this before using any tool you haven't retrieved yet."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": _QUERY,
            "limit": {
                "type": "integer",
                "description": f"Maximum number of tools to return (default: {DEFAULT_LIMIT})",
                "default": DEFAULT_LIMIT,
                "minimum": 1,
                "maximum": MAX_LIMIT,
            },
        },
        "required": ["query"],
    },
    "annotations": _READS,
}
_META_TOOLS: tuple[Definition, ...] = (
    {
        "name": FIND_TOOLS,
        "description": (
            "Search for available tools by capability. Call this before using any tool you haven't retrieved yet; then "
            f"call a found tool by its name, or by use_tool. {_IN_NUMBERS}"
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": _QUERY,
                "limit": FIND_TOOLS_OF_RFC["inputSchema"]["properties"]["limit"],
                "detail": {
                    "type": "string",
                    "enum": list(DETAILS),
                    "default": "summary",
                    "description": "How much of each tool to return; schema: with its whole input schema",
                },
                "known": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Versions you still have, by tool name: unchanged tools are not sent again. "
                    "{}: send all of it again",
                },
                "history": _HISTORY,
                "kind": {
                    "type": "string",
                    "enum": ["tool", *LISTED],
                    "default": "tool",
                    "description": "What to find: servers have prompts, resources and templates of resources, too",
                },
            },
            "required": ["query"],
        },
        "annotations": _READS,
    },
    {
        "name": USE_TOOL,
        "description": (
            "Run a tool that find_tools returned, by its name. With a query in place of the name: find and run the one "
            "tool that clearly fits."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name, as find_tools gave it"},
                "query": {"type": "string", "description": "What you want to do, if you do not know a name"},
                "params": {"type": "object", "description": "Parameters to pass to the tool"},
            },
            "required": ["params"],
        },
    },
    {
        "name": ROUTE_AGENTS,
        "description": (
            "Find the agents (MCP servers, A2A agents, APIs, skills) that can do a task, each with its best tools. "
            "Give a query, or steps."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Natural language description of the task"},
                "steps": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The task's steps, one for each thing that it needs, in place of a query",
                },
                "limit": {"type": "integer", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MAX_AGENTS},
                "history": _HISTORY,
            },
        },
        "annotations": _READS,
    },
)


_TOOLS_OF_ROUTER: tuple[Definition, ...] = (
    {
        "name": ROUTE,
        "description": (
            "Find the one best tool for what you want to do next, with its input schema. After a tool failed, call "
            "this again: another one is returned."
        ),
        "inputSchema": {"type": "object", "properties": {"query": _QUERY, "history": _HISTORY}, "required": ["query"]},
        "annotations": _READS,
    },
    {
        "name": EXECUTE,
        "description": "Run the tool that route returned, by its name.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name, as route gave it"},
                "params": {"type": "object", "description": "Parameters to pass to the tool"},
            },
            "required": ["name", "params"],
        },
    },
)

_NARROWED = (FIND_TOOLS, ROUTE_AGENTS)
PARAMETERS: Mapping[str, frozenset[str]] = {
    tool["name"]: frozenset([*tool["inputSchema"]["properties"], *(["within"] if tool["name"] in _NARROWED else [])])
    for tool in (*_META_TOOLS, *_TOOLS_OF_ROUTER)
}
"""What each takes, by any surface."""
RUNNERS: Mapping[Surface, str] = {"default": USE_TOOL, "rfc": "", "router": EXECUTE}
"""The meta-tool that runs a found tool; empty: tools are called by their own names."""
_LISTED: Mapping[Surface, tuple[Definition, ...]] = {
    "default": _META_TOOLS,
    "rfc": (FIND_TOOLS_OF_RFC,),
    "router": _TOOLS_OF_ROUTER,
}
_INSTRUCTIONS: Mapping[Surface, str] = {
    "default": INSTRUCTIONS,
    "rfc": INSTRUCTIONS_OF_RFC,
    "router": INSTRUCTIONS_OF_ROUTER,
}


SUMMARY_BYTES = 400
"""In UTF-8, of what is said of a registry: at most about 130 tokens."""
_PLAIN = re.compile(r"[\w][\w .+#/-]{0,39}")


def summary_of(gateway: Gateway, asker: Asker) -> str:
    """What stands behind the gateway for this asker, so that a model sees when to search; empty: nothing.

    Counts, the most frequent tags, and the agents with most tools. Names and tags are what others wrote: only plain
    words are told, of agents whose text is not in doubt.
    """
    if asker.caller.scopes.isdisjoint(MAY_KNOW) or gateway.surface == "rfc":
        return ""
    try:
        registry, within = gateway.view(asker)
        counts = overview(registry, asker.principal, within)
    except RegistryNotFound:
        return ""
    if not counts["tools"]:
        return ""
    agents = list_agents(registry, asker.principal, within)
    known = [each for each in agents if each.tools and not each.agent.pending and not is_doubtful(each.agent)]
    largest = [(each.agent.name, each.tools) for each in sorted(known, key=lambda each: (-each.tools, each.agent.id))]
    said = f"Behind it: tools ({counts['tools']}), agents ({sum(counts['agents'].values())})."
    for title, pairs in (("Most tools", largest), ("Tags", counts.get("tags", {}).items())):
        plain = [f"{name} ({count})" for name, count in pairs if _PLAIN.fullmatch(name)]
        most_bytes = (SUMMARY_BYTES - len(said.encode())) // (2 if title == "Most tools" else 1) - len(title) - 4
        if told := _join_some(plain, most_bytes):
            said += f" {title}: {told}."
    return said


def _join_some(parts: Sequence[str], most_bytes: int) -> str:
    """The first of them that fit."""
    told = ""
    for part in parts:
        longer = f"{told}, {part}" if told else part
        if len(longer.encode()) > most_bytes:
            break
        told = longer
    return told


def meta_tools(surface: Surface, *, browses: bool = False) -> tuple[Definition, ...]:
    """In the order in which they are listed. `browses`: whether there is a taxonomy."""
    return tuple(map(_with_within, _LISTED[surface])) if browses and surface == "default" else _LISTED[surface]


def _with_within(tool: Definition) -> Definition:
    if tool["name"] not in _NARROWED:
        return tool
    schema = tool["inputSchema"]
    told = tool["description"].replace(_IN_NUMBERS, _IN_CATEGORIES)
    return tool | {
        "description": told,
        "inputSchema": schema | {"properties": schema["properties"] | {"within": _WITHIN}},
    }


def browses(gateway: Gateway, asker: Asker) -> bool:
    """Whether there is a taxonomy that the asker sees anything of, and a surface that shows it."""
    if gateway.surface != "default" or asker.caller.scopes.isdisjoint(MAY_KNOW):
        return False
    try:
        registry, among = gateway.view(asker)
        return bool(registry.browse(filters=_among(among), principal=asker.principal).children)
    except WaygraphError:
        return False


@cache
def version() -> str:
    return metadata.version("waygraph")


def instructions(surface: Surface) -> str:
    return _INSTRUCTIONS[surface]


SENT_BEFORE = "tools marked unchanged were sent to you before; known={} has all of it sent again"

Arguments = Mapping[str, Any]
type Question = Callable[[Gateway, Asker, Arguments], Awaitable[Result]]


def questions(surface: Surface) -> Mapping[str, Question]:
    """The meta-tools that only ask, by name."""
    if surface == "router":
        return {ROUTE: route_tool}
    return {FIND_TOOLS: find_tools} if surface == "rfc" else {FIND_TOOLS: find_tools, ROUTE_AGENTS: route_agents}


async def find_tools(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """Raises what finding raises."""
    asker.caller.require("route")
    _refuse_astray(FIND_TOOLS, arguments)
    if (kind := arguments.get("kind", "tool")) != "tool":
        return told_as_text(await _find_beside(gateway, asker, kind, arguments))
    detail = cast(
        "Detail", "schema" if gateway.surface == "rfc" else _text(arguments, "detail", FIND_TOOLS) or "summary"
    )
    remembers = "known" not in arguments
    known = asker.session.known_versions if remembers else _versions(arguments["known"])
    history = _history(asker, arguments, FIND_TOOLS)

    def answer_find() -> FindAnswer:
        registry, within = gateway.view(asker)
        asked = FindAsked(
            query=_text(arguments, "query", FIND_TOOLS),
            limit=arguments.get("limit", DEFAULT_LIMIT),
            detail=detail,
            known=known,
            agent_ids=within,
            within=_text(arguments, "within", FIND_TOOLS),
            browses=gateway.surface == "default",
            recipe=gateway.recipe,
            run_by=RUNNERS[gateway.surface],
            history=history,
        )
        why_not = gateway.reach.now().why_not
        return answer_request(registry, asked, principal=asker.principal, policy=gateway.policy, why_not=why_not)

    answer = await gateway.ask(answer_find)
    tools = answer.tools if isinstance(answer, ToolsAnswer) else ()
    if detail != "names":
        asker.session.note_sent(tools)
    facts = _drop_session_notice(answer.as_json(), arguments)
    if remembers and any(tool.get("unchanged") for tool in tools):
        facts |= {"notice": " ".join(filter(None, (facts.get("notice"), SENT_BEFORE)))}
    return told_as_text(facts)


async def _find_beside(gateway: Gateway, asker: Asker, kind: object, arguments: Arguments) -> dict[str, Any]:
    """Prompts, resources or templates. Raises InvalidArguments, and what routing raises."""
    asker.caller.require("use")
    limit = arguments.get("limit", DEFAULT_LIMIT)
    faults = []
    if not isinstance(kind, str) or kind not in LISTED or gateway.surface == "rfc":
        faults.append(("/kind", f"one of: {', '.join(['tool', *LISTED])}"))
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        faults.append(("/limit", f"a whole number from 1 to {MAX_LIMIT}"))
    if faults:
        raise InvalidArguments(FIND_TOOLS, faults)
    return await find_offers(gateway, asker, cast("Kind", kind), _text(arguments, "query", FIND_TOOLS), limit)


async def route_tool(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """The best tool that can be run here, with its schema; the best one at all, and why not, if none can. Raises what
    finding raises.
    """
    asker.caller.require("route")
    _refuse_astray(ROUTE, arguments)
    query, history = _text(arguments, "query", ROUTE), _history(asker, arguments, ROUTE)

    def answer_route() -> dict[str, Any]:
        (registry, within), why_not = gateway.view(asker), gateway.reach.now().why_not
        asked = FindAsked(
            query=query, detail="schema", agent_ids=within, recipe=gateway.recipe, run_by=EXECUTE, history=history
        )
        answer = answer_request(registry, asked, principal=asker.principal, policy=gateway.policy, why_not=why_not)
        tools = answer.tools if isinstance(answer, ToolsAnswer) else ()
        if best := next((tool for tool in tools if "cannot_run" not in tool), tools[0] if tools else None):
            agent_id = registry.tool(best["name"], principal=asker.principal).agent_id
            return {"tool": {"name": best["name"], "agent": agent_id} | best} | dict(answer.facts)
        return dict(answer.facts)

    return told_as_text(_drop_session_notice(await gateway.ask(answer_route), arguments))


async def route_agents(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """Raises what routing raises."""
    asker.caller.require("route")
    _refuse_astray(ROUTE_AGENTS, arguments)
    limit = arguments.get("limit", DEFAULT_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_AGENTS:
        raise InvalidArguments(ROUTE_AGENTS, [("/limit", f"a whole number from 1 to {MAX_AGENTS}")])

    history, steps = _history(asker, arguments, ROUTE_AGENTS), _steps(arguments)

    def route() -> dict[str, Any]:
        registry, within = gateway.view(asker)
        filters = replace(_among(within), within=_text(arguments, "within", ROUTE_AGENTS))
        strict = gateway.policy is not None and gateway.policy.strict
        text = _text(arguments, "query", ROUTE_AGENTS)
        query = Query(text=text, steps=steps, limit=limit, filters=filters, strict=strict, history=history)
        route = registry.route(query, recipe=gateway.recipe, principal=asker.principal)
        why_not = gateway.reach.now().why_not
        told: dict[str, Any] = {"agents": [_agent(match, why_not) for match in (*route.pinned, *route.matches)]}
        if route.steps:
            told["steps"] = [[match.agent.id for match in step.matches] for step in route.steps]
        if route.matches:
            told |= confidence_field(route.confidence)
        elif route.nearest:
            told |= {"nearest": list(route.nearest), "hint": "these agents are the nearest: name one if it is meant"}
        return told | {name: said for name in ("reason", "notice") if (said := getattr(route, name))}

    return told_as_text(await gateway.ask(route))


def _among(agent_ids: frozenset[str] | None) -> Filters:
    return Filters(agent_ids=tuple(sorted(agent_ids or ())))


def _agent(match: AgentMatch, why_not: WhyNot) -> dict[str, Any]:
    reading = [reading_tool(match.agent)] if match.agent.kind == "skill" else []
    told = {
        "id": match.agent.id,
        "kind": match.agent.kind,
        "description": summary(match.agent.description),
        "tools": [tool.call_name for tool in (*reading, *match.tools)],
        "cannot_run": why_not(match.agent),
    }
    return {name: value for name, value in told.items() if value}


def _refuse_astray(tool: str, arguments: Arguments) -> None:
    """What is not known here may be what matters: a model that calls the query `text` would get another answer."""
    known = PARAMETERS[tool]
    if astray := sorted(arguments.keys() - known):
        raise InvalidArguments(tool, [(f"/{name}", unknown_name(name, known)) for name in astray])


def _text(arguments: Arguments, name: str, tool: str) -> str:
    value = arguments.get(name, "")
    if not isinstance(value, str):
        raise InvalidArguments(tool, [(f"/{name}", "a text")])
    return value


def _steps(arguments: Arguments) -> tuple[str, ...]:
    """Raises InvalidArguments."""
    steps = arguments.get("steps", [])
    is_list = isinstance(steps, list) and all(isinstance(step, str) for step in steps)
    if not is_list or len(steps) > MAX_STEPS:
        raise InvalidArguments(ROUTE_AGENTS, [("/steps", f"a list of at most {MAX_STEPS} texts")])
    return tuple(steps)


def _history(asker: Asker, arguments: Arguments, tool: str) -> tuple[Turn, ...]:
    """The calls that the host tells, else those of its session. Raises InvalidArguments."""
    if "history" not in arguments:
        return asker.session.calls_of(asker.caller)
    told = arguments["history"]
    if not isinstance(told, list) or not all(isinstance(call, dict) for call in told):
        raise InvalidArguments(tool, [("/history", "a list of objects, each with a tool and its outcome")])
    for at, call in enumerate(told):
        if astray := call.keys() - {"tool", "outcome"}:
            raise InvalidArguments(tool, [(f"/history/{at}/{min(astray)}", "not known here")])
    return read_history([{"role": "call", **call} for call in told])


def _drop_session_notice(answer: Mapping[str, Any], arguments: Arguments) -> dict[str, Any]:
    """What it says is of calls of the session, which the model did not name."""
    return {name: value for name, value in answer.items() if name != "notice" or "history" in arguments}


def _versions(known: object) -> Mapping[str, str]:
    if not isinstance(known, Mapping):
        raise InvalidArguments(FIND_TOOLS, [("/known", "an object of versions by tool name")])
    return {str(name): str(version) for name, version in known.items()}


PAGE = 100
"""So many tools of pinned agents does a page hold."""
TTL_MS = 30_000
"""A list that is the same for all who ask may be kept so long; of a change hosts are told."""
_OF_THE_NEXT_HOP = "x-mcp-header"


def tools_page(gateway: Gateway, asker: Asker, cursor: str) -> dict[str, Any]:
    """As MCP has it. `cursor`: the name after which the page begins; empty: the first page."""
    tools = _pinned_if_any(gateway, asker) if gateway.surface == "default" else []
    rest = [tool for tool in tools if tool.call_name > cursor]
    offered = meta_tools(gateway.surface, browses=browses(gateway, asker))
    listed = [] if cursor else _add_summary(offered, summary_of(gateway, asker))
    page = {"tools": [*listed, *filter(None, map(_list_entry, rest[:PAGE]))]} | cache_hints(asker)
    return page | ({"nextCursor": rest[PAGE - 1].call_name} if len(rest) > PAGE else {})


def _add_summary(listed: Sequence[Definition], summary: str) -> list[Definition]:
    """The first one, which finds, says what there is to find."""
    first, *rest = listed
    return [first | {"description": f"{first['description']} {summary}".rstrip()}, *rest]


def _pinned_if_any(gateway: Gateway, asker: Asker) -> "Sequence[Tool]":
    """A registry that is not there yet pins nothing: what is asked of it says how it comes to be."""
    try:
        return pinned_tools(gateway, asker)
    except RegistryNotFound:
        return ()


def pinned_tools(gateway: Gateway, asker: Asker) -> "Sequence[Tool]":
    """What may be called of the agents that an operator pinned and the asker sees, by call name."""
    if asker.caller.scopes.isdisjoint(MAY_KNOW):
        return ()
    (registry, within), principal = gateway.view(asker), asker.principal
    agents = [
        agent
        for agent in registry.agents(principal=principal)
        if agent.pinned and not agent.hidden and (within is None or agent.id in within)
    ]
    if not agents:
        return ()
    judges, why_not = judging(registry, gateway.policy, principal), gateway.reach.now().why_not
    tools = [
        tool
        for agent in agents
        if not why_not(agent)
        for tool in registry.tools(agent.id, principal=principal)
        if judges.judge(agent, tool, by_name=True).verdict != "deny"
    ]
    return sorted(tools, key=lambda tool: tool.call_name)


def cache_hints(asker: Asker) -> dict[str, Any]:
    """How long a host may keep the list, and whether others may have it."""
    if asker.caller == LOCAL:
        return {"ttlMs": TTL_MS, "cacheScope": "public"}
    return {"ttlMs": 0, "cacheScope": "private"}


def _list_entry(tool: "Tool") -> Definition | None:
    """As every host takes it, whose model's service may refuse a whole request for one schema; None if none would.

    Without what the source says of headers between itself and its client: between a host and us none are agreed.
    """
    told = definition(tool, "mcp") | {"inputSchema": host_schema(tool.input_schema)}
    schema = told["inputSchema"]
    schema["properties"] = {name: _without_header(each) for name, each in schema["properties"].items()}
    entry: Definition | protocol.Unfit = protocol.mend_item("tools/list", "tools", told)
    if isinstance(entry, protocol.Unfit):
        _log.warning("%s is not listed: no host would take its definition", tool.id)
        return None
    return entry


def promised_output(gateway: Gateway, asker: Asker, name: str) -> Mapping[str, Any] | None:
    """The schema of the answers of a listed tool, by its call name, if it has one."""
    if gateway.surface != "default":
        return None
    tool = next(
        (tool for tool in _pinned_if_any(gateway, asker) if tool.call_name == name and tool.output_schema), None
    )
    return definition(tool, "mcp").get("outputSchema") if tool else None


def _without_header(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {name: value for name, value in schema.items() if name != _OF_THE_NEXT_HOP}
