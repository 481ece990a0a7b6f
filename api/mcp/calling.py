"""One call of a tool: which is meant, may it run, do the arguments fit; then it runs, and is recorded."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waygraph.api.mcp.asking_host import OnBehalf
from waygraph.api.mcp.consent import agreed
from waygraph.api.mcp.gateway import at_once
from waygraph.api.mcp.recording import TOOL_ERROR, recorded
from waygraph.api.mcp.surface import USE_TOOL
from waygraph.ingest.calling.call import Host, ToolCall
from waygraph.ingest.calling.reach import TO_DO
from waygraph.registry.access import LOCAL
from waygraph.registry.arguments import check_arguments
from waygraph.registry.discovery.judging import judging
from waygraph.registry.discovery.naming import named_outright
from waygraph.registry.discovery.resolving import is_exact_name, tool_meant
from waygraph.registry.errors import InvalidArguments, NotCallable

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Asker, Gateway
    from waygraph.api.observing.audit import Attempt
    from waygraph.ingest.calling.call import Result
    from waygraph.registry.model import Agent, Tool
    from waygraph.registry.policy import Judgement

SHORT_SCHEMA_CHARS = 4_096
_SLOW = re.compile("attern|[rR]ef")
"""Patterns have to be compiled, and what refers to itself, or to the same again and again, grows without end."""
SMALL_ARGUMENTS = 1_024
"""So many values, and characters of texts and names, however deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a host wants run: a tool by its name, or the one that fits a query; times as a ToolCall has them."""

    name: str = ""
    query: str = ""
    arguments: Mapping[str, Any]
    deadline_s: float
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Meant:
    agent: "Agent"
    tool: "Tool"
    judgement: "Judgement"


def wanted_by_use_tool(arguments: Mapping[str, Any], deadline_s: float, waited_s: float = 0.0) -> Wanted:
    """What the arguments of use_tool say. Raises InvalidArguments."""
    params = arguments.get("params", {})
    faults = [(f"/{name}", "a text") for name in ("name", "query") if not isinstance(arguments.get(name, ""), str)]
    if not isinstance(params, Mapping):
        faults.append(("/params", "an object: the parameters of the tool"))
    astray = sorted(arguments.keys() - {"name", "query", "params"})  # the tool would run without what was meant for it
    faults += [(f"/{name}", "not known here; the tool's own parameters go into `params`") for name in astray]
    if faults:
        raise InvalidArguments(USE_TOOL, faults)
    name, query = arguments.get("name", ""), arguments.get("query", "")
    return Wanted(name=name, query=query, arguments=params, deadline_s=deadline_s, waited_s=waited_s)


async def call_tool(gateway: "Gateway", asker: "Asker", wanted: Wanted, host: Host) -> "Result":
    """The tool's own answer. Raises what stands against the call, and what the executor raises."""
    with recorded(gateway, asker.caller, wanted.name or wanted.query, wanted.arguments) as attempt:
        asker.caller.require("use")
        if wanted.query.strip():
            asker.caller.require("route")
        named = _at_hand(gateway, asker, wanted)
        ask = at_once if named else gateway.ask
        meant = await ask(lambda: _meant(gateway, asker, wanted, attempt, named))
        if meant.judgement.verdict == "ask":
            await agreed(host, meant.agent, meant.tool, wanted.arguments, meant.judgement.reason)
            meant = await gateway.ask(lambda: _as_agreed(gateway, asker, wanted, meant))
        call = ToolCall(
            agent=meant.agent,
            tool=meant.tool,
            arguments=wanted.arguments,
            deadline_s=wanted.deadline_s,
            waited_s=wanted.waited_s,
            caller="" if asker.caller == LOCAL else asker.caller.id,
            host=OnBehalf(host, meant.agent),
        )
        result = await gateway.executor.call(call)
        if result.get("isError") is True:
            attempt.error = TOOL_ERROR
        return result


type _Named = tuple["Agent", "Tool"] | None


def _at_hand(gateway: "Gateway", asker: "Asker", wanted: Wanted) -> _Named:
    """What a full name means, if to check it takes microseconds: small arguments, a short and simple schema.

    A name that nobody bears is searched for, and a foreign schema may be made to be slow.
    """
    if not gateway.is_here or wanted.query.strip() or not _are_small(wanted.arguments):
        return None
    found = named_outright(gateway.registry, wanted.name, asker.principal, None)
    is_quick = found and len(schema := found[1].input_schema) <= SHORT_SCHEMA_CHARS and not _SLOW.search(schema)
    return found if is_quick else None


def _are_small(arguments: Mapping[str, Any]) -> bool:
    """However large they are, no more than SMALL_ARGUMENTS of it is looked at."""
    left, todo = SMALL_ARGUMENTS, list[Any]([arguments])
    while todo:
        value = todo.pop()
        left -= len(value) if isinstance(value, (str, list, Mapping)) else 1
        if left < 0:
            return False
        if isinstance(value, Mapping):
            todo += (*value.keys(), *value.values())
        elif isinstance(value, list):
            todo += value
    return True


def _meant(gateway: "Gateway", asker: "Asker", wanted: Wanted, attempt: "Attempt", named: _Named) -> _Meant:
    """A tool that may run with these arguments. Raises UnknownName, AmbiguousTool, NotCallable, InvalidArguments."""
    registry, principal = gateway.registry, asker.principal
    within = gateway.agents_within(asker)
    if named and (within is None or named[0].id in within):
        agent, tool = named
    else:
        tool = tool_meant(registry, name=wanted.name, query=wanted.query, principal=principal, agent_ids=within)
        agent = registry.agent(tool.agent_id, principal=principal)
    attempt.target = tool.id
    return _judged(gateway, asker, wanted, agent, tool)


def _as_agreed(gateway: "Gateway", asker: "Asker", wanted: Wanted, agreed: _Meant) -> _Meant:
    """The tool as it is now: a person takes time. Raises as `_meant`; NotCallable also for what became another."""
    within = gateway.agents_within(asker)
    tool = tool_meant(gateway.registry, name=agreed.tool.id, principal=asker.principal, agent_ids=within)
    agent = gateway.registry.agent(tool.agent_id, principal=asker.principal)
    now = _judged(gateway, asker, wanted, agent, tool)
    if (now.tool.content_hash, now.agent.content_hash) != (agreed.tool.content_hash, agreed.agent.content_hash):
        raise NotCallable(tool.call_name, "it became another while a person was asked: look at it, and call it again")
    return now


def _judged(gateway: "Gateway", asker: "Asker", wanted: Wanted, agent: "Agent", tool: "Tool") -> _Meant:
    """Raises NotCallable, InvalidArguments."""
    judges = judging(gateway.registry, gateway.policy, asker.principal)
    judgement = judges.judge(agent, tool, by_name=is_exact_name(tool, wanted.name))
    if judgement.verdict == "deny":
        how = f'call use_tool(name="{tool.call_name}")' if judgement.needs_name else ""
        raise NotCallable(tool.call_name, judgement.reason, how=how)
    try:
        check_arguments(tool, wanted.arguments)
    except InvalidArguments:
        _refuse_out_of_reach(gateway, agent, tool)
        raise
    return _Meant(agent, tool, judgement)


def _refuse_out_of_reach(gateway: "Gateway", agent: "Agent", tool: "Tool") -> None:
    """Who mends its arguments should not learn only then that nothing runs this tool. Raises NotCallable."""
    if reason := gateway.reach.now().why_not(agent):
        told = (f"{reason}, whatever the arguments", TO_DO.get(reason, ""))
        raise NotCallable(tool.call_name, "; ".join(filter(None, told)))
