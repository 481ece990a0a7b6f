"""A person says yes to one call, or it does not run."""

import json
from collections.abc import Mapping
from typing import Any

from waygraph.ingest.calling.call import Host, NotAnswered
from waygraph.registry.errors import NeedsConsent, NotCallable
from waygraph.registry.model import Agent, Tool

ARGUMENTS_CHARS = 2_000
"""Of the arguments that a person is shown."""
_CANNOT_ASK = (
    "this host cannot ask one. An operator can allow the tool in the policy file (WAYGRAPH_POLICY_FILE), or use a host "
    "that takes MCP elicitation"
)
_YES = "run"


async def agreed(host: Host, agent: Agent, tool: Tool, arguments: Mapping[str, Any], reason: str) -> None:
    """Returns if a person lets this call run. Raises NeedsConsent where nobody can be asked, NotCallable for a no."""
    name = tool.call_name
    if not host.can("elicitation/create"):
        raise NeedsConsent(name, f"{reason}; {_CANNOT_ASK}" if reason else _CANNOT_ASK)
    try:
        answer = await host.ask("elicitation/create", _question(agent, tool, arguments))
    except NotAnswered as exc:
        raise NeedsConsent(name, f"one was asked and gave no answer ({exc})") from exc
    content = answer.get("content")
    if answer.get("action") == "accept" and isinstance(content, Mapping) and content.get(_YES) is True:
        return
    raise NotCallable(name, "a person was asked whether it may run, and did not agree")


def _question(agent: Agent, tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    # As ASCII no character of the arguments hides or turns around what a person reads.
    told = json.dumps(arguments, indent=1)
    shown = told if len(told) <= ARGUMENTS_CHARS else f"{told[:ARGUMENTS_CHARS]}… ({len(told):,} characters)"
    return {
        "mode": "form",
        "message": f"May the tool {tool.name!r} of {agent.name!r} ({tool.id}) run with these arguments?\n{shown}",
        "requestedSchema": {
            "type": "object",
            "properties": {_YES: {"type": "boolean", "title": "Run it", "default": False}},
            "required": [_YES],
        },
    }
