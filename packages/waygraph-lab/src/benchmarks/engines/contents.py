"""What the engines are filled with and asked: an invented catalogue, one agent that changes, and all that is held."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import batched

import numpy as np
from numpy.typing import NDArray

from benchmarks.catalogue import catalogue
from waygraph.cypher import load
from waygraph.registry.graph.engine import BATCH_ROWS, GraphEngine, GraphSession
from waygraph.registry.graph.read import read_agents, read_claims, read_state, read_tools, read_vectors
from waygraph.registry.graph.schema import SCHEMA_VERSION, migrate
from waygraph.registry.graph.write import NewVectors, agent_props, tool_props
from waygraph.registry.model.identity import sealed_agent, sealed_tool, tool_id
from waygraph.registry.model.nouns import Agent, Tool

NOW = "2026-01-01T00:00:00+00:00"
SOURCE = "invented"
DIMENSION = 384
CHANGING, CHANGING_TOOLS = "changing", 10
"""The agent that each change writes anew, with all of its tools: they tell the number of the change."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What an engine answers. `numbers`: what the changing agent's tools tell; one, unless half a change is there.

    `sound`: whether every text is of its content hash. `texts`, `vectors`: digests of all that is held.
    """

    revision: int
    numbers: frozenset[int]
    sound: bool
    texts: str
    vectors: str


def fill(engine: GraphEngine, tools: int) -> None:
    """Agents with so many tools, their vectors and claims, in one transaction; revision 0."""
    migrate(engine, "here", NOW)
    props = {"revision": 0, "embedder": "", "embedder_spec": "none", "texts": "plain", "schema_version": SCHEMA_VERSION}
    engine.run(load("state/create"), props=props)

    def work(session: GraphSession) -> None:
        source = {"namespace": "", "rank": 0, "policy": "", "owner": "", "seen_at": NOW, "pause_s": 0, "failures": "[]"}
        session.run(load("sync/put_source"), name=SOURCE, **source)
        for batch in batched(_invented(tools), BATCH_ROWS // 10):
            _write(session, [agent for agent, _ in batch], [tool for _, tools in batch for tool in tools])

    engine.write(work)


def change(engine: GraphEngine, number: int) -> None:
    """Writes the changing agent as of this number, from 1, in one transaction that makes this revision."""
    made = range(CHANGING_TOOLS)
    agent = sealed_agent(Agent(id=CHANGING, name=CHANGING, description=f"Is of change {number}"))
    tools = [_tool(CHANGING, f"do_{place}", f"Does {place} of change {number}") for place in made]

    def work(session: GraphSession) -> None:
        session.run(load("state/advance"), expected=number - 1, commit=f"{number}")
        _write(session, [agent], tools, are_new=number == 1)

    engine.write(work)


def contents(session: GraphSession) -> Contents:
    """All that is held. Raises RegistryError."""
    state, agents, tools, claims = read_state(session), read_agents(session), read_tools(session), read_claims(session)
    assert state is not None
    vectors = read_vectors(session, agents=[*agents], tools=[each.tool.id for each in tools])
    seals = [sealed_agent(each.agent).content_hash == each.agent.content_hash for each in agents.values()]
    seals += [sealed_tool(each.tool).content_hash == each.tool.content_hash for each in tools]
    return Contents(
        revision=state.revision,
        numbers=frozenset(
            int(each.tool.description.rpartition(" ")[2]) for each in tools if each.tool.agent_id == CHANGING
        ),
        sound=all(seals),
        texts=_digest(repr((state, sorted(agents.items()), tools, claims)).encode()),
        vectors=_digest(b"".join(name.encode() + vectors[name].tobytes() for name in sorted(vectors))),
    )


def _invented(tools: int) -> Iterator[tuple[Agent, list[Tool]]]:
    for entry in catalogue(tools)["agents"]:
        agent = Agent(id=entry["id"], name=entry["name"], description=entry["description"], tags=tuple(entry["tags"]))
        yield sealed_agent(agent), [_tool(agent.id, each["name"], each["description"]) for each in entry["tools"]]


def _tool(agent: str, name: str, description: str) -> Tool:
    return sealed_tool(Tool(id=tool_id(agent, name), agent_id=agent, name=name, description=description))


def _write(session: GraphSession, agents: Sequence[Agent], tools: Sequence[Tool], *, are_new: bool = True) -> None:
    vectors = _vectors([*(agent.id for agent in agents), *(tool.id for tool in tools)])
    rows = [{"id": agent.id, "props": agent_props(agent, "") | vectors.props(agent.id)} for agent in agents]
    session.run(load("sync/put_agents"), rows=rows)
    if are_new:
        rows = [{"agent_id": tool.agent_id, "props": tool_props(tool, vectors)} for tool in tools]
        session.run(load("sync/create_tools"), rows=rows)
    else:
        session.run(
            load("sync/update_tools"), rows=[{"id": tool.id, "props": tool_props(tool, vectors)} for tool in tools]
        )
    claims = [
        {"agent_id": each.id, "key": each.id, "hash": each.content_hash, "since": NOW, "revision": 0} for each in agents
    ]
    session.run(load("sync/put_claims"), source=SOURCE, rows=claims)


def _vectors(ids: Sequence[str]) -> NewVectors:
    return NewVectors(vectors={each: _vector(each) for each in ids}, keys=dict.fromkeys(ids, "key"))


@lru_cache(maxsize=CHANGING_TOOLS + 1)
def _vector(entity: str) -> NDArray[np.float32]:
    """Of length 1, of shape (DIMENSION,), from a hash of the id."""
    drawn = np.random.default_rng(list(sha256(entity.encode()).digest())).normal(size=DIMENSION)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
