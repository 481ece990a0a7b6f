"""What a host sees of the gateway before it asks anything: the meta-tools, as MCP has them, and the instructions."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from waygraph.api.mcp import Surface
from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.results import Result, told_as_text
from waygraph.api.mcp.sessions import Asker
from waygraph.registry.model.arguments import unknown_name
from waygraph.registry.model.errors import InvalidArguments
from waygraph.registry.model.nouns import AgentMatch, Filters, Query
from waygraph.registry.routing.find_tools.describe import DETAILS, summary
from waygraph.registry.routing.find_tools.find import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    FindAsked,
    WhyNot,
    confidence_field,
    find,
)
from waygraph.registry.routing.find_tools.resolve import reading_tool

if TYPE_CHECKING:
    from waygraph.registry.routing.find_tools.describe import Detail


IDENTITY = {"name": "waygraph", "title": "Waygraph"}
FIND_TOOLS, USE_TOOL, ROUTE_AGENTS = "find_tools", "use_tool", "route_agents"
MAX_AGENTS = 20

type Definition = dict[str, Any]

INSTRUCTIONS = (
    "This server reaches many tools without listing them. Call find_tools first, with what you want to do. Then call "
    "a found tool by its name, directly or by use_tool(name, params). If a description is cut or has no parameters, "
    'ask again with detail="schema". A tool that changes or deletes things runs only by its exact name, never by '
    "use_tool(query). route_agents tells which servers and agents fit a whole task."
)
INSTRUCTIONS_OF_RFC = (
    "This server reaches many tools without listing them. Call find_tools with what you want to do before you use a "
    "tool that you have not retrieved yet. Then call a found tool directly, by its name."
)

_QUERY = {"type": "string", "description": "Natural language description of what you want to do"}
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
            "call a found tool by its name, or by use_tool. An empty query tells what there is, in numbers."
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
            "Find the agents (MCP servers, A2A agents, APIs, skills) that can do a task, each with its best tools."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Natural language description of the task"},
                "limit": {"type": "integer", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MAX_AGENTS},
            },
            "required": ["query"],
        },
        "annotations": _READS,
    },
)


PARAMETERS = {tool["name"]: frozenset(tool["inputSchema"]["properties"]) for tool in _META_TOOLS}
"""What each takes, by either surface."""


def meta_tools(surface: Surface) -> tuple[Definition, ...]:
    """In the order in which they are listed."""
    return (FIND_TOOLS_OF_RFC,) if surface == "rfc" else _META_TOOLS


@cache
def version() -> str:
    return metadata.version("waygraph")


def instructions(surface: Surface) -> str:
    return INSTRUCTIONS_OF_RFC if surface == "rfc" else INSTRUCTIONS


# `find_tools` and `route_agents`: what a model asks before it calls anything.


SENT_BEFORE = "tools marked unchanged were sent to you before; known={} has all of it sent again"

Arguments = Mapping[str, Any]
type Question = Callable[[Gateway, Asker, Arguments], Awaitable[Result]]


def questions(surface: Surface) -> Mapping[str, Question]:
    """The meta-tools that only ask, by name."""
    return {FIND_TOOLS: find_tools} if surface == "rfc" else {FIND_TOOLS: find_tools, ROUTE_AGENTS: route_agents}


async def find_tools(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """Raises what finding raises."""
    asker.caller.require("route")
    _refuse_astray(FIND_TOOLS, arguments)
    is_rfc = gateway.surface == "rfc"
    detail = cast("Detail", "schema" if is_rfc else _text(arguments, "detail", FIND_TOOLS) or "summary")
    remembers = "known" not in arguments
    known = asker.session.known_versions if remembers else _versions(arguments["known"])

    def answer_find() -> dict[str, Any]:
        asked = FindAsked(
            query=_text(arguments, "query", FIND_TOOLS),
            limit=arguments.get("limit", DEFAULT_LIMIT),
            detail=detail,
            known=known,
            agent_ids=gateway.agents_within(asker),
            use_tool=not is_rfc,
        )
        why_not = gateway.reach.now().why_not
        return find(gateway.registry, asked, principal=asker.principal, policy=gateway.policy, why_not=why_not)

    answer = await gateway.ask(answer_find)
    tools = answer.get("tools", [])
    if detail != "names":
        asker.session.note_sent(tools)
    if remembers and any(tool.get("unchanged") for tool in tools):
        answer = answer | {"notice": SENT_BEFORE}
    return told_as_text(answer)


async def route_agents(gateway: Gateway, asker: Asker, arguments: Arguments) -> Result:
    """Raises what routing raises."""
    asker.caller.require("route")
    _refuse_astray(ROUTE_AGENTS, arguments)
    limit = arguments.get("limit", DEFAULT_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_AGENTS:
        raise InvalidArguments(ROUTE_AGENTS, [("/limit", f"a whole number from 1 to {MAX_AGENTS}")])

    def route() -> dict[str, Any]:
        within = gateway.agents_within(asker)
        filters = Filters(agent_ids=tuple(sorted(within or ())))
        strict = gateway.policy is not None and gateway.policy.strict
        query = Query(text=_text(arguments, "query", ROUTE_AGENTS), limit=limit, filters=filters, strict=strict)
        route = gateway.registry.route(query, principal=asker.principal)
        why_not = gateway.reach.now().why_not
        told: dict[str, Any] = {"agents": [_agent(match, why_not) for match in (*route.pinned, *route.matches)]}
        if route.matches:
            told |= confidence_field(route.confidence)
        elif route.nearest:
            told |= {"nearest": list(route.nearest), "hint": "these agents are the nearest: name one if it is meant"}
        return told | {name: said for name in ("reason", "notice") if (said := getattr(route, name))}

    return told_as_text(await gateway.ask(route))


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


def _versions(known: object) -> Mapping[str, str]:
    if not isinstance(known, Mapping):
        raise InvalidArguments(FIND_TOOLS, [("/known", "an object of versions by tool name")])
    return {str(name): str(version) for name, version in known.items()}
