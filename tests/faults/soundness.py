"""What a registry must be after anything that befell it: whole, and at one revision."""

from pathlib import Path

from tests.faults.fleet import agents_of, number_in, tools_of
from tests.faults.programs import opened
from waygraph.cypher import load
from waygraph.registry.identity import sealed_agent, sealed_tool


def sound_revision(path: Path | str) -> int:
    """Opens the registry as any reader does, checks that graph and index show one whole manifest, and says which."""
    with opened(path) as registry:
        state = registry.status().state
        [counts], orphans, [stored] = registry.read(
            lambda session: [session.run(load(name)) for name in ("check/counts", "check/orphans", "state/read")]
        )
        assert orphans == []
        agents, tools = registry.agents(), registry.tools()
    number = state.revision
    assert stored["revision"] == number
    assert counts["agents"] == counts["claims"] == state.agents == len(agents) == agents_of(number)
    assert counts["tools"] == counts["owns"] == state.tools == len(tools) == agents_of(number) * tools_of(number)
    texts = [agent.description for agent in agents] + [tool.description for tool in tools]
    assert set(map(number_in, texts)) == {number}
    assert all(sealed_agent(agent).content_hash == agent.content_hash for agent in agents)
    assert all(sealed_tool(tool) == tool for tool in tools)
    return number
