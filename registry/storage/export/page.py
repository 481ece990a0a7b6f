"""One HTML page with the registry as a map. Self-contained: it asks the network for nothing and may run only its own
script, named by hash in its content security policy. Whatever agents say of themselves stays data.
"""

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from waygraph.registry.graph.contents import Contents
from waygraph.registry.index.analyser import STOP_WORDS, terms
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.storage.export.page_layout import AGENT_RADIUS, Circle, Layout, lay_out, tool_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    from numpy.typing import NDArray

    Vectors = Mapping[str, NDArray[np.float32]]


HASHED_COLUMNS = 1024
_WORD = re.compile(r"[^\W\d_]{3,24}")
_VAGUE = STOP_WORDS | frozenset(
    """add agent agents allows api available based call create data delete example get given including information
    list manage mcp new one provides read return returns search server service set show support supports tool tools
    two update use used user users using via without access discovery miscellaneous various multiple including
    simple through different""".split()
)
"""Words that name no field of work."""


def features_of(
    agents: Sequence[Agent], tools_by_agent: Mapping[str, Sequence[Tool]], vectors: "Mapping[str, Matrix]"
) -> "Matrix":
    """The stored vectors, or in a registry without them hashed words: float32 of shape (agents, columns).

    Rows have length 1 or 0. `vectors`: agent id → float32 of shape (columns,).
    """
    if not vectors:
        return hashed_words([_words_of(agent, tools_by_agent[agent.id]) for agent in agents])
    dimension = len(next(iter(vectors.values())))
    rows = [vectors.get(agent.id, np.zeros(dimension, dtype=np.float32)) for agent in agents]
    return np.asarray(rows, dtype=np.float32).reshape(-1, dimension)


def hashed_words(documents: "Sequence[Sequence[str]]") -> "Matrix":
    """float32 of shape (documents, HASHED_COLUMNS), rows of length 1 or 0.

    A column is a hashed term; rare terms weigh more.
    """
    bearing = Counter(word for words in documents for word in set(words))
    matrix = np.zeros((len(documents), HASHED_COLUMNS), dtype=np.float32)
    for row, words in enumerate(documents):
        for word in words:
            matrix[row, crc32(word.encode()) % HASHED_COLUMNS] += math.log(1 + len(documents) / bearing[word])
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)


def region_names(
    agents: Sequence[Agent], tools_by_agent: Mapping[str, Sequence[Tool]], regions: Sequence[Sequence[int]]
) -> list[str]:
    """Two words a region that many of its agents use and others do not; tags count most."""
    words = [_plain_words(agent, tools_by_agent[agent.id]) for agent in agents]
    everywhere = Counter(word for weights in words for word in weights)
    return [" · ".join(_telling([words[row] for row in rows], everywhere, len(agents))) for rows in regions]


def _telling(members: Sequence[Mapping[str, int]], everywhere: Mapping[str, int], agents: int) -> list[str]:
    weight: Counter[str] = Counter()
    for words in members:
        weight.update(words)
    scores = {word: number * math.log(1 + agents / everywhere[word]) for word, number in weight.items()}
    best: list[str] = []
    for word in sorted(scores, key=lambda word: (-scores[word], word)):
        if len(best) < 2 and not any(terms(word) == terms(other) for other in best):
            best.append(word)
    return best


def _plain_words(agent: Agent, tools: Sequence[Tool]) -> dict[str, int]:
    """Word → weight: 3 for a tag, 2 in the agent's name, 1 in its description or the names of its tools."""
    weights: dict[str, int] = {}
    description = " ".join([agent.description[:2000], *(tool.name for tool in tools)]).replace("_", " ")
    for weight, text in ((1, description), (2, agent.name), (3, " ".join(agent.tags))):
        weights |= {word: weight for word in _WORD.findall(text.casefold()) if word not in _VAGUE}
    return weights


def _words_of(agent: Agent, tools: Sequence[Tool]) -> list[str]:
    names = " ".join(tool.name for tool in tools)
    return terms(f"{agent.name} {agent.description[:2000]} {' '.join(agent.tags)} {names}")


POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'"
)
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script element or begin another, and how a JSON text says it otherwise."""


def as_page(contents: Contents, vectors: "Vectors") -> str:
    """The map as one HTML page. `vectors`: agent id → float32 of shape (dimension,); if empty, words decide."""
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
        agents, tools_by_agent = list(contents.overlaid_agents.values()), contents.tools_by_agent()
        layout = lay_out(
            features_of(agents, tools_by_agent, vectors), [len(tools_by_agent[agent.id]) for agent in agents]
        )
        members = [
            [row for row, region in enumerate(layout.region_of) if region == number]
            for number in range(len(layout.regions))
        ]
        return cls(
            contents=contents,
            agents=agents,
            owned=tools_by_agent,
            layout=layout,
            names=region_names(agents, tools_by_agent, members),
        )

    def data(self) -> dict[str, Any]:
        """What page.js reads."""
        return {
            "revision": self.contents.state.revision,
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
        fields = {name: getattr(agent, name) for name in ("id", "name", "description", "kind", "version", "transport")}
        lists = {"tags": agent.tags, "visibleTo": agent.visible_to, "pinned": agent.pinned, "hidden": agent.hidden}
        return fields | lists | _circle(self.layout.agents[row]) | {"region": self.layout.region_of[row]}

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
    return files("waygraph.registry.storage.export").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """As a content security policy names an inline element."""
    return base64.b64encode(sha256(text.encode()).digest()).decode()
