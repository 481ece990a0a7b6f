"""One HTML page with the registry as a map. Self-contained: it asks the network for nothing and may run only its own
script, named by hash in its content security policy. Whatever agents say of themselves stays data."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from waygraph.registry.export.contents import Contents
from waygraph.registry.export.features import features_of, region_names
from waygraph.registry.export.layout import AGENT_RADIUS, Circle, Layout, lay_out, tool_places
from waygraph.registry.model import Agent, Tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = Mapping[str, NDArray[np.float32]]

POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script element or begin another, and how a JSON text says it otherwise."""


def as_page(contents: Contents, vectors: "Vectors") -> str:
    style, script = _asset("page.css"), _asset("page.js")
    return Template(_asset("page.html")).substitute(
        policy=POLICY.format(script=_digest(script), style=_digest(style)),
        style=style,
        script=script,
        data=json_in_html(_Map.of(contents, vectors).data()),
    )


def json_in_html(value: object) -> str:
    """JSON that cannot end the element it stands in, nor begin another."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escape in _IN_SCRIPT.items():
        text = text.replace(character, escape)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    contents: Contents
    agents: Sequence[Agent]
    owned: Mapping[str, Sequence[Tool]]
    layout: Layout
    names: Sequence[str]
    """Of the regions."""

    @classmethod
    def of(cls, contents: Contents, vectors: "Vectors") -> "_Map":
        agents, owned = contents.agents_as_they_hold(), contents.tools_by_agent()
        layout = lay_out(features_of(agents, owned, vectors), [len(owned[agent.id]) for agent in agents])
        members = [
            [row for row, region in enumerate(layout.region_of) if region == number]
            for number in range(len(layout.regions))
        ]
        return cls(
            contents=contents, agents=agents, owned=owned, layout=layout, names=region_names(agents, owned, members)
        )

    def data(self) -> dict[str, Any]:
        """What page.js reads."""
        return {
            "revision": self.contents.revision,
            "agentRadius": AGENT_RADIUS,
            "regions": [
                {"name": name, **_circle(circle)} for name, circle in zip(self.names, self.layout.regions, strict=True)
            ],
            "agents": [self._agent(row, agent) for row, agent in enumerate(self.agents)],
            "tools": [tool for row, agent in enumerate(self.agents) for tool in self._tools(row, agent)],
            "sources": [
                {"name": source.name, "seen": source.seen_at, "agents": source.agent_ids}
                for source in self.contents.sources
            ],
        }

    def _agent(self, row: int, agent: Agent) -> dict[str, Any]:
        said = {name: getattr(agent, name) for name in ("id", "name", "description", "kind", "version", "transport")}
        lists = {"tags": agent.tags, "visibleTo": agent.visible_to, "pinned": agent.pinned, "hidden": agent.hidden}
        return said | lists | _circle(self.layout.agents[row]) | {"region": self.layout.region_of[row]}

    def _tools(self, row: int, agent: Agent) -> list[dict[str, Any]]:
        tools = self.owned[agent.id]
        places = tool_places(self.layout.agents[row], len(tools))
        return [_tool(tool, row, place) for tool, place in zip(tools, places, strict=True)]


def _tool(tool: Tool, agent_row: int, place: tuple[float, float]) -> dict[str, Any]:
    return {
        "id": tool.id,
        "agent": agent_row,
        "name": tool.name,
        "description": tool.description,
        "input": tool.input_schema,
        "output": tool.output_schema,
        "annotations": tool.annotations,
        "tags": tool.tags,
        "x": round(place[0], 1),
        "y": round(place[1], 1),
    }


def _circle(circle: Circle) -> dict[str, float]:
    return {"x": round(circle.x, 1), "y": round(circle.y, 1), "r": round(circle.radius, 1)}


def _asset(name: str) -> str:
    return files("waygraph.registry.export").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """As a content security policy names an inline element."""
    return base64.b64encode(sha256(text.encode()).digest()).decode()
