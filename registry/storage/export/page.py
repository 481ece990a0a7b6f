"""One HTML page with the registry as a map. Self-contained: it asks the network for nothing and may run only its own
script, named by hash in its content security policy. Whatever agents say of themselves stays data.
"""

import base64
import json
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import Any

from waygraph.registry.graph.contents import Contents
from waygraph.registry.storage.export.map import lay_out_map

POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script element or begin another, and how a JSON text says it otherwise."""


def as_page(contents: Contents) -> str:
    """The map as one HTML page. By the vectors of the agents; if there are none, words decide."""
    style, script = _asset("page.css"), _asset("drawing.js") + _asset("page.js")
    return Template(_asset("page.html")).substitute(
        policy=POLICY.format(script=_digest(script), style=_digest(style)),
        style=style,
        script=script,
        data=json_in_html(_page_data(contents)),
    )


def json_in_html(value: object) -> str:
    """JSON that cannot end the element it stands in, nor begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _IN_SCRIPT.items():
        text = text.replace(character, escape)
    return text


def _page_data(contents: Contents) -> dict[str, Any]:
    """What page.js reads: the map, and all that is told of what stands on it."""
    agents, tools_by_agent = contents.overlaid_agents, contents.tools_by_agent()
    vectors = {each: vector for each, vector in contents.vectors.items() if each in agents}
    map_data = lay_out_map(list(agents.values()), tools_by_agent, vectors, contents.state.revision)
    tools = {tool.id: tool for owned in tools_by_agent.values() for tool in owned}
    agent_fields = ("description", "version", "transport", "visible_to")
    tool_fields = ("description", "input_schema", "output_schema", "annotations")
    return {
        **asdict(map_data),
        "agents": [asdict(each) | _fields(agents[each.id], agent_fields) for each in map_data.agents],
        "tools": [asdict(each) | _fields(tools[each.id], tool_fields) for each in map_data.tools],
        "sources": [
            {"name": source.name, "seen": source.seen_at, "agents": source.agent_ids} for source in contents.sources
        ],
    }


def _fields(noun: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(noun, name) for name in names}


def _asset(name: str) -> str:
    return files("waygraph.registry.storage.export").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """As a content security policy names an inline element."""
    return base64.b64encode(sha256(text.encode()).digest()).decode()
