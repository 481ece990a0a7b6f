"""Which tool was called after which, in every place: learned, routed by, hidden, forgotten, copied, checked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.shelf import Edition, Shelf, filled
from waygraph import Principal, Query
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.read import read_transitions
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.identity import sealed_agent, sealed_tool
from waygraph.registry.model.nouns import Agent, Tool, Turn
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import LearningReport, count_transitions
from waygraph.registry.operators.transition_counts import forget_transitions, learn_transitions
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import migrate

SEND = "deliver a parcel"
AT = "2026-05-01T00:00:00+00:00"
PUBLIC, CREW = Principal(), Principal(groups=("crew",))


@pytest.fixture
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    """Four agents that say the same, with two tools each; agent-3 is one group's."""
    entries = []
    for number in range(4):
        agent = sealed_agent(
            Agent(id=f"agent-{number}", name=f"Agent {number}", visible_to=("crew",) if number == 3 else ())
        )
        tools = tuple(
            sealed_tool(Tool(id=f"{agent.id}/{name}", agent_id=agent.id, name=name, description=f"{SEND} by {name}"))
            for name in ("cart", "drone")
        )
        entries.append(AgentEntry(key=agent.id, agent=agent, tools=tools))
    with filled(shelf.empty(), Edition(embedder="none")) as opened:
        opened.operator.forget(opened.sources()[0].name)
        sync(opened, Manifest(source="alike", entries=tuple(entries)))
        yield opened


def learn(registry: LocalRegistry, *conversations: Sequence[str], most: int = 1_000) -> LearningReport:
    counts = count_transitions(conversations, AT)
    return registry.change(lambda session: learn_transitions(session, counts, most))


def answers(registry: LocalRegistry, *calls: str, principal: Principal | None = PUBLIC) -> list[tuple[str, float]]:
    """Agents and tools with their scores."""
    query = Query(text=SEND, limit=20, history=tuple(Turn(role="call", tool=call) for call in calls))
    route, found = registry.route(query, principal=principal), registry.find_tools(query, principal=principal)
    return [(m.agent.id, m.score) for m in route.matches] + [(m.tool.id, m.score) for m in found.matches]


def test_what_followed_comes_first(registry: LocalRegistry) -> None:
    """By the last two calls, where those were counted; with a vote that says so, in graph and route alike."""
    learned = learn(
        registry,
        *[["agent-0/cart", "agent-1/cart", "agent-2/drone"]] * 9,
        ["agent-2/cart", "agent-1/cart", "agent-1/drone"],
    )
    assert (learned.transitions, learned.unknown) == (16, ())
    assert answers(registry, "agent-0/cart", "agent-1/cart")[0][0] == "agent-2"
    query = Query(text=SEND, history=(Turn(role="call", tool="agent-0/cart"), Turn(role="call", tool="agent-1/cart")))
    best = registry.find_tools(query).matches[0]
    assert best.tool.id == "agent-2/drone"
    assert "follows" in {vote.leg for vote in best.votes}
    rows = registry.operator.cypher(
        "MATCH (:Tool {id: 'agent-1/cart'})-[f:FOLLOWED_BY]->(t:Tool) WHERE f.before = '' "
        "RETURN t.id AS tool, f.count AS count ORDER BY tool"
    ).rows
    assert [tuple(row) for row in rows] == [("agent-1/drone", 1.0), ("agent-2/drone", 9.0)]


def test_what_is_hidden_tells_nothing(registry: LocalRegistry) -> None:
    """Neither by a score nor by what is left for the others, as first, next, before or model of a near tool."""
    learn(registry, ["agent-0/cart", "agent-1/cart", "agent-2/drone"])
    histories = (["agent-0/cart", "agent-1/cart"], ["agent-1/cart"], ["agent-3/cart"], ["agent-3/cart", "agent-1/cart"])
    seen, of_crew = ([answers(registry, *calls, principal=who) for calls in histories] for who in (PUBLIC, CREW))
    learn(
        registry,
        *[["agent-3/drone", "agent-1/cart", "agent-3/cart", "agent-2/cart"]] * 5,
        ["agent-3/drone", "agent-1/cart"],
    )
    assert [answers(registry, *calls) for calls in histories] == seen
    assert [answers(registry, *calls, principal=CREW) for calls in histories] != of_crew


def test_what_is_used_together_is_found_together(registry: LocalRegistry) -> None:
    """Also two calls apart, both ways and by one notice; once is chance, and what is hidden brings nothing."""
    entries = []
    for name, text in {"post": "weigh a letter", "mint": "print a stamp", "host": "greet a guest"}.items():
        tool = sealed_tool(Tool(id=f"{name}/own", agent_id=name, name="own", description=text))
        entries.append(AgentEntry(key=name, agent=sealed_agent(Agent(id=name, name=name)), tools=(tool,)))
    sync(registry, Manifest(source="others", entries=tuple(entries)))
    query = Query(text="weigh letter", limit=3)

    def legs(query: Query) -> set[str]:
        return {vote.leg for match in registry.find_tools(query, principal=PUBLIC).matches for vote in match.votes}

    learn(registry, ["post/own", "mint/own"])
    assert "together" not in legs(query)
    learn(registry, *[["mint/own", "host/own", "post/own"], ["post/own", "agent-3/cart"]] * 9)
    answer = registry.find_tools(query, principal=PUBLIC)
    assert [match.tool.id for match in answer.matches] == ["post/own", "mint/own", "host/own"]
    [vote] = [vote for vote in answer.matches[1].votes if vote.leg == "together"]
    assert vote.entity_id == "post/own"
    assert vote.score == pytest.approx(10 / 21)
    assert answer.matches[1].score == pytest.approx(sum(each.contribution for each in answer.matches[1].votes))
    pairs = {notice.about: notice.text for notice in answer.notices if notice.code == "together"}
    assert list(pairs) == [("mint/own", "post/own"), ("host/own", "post/own")]
    assert "10 of 19 calls" in pairs["mint/own", "post/own"]
    after_a_call = replace(query, history=(Turn(role="call", tool="post/own"),))
    assert "together" not in legs(after_a_call)


