"""A person says yes to one call, or it does not run."""

import json
from collections.abc import Mapping
from typing import Any

from waygraph.ingest.calling.call import Host, NotAnswered
from waygraph.registry.errors import NeedsConsent, NotCallable
from waygraph.registry.model import Agent, Tool

ARGUMENTS_CHARS = 2_000
"""A person is shown all of the arguments. With more a call does not run: what matters could stand at their end."""
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
    # As ASCII no character of the arguments hides or turns around what a person reads.
    shown = json.dumps(arguments, indent=1)
    if len(shown) > ARGUMENTS_CHARS:
        raise NotCallable(
            name,
            f"a person has to agree, and can be shown {ARGUMENTS_CHARS:,} characters of arguments, not {len(shown):,}",
        )
    try:
        answer = await host.ask("elicitation/create", _question(agent, tool, shown, reason))
    except NotAnswered as exc:
        raise NeedsConsent(name, f"one was asked and gave no answer ({exc})") from exc
    content = answer.get("content")
    if answer.get("action") == "accept" and isinstance(content, Mapping) and content.get(_YES) is True:
        return
    because = f" ({reason})" if reason else ""
    raise NotCallable(name, f"a person was asked whether it may run{because}, and did not agree")


def _question(agent: Agent, tool: Tool, shown: str, reason: str) -> dict[str, Any]:
    asked = f"May the tool {tool.name!r} of {agent.name!r} ({tool.id}) run with these arguments?\n{shown}"
    return {
        "mode": "form",
        "message": f"{asked}\nYou are asked because: {reason}" if reason else asked,
        "requestedSchema": {
            "type": "object",
            "properties": {_YES: {"type": "boolean", "title": "Run it", "default": False}},
            "required": [_YES],
        },
    }
