"""A manifest that tells its number in every text and in how many agents and tools it has."""

from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.identity import sealed_agent, sealed_tool, tool_id
from waygraph.registry.model.nouns import Agent, Tool

SOURCE = "fleet"
WORD = "revision"


def agents_of(number: int) -> int:
    return 12 + number % 5


def tools_of(number: int) -> int:
    """Tools of each agent."""
    return 10 + number % 7


def manifest(number: int) -> Manifest:
    """A few hundred tools; every description holds `revision<number>`, and every count differs from the next one's."""
    return Manifest(
        source=SOURCE,
        namespace=SOURCE,
        entries=tuple(entry(f"agent{place}", number, tools_of(number)) for place in range(agents_of(number))),
    )


def small(number: int) -> Manifest:
    """The same with a handful of tools."""
    return Manifest(source=SOURCE, namespace=SOURCE, entries=tuple(entry(f"agent{n}", number, 3) for n in range(4)))


def entry(key: str, number: int, tools: int) -> AgentEntry:
    told = f"{WORD}{number}"
    agent = sealed_agent(Agent(id=key, name=key, description=f"Looks after harbours, {told}"))
    made = (
        sealed_tool(
            Tool(
                id=tool_id(key, f"tool{place}"),
                agent_id=key,
                name=f"tool{place}",
                description=f"Moors ship {place}, {told}",
                input_schema='{"type":"object"}',
            )
        )
        for place in range(tools)
    )
    return AgentEntry(key=key, agent=agent, tools=tuple(made))


def number_in(description: str) -> int:
    """The number that a description tells."""
    return int(description.rpartition(WORD)[2])
