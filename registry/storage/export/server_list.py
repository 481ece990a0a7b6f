"""The agents as the MCP registry lists servers (its API v0.1, `server.json` of 2025-12-11), so that hosts and other
registries read this one as they read that.
"""

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import Agent, JsonText, parse_field

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
MAX_DESCRIPTION_CHARS = 100
"""Of a server.json, by its schema."""
NO_VERSION = "0.0.0"
"""Of an agent that states none; the schema requires one."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_SHORT_HASH_CHARS = 8


def servers(agents: Iterable[tuple[Agent, JsonText]], base_url: str, *, gateway: bool) -> Iterator[dict[str, Any]]:
    """The gateway, if the service has one, then each MCP server that does not wait for approval; by name.

    `agents`: with what the asker may read of their transports. `base_url`: where the service is reached from outside,
    without a slash at its end. Each is named below the own host, as what is told of it is this registry's word.
    """
    namespace = ".".join(reversed((urlsplit(base_url).hostname or "localhost").replace(":", "-").split(".")))
    entries = [
        _entry(f"{namespace}/{_legal(agent.id)}", agent.name, agent.description, agent.version, _remote(transport))
        for agent, transport in agents
        if agent.kind == "mcp_server" and not agent.pending
    ]
    entries.sort(key=lambda entry: entry["server"]["name"])
    if gateway:
        description = "Finds the agents and tools that can do what is asked for, and calls them."
        remote = {"type": "streamable-http", "url": f"{base_url}/mcp"}
        yield _entry(f"{namespace}/-waygraph", "Waygraph", description, version("waygraph"), remote)
    yield from entries


def _legal(agent_id: str) -> str:
    """The id, if the format allows it; else what is legal of it and a short hash, so that no two become one."""
    legal = _ILLEGAL.sub("_", agent_id)
    return legal if legal == agent_id else f"{legal}_{digest(agent_id)[:_SHORT_HASH_CHARS]}"


def _remote(transport: JsonText) -> dict[str, str] | None:
    """None where there is no address, or none that the asker may read. Headers are never told."""
    fields = parse_field(transport)
    url = fields.get("url") if isinstance(fields, dict) else None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    return {"type": "sse" if fields.get("type") == "sse" else "streamable-http", "url": url}


def _entry(
    name: str, title: str, description: str, stated_version: str, remote: dict[str, str] | None
) -> dict[str, Any]:
    brief = description if len(description) <= MAX_DESCRIPTION_CHARS else f"{description[: MAX_DESCRIPTION_CHARS - 1]}…"
    server = {
        "$schema": SCHEMA,
        "name": name,
        "title": title,
        "description": brief or title,
        "version": stated_version or NO_VERSION,
        **({"remotes": [remote]} if remote else {}),
    }
    return {"server": server, "_meta": {OFFICIAL: {"status": "active", "isLatest": True}}}
