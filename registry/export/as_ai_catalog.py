"""The document of `/.well-known/ai-catalog.json`: AI Catalog 1.0, with a host (its conformance level 2).

Specification: Agent-Card/ai-catalog, specification/ai-catalog.md. Media type: `application/ai-catalog+json`.
"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlsplit

from waygraph.registry.errors import InvalidSetting
from waygraph.registry.model import Agent

MEDIA_TYPE = "application/ai-catalog+json"
AGENT_TYPE = "application/vnd.waygraph.agent+json"
OPENAPI_TYPE = "application/vnd.oai.openapi+json"
SPEC_VERSION = "1.0"


def ai_catalog(agents: Iterable[Agent], host_name: str, base_url: str) -> dict[str, Any]:
    """The service itself, then the agents, in the order given: those that the asker may see.

    `host_name` is for people; `base_url` is where the service is reached from outside, with or without a slash at its
    end. Raises InvalidSetting for one that has no host: what names an entry begins with it.
    """
    publisher, base = _address(base_url)
    host = {"displayName": host_name}
    service = {
        "identifier": _identifier(publisher, "service", "waygraph"),
        "type": OPENAPI_TYPE,
        "url": f"{base}/openapi.json",
        "displayName": host_name,
        "description": "Finds the agents, and which of their tools, that can do what is asked for.",
    }
    entries = [service, *(_entry(agent, publisher, base) for agent in agents)]
    return {"specVersion": SPEC_VERSION, "host": host, "entries": entries}


def _address(base_url: str) -> tuple[str, str]:
    """Host, and URL without a slash at its end; without user and password. Raises InvalidSetting."""
    try:
        url = urlsplit(base_url)
    except ValueError:  # brackets that hold no address
        url = urlsplit("")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidSetting("an AI catalogue needs the service's address, such as https://tools.example")
    place = url.netloc.rpartition("@")[2]
    return url.hostname, f"{url.scheme}://{place}{url.path.rstrip('/')}"


def _entry(agent: Agent, publisher: str, base: str) -> dict[str, Any]:
    # An identifier below the own host: what the entry leads to is this registry's record, which it publishes itself.
    return {
        "identifier": _identifier(publisher, agent.kind, agent.id),
        "type": AGENT_TYPE,
        "url": f"{base}/v1/agents/{quote(agent.id, safe='')}",
    } | _told(displayName=agent.name, description=agent.description, tags=list(agent.tags), version=agent.version)


def _identifier(*parts: str) -> str:
    """`urn:air:<publisher>:<kind>:<id>`: different parts make different URNs, and can be read back from them."""
    return ":".join(("urn", "air", *(quote(part, safe="") for part in parts)))


def _told(**members: Any) -> dict[str, Any]:
    """Without those that say nothing."""
    return {name: value for name, value in members.items() if value}
