"""Whatever a source says in whatever order: what waits is found by nothing, and approval lets all of it in."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.mcp_servers import describe_tools
from waygraph.ingest.sync.apply import sync
from waygraph.ingest.sync.diff import Judge
from waygraph.registry.model.changes import AgentEntry, Policy
from waygraph.registry.model.identity import sealed_agent, sealed_tool, tool_id
from waygraph.registry.model.nouns import Agent, Query, Tool
from waygraph.registry.registry import Registry

WORDS = "moors ships"


def agent_of(key: str, text: str = "") -> Agent:
    return sealed_agent(Agent(id=key, name=key, description=f"{WORDS} {text}"))


def tool_of(key: str, name: str, text: str = "", tags: tuple[str, ...] = ()) -> Tool:
    made = Tool(id=tool_id(key, name), agent_id=key, name=name, description=f"{WORDS} {text}", tags=tags)
    return sealed_tool(made)


def entry(key: str, text: str, tools: Sequence[tuple[str, str]]) -> AgentEntry:
    return AgentEntry(key=key, agent=agent_of(key, text), tools=tuple(tool_of(key, *tool) for tool in sorted(tools)))


TEXTS = ("", "fast", "slow")
tools = st.lists(
    st.tuples(st.sampled_from(["t0", "t1", "t2"]), st.sampled_from(TEXTS)), max_size=3, unique_by=lambda tool: tool[0]
)
entries = st.builds(entry, st.sampled_from(["a0", "a1", "a2"]), st.sampled_from(TEXTS), tools)
listings = st.lists(st.lists(entries, max_size=3, unique_by=lambda made: made.key), min_size=2, max_size=5)


def found(registry: Registry) -> set[str]:
    """All that routes and searches give, asked in the words of all texts and by every name."""
    names = [agent.id for agent in registry.agents()] + [tool.id for tool in registry.tools()]
    queries = [Query(text=text, limit=100) for text in (f"{WORDS} fast slow", *names)]
    routed = [match for query in queries for match in registry.route(query).matches]
    tools = {match.tool.id for query in queries for match in registry.find_tools(query).matches}
    return {match.agent.id for match in routed} | {tool.id for match in routed for tool in match.tools} | tools


def waiting(registry: Registry) -> set[str]:
    agents = {agent.id for agent in registry.agents() if agent.pending}
    return agents | {tool.id for tool in registry.tools() if tool.pending or tool.agent_id in agents}


def everything(registry: Registry) -> set[str]:
    return {agent.id for agent in registry.agents()} | {tool.id for tool in registry.tools()}


@given(listings, st.sampled_from(["hold", "strict"]))
@settings(max_examples=20)
def test_what_waits_is_never_found_and_approval_lets_all_of_it_in(
    listed: list[list[AgentEntry]], policy: Policy
) -> None:
    """Under hold and strict, whatever a source says in whatever order. What was never said before is not found, and
    what is found was said so in the first sync or approved."""
    with Registry.open(":memory:", embedder="none", environ={}) as registry:
        first: set[str] = set()
        for number, stated in enumerate(listed):
            manifest = Manifest(source="s", namespace="s", entries=tuple(stated), policy=policy)
            sync(registry, manifest, allow_mass_removal=True)
            if number == 0 and policy == "hold":
                first = {tool.content_hash for tool in registry.tools()}
            assert found(registry) == everything(registry) - waiting(registry)
            accepted = {tool.content_hash for tool in registry.tools() if tool.id not in waiting(registry)}
            assert accepted <= first
        registry.operator.approve("source:s")
        assert waiting(registry) == set()
        assert found(registry) == everything(registry)


def judged(policy: Policy, new: Tool, old: Tool | None = None, *, first: bool = False) -> Tool:
    judge = Judge(policy=policy, first=first)
    held = {} if old is None else {old.name: old}
    whole = AgentEntry(key="a", agent=agent_of("a"), tools=(new,))
    return judge.judge(whole, agent_of("a") if old else None, held).tools[0]


@pytest.mark.parametrize("policy", ["hold", "strict"])
def test_what_a_model_or_the_ranking_reads_is_held(policy: Policy) -> None:
    """Tags and questions as well as texts, but neither another order of tags nor anything under accept."""
    old = tool_of("a", "x", tags=("one", "three"))
    asked = sealed_tool(replace(old, questions=("What is the weather tomorrow?",)))
    for other in (tool_of("a", "x", tags=("two",)), tool_of("a", "x", "new"), asked):
        assert judged(policy, other, old).pending
        assert not judged(policy, other, old, first=True).pending or policy == "strict"
        assert not judged("accept", other, old).pending
    assert not judged(policy, tool_of("a", "x", tags=("three", "one")), old).pending


@pytest.mark.parametrize(
    ("fields", "holds"),
    [({"tags": ("weather",)}, True), ({"name": "Weather"}, True), ({"description": "other"}, False), ({}, False)],
)
def test_hold_holds_an_agent_back_for_other_tags_or_another_name(fields: dict[str, Any], holds: bool) -> None:
    """By which it is found, and put into toolsets; its description changes with every release of a server."""
    agent = agent_of("a")
    new = AgentEntry(key="a", agent=sealed_agent(replace(agent, **fields)))
    assert Judge(policy="hold", first=False).judge(new, agent, {}).agent.pending is holds


def test_what_a_manifest_says_waits_waits() -> None:
    """An export may tell that something waited, under any policy; a held state is not undone by it."""
    said = tool_of("a", "x")
    assert not judged("accept", said).pending
    waits = Tool(**{name: getattr(said, name) for name in said.__slots__ if name != "pending"}, pending=True)
    assert judged("accept", waits).pending
    assert not judged("accept", waits, said).pending


# -- statuses ------------------------------------------------------------------------------------------
def test_a_description_made_of_tools_waits_for_none_but_them() -> None:
    """Under `strict` an agent that its tools describe stays in routing when its first such description comes, and waits
    while one of its tools does: that tool's words are in it.
    """

    def described(*names: str) -> AgentEntry:
        tools = tuple(tool_of("a", name) for name in names)
        agent = sealed_agent(Agent(id="a", name="a", description=describe_tools(tools)))
        return AgentEntry(key="a", agent=agent, tools=tools)

    plain = replace(described("t0"), agent=sealed_agent(Agent(id="a", name="a")))
    with Registry.open(":memory:", embedder="none") as registry:
        sync(registry, Manifest(source="s", entries=(plain,), policy="strict"))
        registry.operator.approve("a")
        sync(registry, Manifest(source="s", entries=(described("t0"),)))
        assert waiting(registry) == set()
        assert registry.agent("a").description == described("t0").agent.description
        assert f"t0: {WORDS}." in registry.agent("a").description
        sync(registry, Manifest(source="s", entries=(described("t0", "t1"),)))
        assert waiting(registry) == {"a", "a/t0", "a/t1"}
        registry.operator.approve("a", "a/t1")
        assert waiting(registry) == set()
        assert sync(registry, Manifest(source="s", entries=(described("t0", "t1"),))).changes.is_empty
