"""What a host sees of the gateway before it asks anything: the meta-tools, as MCP has them, and the instructions."""

from functools import cache
from importlib import metadata
from typing import Any, Literal

from waygraph.registry.discovery.described import DETAILS
from waygraph.registry.discovery.finding import DEFAULT_LIMIT, MAX_LIMIT

Surface = Literal["default", "rfc"]
"""`rfc`: `find_tools` alone, with the parameters that RFC 0001 gives it."""

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