def test_what_is_not_there_is_left_out(registry: LocalRegistry) -> None:
    learned = learn(registry, ["agent-0/cart", "agent-0/plane", "nobody/cart", "agent-1/cart"])
    assert learned.unknown == ("agent-0/plane", "nobody", "nobody/cart")
    assert [each.key for each in registry.read(read_transitions)] == [
        ("", "", "agent-0"),
        ("", "", "agent-0/cart"),
        ("", "agent-0", "agent-0"),
    ]
    assert learn(registry).revision == learned.revision


def test_counts_add_up_and_the_least_go(registry: LocalRegistry) -> None:
    often, seldom = ["agent-0/cart", "agent-1/cart"], ["agent-1/cart", "agent-2/cart"]
    learn(registry, often, seldom)
    assert learn(registry, often, most=4).transitions == 4
    assert [(each.first, each.next, each.count) for each in registry.read(read_transitions)] == [
        ("", "agent-0", 2),
        ("", "agent-0/cart", 2),
        ("agent-0", "agent-1", 2),
        ("agent-0/cart", "agent-1/cart", 2),
    ]


def test_a_removed_agent_takes_its_counts_along_and_forgetting_all_of_them(registry: LocalRegistry) -> None:
    before = answers(registry, "agent-1/cart")
    learn(registry, ["agent-0/cart", "agent-1/cart", "agent-2/drone"])
    registry.operator.remove("agent-0")
    left = {name for each in registry.read(read_transitions) for name in (each.first, each.next)}
    assert left == {"agent-1", "agent-1/cart", "agent-2", "agent-2/drone"}
    registry.operator.set("agent-0", removed=False)
    forgotten = registry.change(forget_transitions)
    assert registry.change(forget_transitions) == forgotten
    assert registry.read(read_transitions) == []
    assert [name for name, _ in answers(registry, "agent-1/cart")] == [
        name for name, _ in before if not name.startswith("agent-0")
    ]


def test_a_copy_holds_the_counts_and_is_sound(registry: LocalRegistry, tmp_path: Path) -> None:
    learn(registry, ["agent-0/cart", "agent-1/cart", "agent-2/drone"])
    local = registry
    assert [finding for finding in examine(local, deep=True) if finding.check == "transitions" and not finding.ok] == []
    with LocalRegistry.open(tmp_path / "copy.grafeo", embedder="none", settings=Settings(), environ={}) as copy:
        migrate(local.store, copy.store)
        assert copy.read(read_transitions) == registry.read(read_transitions)
        assert answers(copy, "agent-1/cart") == answers(registry, "agent-1/cart")
        assert [f for f in examine(copy, deep=True) if "transitions" in f.check + f.detail]
        assert all(f.ok for f in examine(copy, deep=True) if f.check != "embedder")


def test_a_tool_without_counts_goes_by_those_like_it(shelf: Shelf) -> None:
    """By vectors; what stays with an agent stays with the agent at hand."""
    with filled(shelf.empty(), Edition()) as registry:
        mail = [tool.id for tool in registry.tools("pigeon-mail")]
        before = chances(registry)
        learn(registry, *[mail[:2]] * 5)
        carried = {tool: found for tool, found in chances(registry).items() if found and not before[tool]}
        assert len(carried) > 2
        for tool, found in carried.items():
            assert 0 < sum(found.values()) <= 1
            assert {name.partition("/")[0] for name in found} == {tool.partition("/")[0]}


def test_what_fits_behind_a_call_counts_none(shelf: Shelf) -> None:
    """So that a request without a history is not read for calls before it, which costs a second fusion."""
    with filled(shelf.empty(), Edition()) as registry:
        gives = '{"type": "object", "properties": {"parcel_number": {"type": "string"}}}'
        takes = '{"type": "object", "required": ["parcel_number"]}'
        send = Tool(id="post/send", agent_id="post", name="send", output_schema=gives)
        track = Tool(id="post/track", agent_id="post", name="track", input_schema=takes)
        agent, tools = sealed_agent(Agent(id="post", name="Post")), (sealed_tool(send), sealed_tool(track))
        entry = AgentEntry(key="post", agent=agent, tools=tools)
        sync(registry, Manifest(source="post", entries=(entry,)))
        transitions = registry.store.index(fresh=True).transitions
        assert transitions is not None
        assert transitions.follows(["post/send"], None)["post/track"] > 0
        assert not transitions.is_counted
        learn(registry, ["post/send", "post/track"])
        counted = registry.store.index(fresh=True).transitions
        assert counted is not None
        assert counted.is_counted


def chances(registry: LocalRegistry) -> dict[str, Mapping[str, float]]:
    """After each tool alone."""
    transitions = registry.store.index(fresh=True).transitions
    return {tool.id: transitions.follows([tool.id], None) if transitions else {} for tool in registry.tools()}
