"""The whole registry as a map: where each agent and tool stands, made once a revision for who sees the same."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from waygraph.registry.embedding.embedder import Matrix, Vector, unit_rows
from waygraph.registry.index.analyser import STOP_WORDS, terms
from waygraph.registry.index.names import seen_tools, visible_agents
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.nouns import Agent, Principal, Tool
from waygraph.registry.model.pictures import Map, MapAgent, MapRegion, MapTool
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.storage.export.page_layout import AGENT_RADIUS, lay_out, tool_places

type Vectors = Mapping[str, Vector]

TEXT_CHARS = 200
"""Of a description, as the map has it."""


def read_map(
    index: SearchIndex, principal: Principal | None
) -> tuple[list[Agent], dict[str, list[Tool]], Vectors, int]:
    """What `lay_out_map` takes, of what the principal may see."""
    agents = visible_agents(index, principal)
    ids = [agent.id for agent in agents]
    tools: dict[str, list[Tool]] = {agent_id: [] for agent_id in ids}
    for tool in seen_tools(
        index, [each for tool_ids in index.tool_ids_of(ids).values() for each in tool_ids], principal
    ):
        tools[owner_of(tool.id)].append(tool)
    return agents, tools, index.vectors_of(ids), index.state.revision


def lay_out_map(
    agents: Sequence[Agent], tools_by_agent: Mapping[str, Sequence[Tool]], vectors: Vectors, revision: int
) -> Map:
    """`vectors`: agent id → float32 of shape (dimension,); if empty, words decide. Nothing else moves anything."""
    layout = lay_out(features_of(agents, tools_by_agent, vectors), [len(tools_by_agent[agent.id]) for agent in agents])
    members: list[list[int]] = [[] for _ in layout.regions]
    map_agents: list[MapAgent] = []
    map_tools: list[MapTool] = []
    for row, (agent, circle, region) in enumerate(zip(agents, layout.agents, layout.region_of, strict=True)):
        members[region].append(row)
        facts = {"kind": agent.kind, "is_pinned": agent.pinned, "is_hidden": agent.hidden, "region": region}
        map_agents.append(MapAgent(**_facts(agent, circle.x, circle.y, **facts, r=round(circle.radius, 1))))
        own_tools = tools_by_agent[agent.id]
        places = tool_places(circle, len(own_tools))
        map_tools += [MapTool(**_facts(tool, *at), agent=row) for tool, at in zip(own_tools, places, strict=True)]
    regions = (
        MapRegion(name=name, x=round(each.x, 1), y=round(each.y, 1), r=round(each.radius, 1))
        for name, each in zip(region_names(agents, tools_by_agent, members), layout.regions, strict=True)
    )
    return Map(
        revision=revision,
        agent_radius=AGENT_RADIUS,
        regions=tuple(regions),
        agents=tuple(map_agents),
        tools=tuple(map_tools),
    )


def _facts(noun: Agent | Tool, x: float, y: float, **more: object) -> dict[str, Any]:
    own = {"id": noun.id, "name": noun.name, "description": noun.description[:TEXT_CHARS], "tags": noun.tags}
    return {**own, **more, "x": round(x, 1), "y": round(y, 1)}


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
    agents: Sequence[Agent], tools_by_agent: Mapping[str, Sequence[Tool]], vectors: Mapping[str, Matrix]
) -> Matrix:
    """The stored vectors, or in a registry without them hashed words: float32 of shape (agents, columns).

    Rows have length 1 or 0. `vectors`: agent id → float32 of shape (columns,).
    """
    if not vectors:
        return hashed_words([_words_of(agent, tools_by_agent[agent.id]) for agent in agents])
    dimension = len(next(iter(vectors.values())))
    rows = [vectors.get(agent.id, np.zeros(dimension, dtype=np.float32)) for agent in agents]
    return np.asarray(rows, dtype=np.float32).reshape(-1, dimension)


def hashed_words(documents: Sequence[Sequence[str]]) -> Matrix:
    """float32 of shape (documents, HASHED_COLUMNS), rows of length 1 or 0.

    A column is a hashed term; rare terms weigh more.
    """
    bearing = Counter(word for words in documents for word in set(words))
    matrix = np.zeros((len(documents), HASHED_COLUMNS), dtype=np.float32)
    for row, words in enumerate(documents):
        for word in words:
            matrix[row, crc32(word.encode()) % HASHED_COLUMNS] += math.log(1 + len(documents) / bearing[word])
    return unit_rows(matrix)


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
