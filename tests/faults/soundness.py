"""What a registry must be after anything that befell it: whole, and at one revision."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.faults.fleet import agents_of, number_in, tools_of
from tests.faults.programs import opened
from waygraph.cypher import load
from waygraph.registry.model.changes import Change
from waygraph.registry.model.identity import sealed_agent, sealed_tool


def sound_revision(path: Path | str) -> int:
    """Opens the registry as any reader does, checks that graph and index show one whole manifest, and says which."""
    with opened(path) as registry:
        state = registry.status().state
        [counts], orphans, [stored] = registry.read(
            lambda session: [session.run(load(name)) for name in ("check/counts", "check/orphans", "state/read")]
        )
        assert orphans == []
        agents, tools = registry.agents(), registry.tools()
        found = registry.operator.changes(limit=None)
        log = [change for change in found if not change.is_arrival]
    number = state.revision
    assert stored["revision"] == number
    assert counts["agents"] == counts["claims"] == state.agents == len(agents) == agents_of(number)
    assert counts["tools"] == counts["owns"] == state.tools == len(tools) == agents_of(number) * tools_of(number)
    texts = [agent.description for agent in agents] + [tool.description for tool in tools]
    assert set(map(number_in, texts)) == {number}
    assert all(sealed_agent(agent).content_hash == agent.content_hash for agent in agents)
    assert all(sealed_tool(tool) == tool for tool in tools)
    assert_tells_of(log, number)
    return number


def changes_of(number: int) -> int:
    """How many changes a revision of the fleet is after the one before it, arrivals apart; the first is none."""
    if number == 1:
        return 0
    stay, go = agents_of(number), max(0, agents_of(number - 1) - agents_of(number))
    stay = min(stay, agents_of(number - 1))
    return go + stay * (1 + max(tools_of(number - 1), tools_of(number)))


def assert_tells_of(log: Sequence[Change], number: int) -> None:
    """The log, newest first, holds every change of this revision, and none of a later one."""
    newest = [change for change in log if change.revision == number]
    assert list(log[: len(newest)]) == newest
    assert len(newest) == changes_of(number)
    after = [json.loads(change.after)["description"] for change in newest if change.what != "removed"]
    assert set(map(number_in, after)) <= {number}
