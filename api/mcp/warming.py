"""Servers that are started before anybody calls them, and kept so: a first call would wait for the start."""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.transitions import owner_of

if TYPE_CHECKING:
    from waygraph.api.mcp import Warm
    from waygraph.api.mcp.gateway import Gateway
    from waygraph.registry.model.nouns import Agent

MOST_RECENT = 20
"""So many agents whose tools were called last, as the audit file has it."""
AUDIT_BYTES = 1024 * 1024
"""So much of its end is read."""
SHORTEST_ROUND_S = 1.0
_log = logging.getLogger("waygraph.gateway")


async def keep_warm(gateway: "Gateway", which: "Warm") -> None:
    """Starts the servers and, before they would be stopped for want of calls, looks after them again. Runs until it is
    cancelled; a server that does not start is logged, and tried again with the next round.
    """
    while True:
        try:
            agents = await gateway.ask(lambda: agents_to_warm(gateway, which))
        except (WaygraphError, TimeoutError) as error:
            _log.warning("no servers are warmed now: %s", error)
            agents = ()
        except Exception:  # noqa: BLE001 - the gateway would end with its warming
            _log.exception("no servers are warmed now")
            agents = ()
        async with anyio.create_task_group() as tasks:
            for agent in agents:
                tasks.start_soon(_warm, gateway, agent)
            await anyio.sleep(max(SHORTEST_ROUND_S, gateway.settings.call_idle_s / 2))


async def _warm(gateway: "Gateway", agent: "Agent") -> None:
    try:
        await gateway.executor.warm(agent)
    except WaygraphError as error:
        _log.warning("a server is not warm: %s", error)
    except Exception:  # noqa: BLE001 - whatever one server leads to, the others are warmed
        _log.exception("the server of %s is not warm", agent.id)


def agents_to_warm(gateway: "Gateway", which: "Warm") -> "Sequence[Agent]":
    """MCP servers that can be called here. Raises WaygraphError."""
    registry, why_not = gateway.registry, gateway.reach.now().why_not
    recent = set(recent_agents(gateway.settings.audit_path)) if which == "recent" else set()
    return [
        agent
        for agent in registry.agents()
        if agent.kind == "mcp_server"
        and (which == "all" or (agent.pinned if which == "pinned" else agent.id in recent))
        and not (agent.hidden or agent.pending or why_not(agent))
    ]


def recent_agents(audit: Path | None) -> list[str]:
    """Ids, the last called first; none without an audit file."""
    found: dict[str, None] = {}
    for tool_id in _read_calls(audit) if audit else ():
        found.setdefault(owner_of(tool_id))
        if len(found) == MOST_RECENT:
            break
    return list(found)


def _read_calls(audit: Path) -> Iterator[str]:
    """Tool ids of calls that ran."""
    try:
        with audit.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - AUDIT_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the first one may be half a line
        if isinstance(record, dict) and record.get("action") == "call" and record.get("outcome") == "ok":
            yield str(record.get("target"))
