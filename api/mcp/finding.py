"""`find_tools` and `route_agents`: what a model asks before it calls anything."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from waygraph.api.mcp.results import Result, told_as_text
from waygraph.api.mcp.surface import FIND_TOOLS, MAX_AGENTS, PARAMETERS, ROUTE_AGENTS, Surface
from waygraph.registry.discovery.described import summary
from waygraph.registry.discovery.finding import DEFAULT_LIMIT, FindAsked, WhyNot, find
from waygraph.registry.discovery.skill_reading import reading_tool
from waygraph.registry.errors import InvalidArguments
from waygraph.registry.model import AgentMatch, Filters, Query
from waygraph.registry.schemas.words import unknown_name

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Asker, Discovery
    from waygraph.registry.discovery.described import Detail

SENT_BEFORE = "tools marked unchanged were sent to you before; known={} has all of it sent again"

Arguments = Mapping[str, Any]
type Question = Callable[[Discovery, Asker, Arguments], Awaitable[Result]]


def questions(surface: Surface) -> Mapping[str, Question]:
    """The meta-tools that only ask, by name."""
    return {FIND_TOOLS: find_tools} if surface == "rfc" else {FIND_TOOLS: find_tools, ROUTE_AGENTS: route_agents}


async def find_tools(discovery: "Discovery", asker: "Asker", arguments: Arguments) -> Result:
    """Raises what finding raises."""
    asker.caller.require("route")
    _refuse_astray(FIND_TOOLS, arguments)
    is_rfc = discovery.surface == "rfc"
    detail = cast("Detail", "schema" if is_rfc else _text(arguments, "detail", FIND_TOOLS) or "summary")
    remembers = "known" not in arguments
    known = asker.session.known if remembers else _versions(arguments["known"])

    def found() -> dict[str, Any]:
        asked = FindAsked(
            query=_text(arguments, "query", FIND_TOOLS),
            limit=arguments.get("limit", DEFAULT_LIMIT),
            detail=detail,
            known=known,
            agent_ids=discovery.agents_within(asker),
            use_tool=not is_rfc,
        )
        why_not = discovery.reach.now().why_not
        return find(discovery.registry, asked, principal=asker.principal, policy=discovery.policy, why_not=why_not)

    answer = await discovery.ask(found)
    tools = answer.get("tools", [])
    if detail != "names":
        asker.session.sent(tools)
    if remembers and any(tool.get("unchanged") for tool in tools):
        answer = answer | {"notice": SENT_BEFORE}
    return told_as_text(answer)


async def route_agents(discovery: "Discovery", asker: "Asker", arguments: Arguments) -> Result:
    """Raises what routing raises."""
    asker.caller.require("route")
    _refuse_astray(ROUTE_AGENTS, arguments)
    limit = arguments.get("limit", DEFAULT_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_AGENTS:
        raise InvalidArguments(ROUTE_AGENTS, [("/limit", f"a whole number from 1 to {MAX_AGENTS}")])

    def routed() -> dict[str, Any]:
        within = discovery.agents_within(asker)
        filters = Filters(agent_ids=tuple(sorted(within or ())))
        query = Query(text=_text(arguments, "query", ROUTE_AGENTS), limit=limit, filters=filters)
        route = discovery.registry.route(query, principal=asker.principal)
        why_not = discovery.reach.now().why_not
        told: dict[str, Any] = {"agents": [_agent(match, why_not) for match in (*route.pinned, *route.matches)]}
        return told | {name: said for name in ("reason", "notice") if (said := getattr(route, name))}

    return told_as_text(await discovery.ask(routed))


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
