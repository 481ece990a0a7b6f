"""Names and hashes: legal, unique, stable."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.model.identity import (
    AGENT_ID,
    MAX_NAME_CHARS,
    agent_id,
    call_name,
    digest,
    name_fault,
    place_under,
    sealed_agent,
    sealed_tool,
    tool_id,
)
from waygraph.registry.model.nouns import Agent, Tool, canonical_json

CALL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=150)
tight = st.text("ab_-.1", min_size=1, max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(texts)
def test_every_key_makes_a_legal_agent_id(key: str) -> None:
    """Letters, digits, space, `_`, `.`, `-`, a letter or digit first; the same every time."""
    assert AGENT_ID.fullmatch(agent_id(key))
    assert agent_id(key) == agent_id(key)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("github", "github"),
        ("Harbor Git", "Harbor Git"),
        ("io.github/server", "io.github.server"),
        (" trimmed ", "trimmed"),
        ("v1.2_x-y", "v1.2_x-y"),
    ],
)
def test_a_legal_key_is_its_own_id(key: str, expected: str) -> None:
    assert agent_id(key) == expected


def test_illegal_keys_that_look_alike_stay_apart() -> None:
    made = {agent_id(key) for key in ("天気", "地図", "a@b", "a#b", "@@@", "../x", "_x", "🚢")}
    assert len(made) == 8


@given(texts, texts)
def test_every_call_name_is_legal_for_every_host(agent: str, tool: str) -> None:
    assert CALL_NAME.fullmatch(call_name(agent_id(agent), tool))


@given(st.lists(st.tuples(tight, tight), unique=True, min_size=2, max_size=6))
def test_different_tools_have_different_call_names(tools: list[tuple[str, str]]) -> None:
    """Underscores at the seam, dots, dashes, digits: no two tools share a call name."""
    assert len({call_name(agent, tool) for agent, tool in tools}) == len(tools)


def test_a_tool_cannot_take_the_call_name_of_another() -> None:
    taken = call_name("a", "b.c")
    forged = taken.removeprefix("a__")
    assert call_name("a", forged) != taken
    assert call_name("a_", "b") != call_name("a", "_b")


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("x" * (MAX_NAME_CHARS + 1), "at most 128 characters, this has 129"),
        ("a\nb", "control characters"),
        ("a\x00", "control characters"),
        ("a\x9bb", "control characters"),
        ("a\ud800", "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_a_name_says_why(name: str, fault: str) -> None:
    assert fault in name_fault(name)


@given(json_values)
def test_canonical_json_is_one_text_for_one_value(value: object) -> None:
    """Written, read and written again it is the same text, whatever the order of keys was."""
    told = canonical_json(value)
    assert canonical_json(json.loads(told)) == told
    if isinstance(value, dict):
        assert canonical_json(dict(reversed(value.items()))) == told


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_a_digest_tells_the_parts_apart(first: list[str], second: list[str]) -> None:
    assert (digest(*first) == digest(*second)) == (first == second)


def test_a_content_hash_sees_every_stated_field() -> None:
    """Each field that a source states changes it; order of tags and the operator's fields do not."""
    agent = Agent(id="a", name="a", tags=("x", "y"))
    changed = [
        Agent(id="a", name="b", tags=("x", "y")),
        Agent(id="a", name="a", tags=("x", "y"), description="d"),
        Agent(id="a", name="a", tags=("x", "y"), kind="skill"),
        Agent(id="a", name="a", tags=("x", "y"), version="1"),
        Agent(id="a", name="a", tags=("x", "y"), transport="{}"),
        Agent(id="a", name="a", tags=("x",), visible_to=("y",)),
        Agent(id="a", name="a", tags=("x", "y", "|")),
        Agent(id="a", name="a", tags=("x", "y"), visible_to=("|",)),
        Agent(id="a", name="a", tags=("x",)),
    ]
    hashes = {sealed_agent(made).content_hash for made in (agent, *changed)}
    assert len(hashes) == 1 + len(changed)
    same = Agent(id="other", name="a", tags=("y", "x"), pinned=True, hidden=True)
    assert sealed_agent(same).content_hash == sealed_agent(agent).content_hash


def test_an_agent_that_moves_takes_its_tools_along() -> None:
    """Under another id every tool has the id, owner and call name that belong to it; contents stay."""
    tool = sealed_tool(Tool(id="a/t", agent_id="a", name="t", description="d"))
    agent, tools = place_under(Agent(id="a", name="a"), (tool,), "ns.a")
    assert agent.id == "ns.a"
    assert (tools[0].id, tools[0].agent_id) == (tool_id("ns.a", "t"), "ns.a")
    assert tools[0].call_name == call_name("ns.a", "t")
    assert tools[0].content_hash == tool.content_hash
    assert sealed_tool(tools[0]) == tools[0]
