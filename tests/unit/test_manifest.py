"""What becomes of one record: taken, cut or rejected, with the place and the reason. It costs only itself."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.ingest.manifest.records import MAX_TEXT_CHARS, AgentRecord, Intake, ToolRecord
from waygraph.registry.embedding.texts import tool_texts
from waygraph.registry.model.changes import Rejected
from waygraph.registry.model.identity import call_name
from waygraph.registry.model.nouns import Tool

WHERE = "file.json"


@pytest.fixture
def intake() -> Intake:
    return Intake(where=WHERE)


def agent(key: object = "github", **fields: Any) -> AgentRecord:
    return AgentRecord(pointer="/agents/0", key=key, **fields)


def tool(name: object = "search", number: int = 0, **fields: Any) -> ToolRecord:
    return ToolRecord(pointer=f"/agents/0/tools/{number}", name=name, **fields)


def tools_of(intake: Intake, *records: ToolRecord) -> tuple[Tool, ...]:
    """What the intake makes of an agent with these tools, between two agents that are well."""
    intake.take(agent("before"))
    intake.take(agent(tools=records))
    intake.take(agent("after"))
    assert [entry.key for entry in intake.entries] == ["before", "github", "after"]
    return intake.entries[1].tools


def test_a_whole_record_is_taken(intake: Intake) -> None:
    intake.take(
        agent(
            "io.github/git",
            name="Git",
            description="Version control",
            version="1.2",
            transport={"command": "npx"},
            tags=["b", "a", "b"],
            visible_to=["team"],
            tools=[tool(description="Searches", input_schema={"b": 1, "a": 2}, annotations={"readOnlyHint": True})],
        )
    )
    [entry] = intake.entries
    assert (entry.key, entry.agent.id, entry.agent.name) == ("io.github/git", "io.github.git", "Git")
    assert (entry.agent.tags, entry.agent.visible_to) == (("a", "b"), ("team",))
    assert entry.agent.transport == '{"command":"npx"}'
    [made] = entry.tools
    assert (made.id, made.call_name) == ("io.github.git/search", call_name("io.github.git", "search"))
    assert made.input_schema == '{"a":2,"b":1}'
    assert made.annotations == '{"readOnlyHint":true}'
    assert made.content_hash
    assert entry.agent.content_hash
    assert not intake.rejected
    assert not intake.cut


def test_no_text_of_the_document_is_kept(intake: Intake) -> None:
    """The memory of a document that was read is free as a whole: an ingest of many agents needs it for the graph."""
    key, name, text, tag = ("".join([each, " of the document"]) for each in ("key", "name", "text", "tag"))
    intake.take(agent(key, name=name, description=text, tags=[tag], tools=[tool(name, description=text, tags=[tag])]))
    [entry] = intake.entries
    kept = [entry.key, *((each.name, each.description, *each.tags) for each in entry.entities)]
    assert kept == [key, (name, text, tag), (name, text, tag)]
    of_document = {id(key), id(name), id(text), id(tag)}
    assert not of_document & {id(entry.key), *(id(part) for parts in kept[1:] for part in parts)}


def test_half_a_character_is_replaced(intake: Intake) -> None:
    """A lone surrogate in a description or schema, which no database takes, becomes a question mark."""
    intake.take(agent(description="a\ud800b", tools=[tool(description="\udfffx", input_schema={"p\ud83d": "\ud83d"})]))
    [entry] = intake.entries
    assert entry.agent.description == "a?b"
    assert entry.tools[0].description == "?x"
    assert entry.tools[0].input_schema == '{"p?":"?"}'


def test_a_text_of_20_mb_is_cut_and_reported(intake: Intake) -> None:
    """The graph keeps MAX_TEXT_CHARS of it, a model reads `max_embedded_chars`, and `cut` says so."""
    intake.take(agent(description="x" * 20_000_000, tools=[tool(description="yz " * 7_000_000)]))
    [entry] = intake.entries
    assert len(entry.agent.description) == len(entry.tools[0].description) == MAX_TEXT_CHARS
    assert [note.where for note in intake.cut] == [
        f"{WHERE}#/agents/0/description",
        f"{WHERE}#/agents/0/tools/0/description",
    ]
    assert intake.cut[0].reason == "20000000 characters, kept 1000000"
    assert max(map(len, tool_texts("contextual", entry.agent, entry.tools[0], 4000))) == 4000
    assert not intake.rejected


@pytest.mark.parametrize("field", ["input_schema", "output_schema", "annotations"])
def test_a_schema_that_is_too_long_is_left_out_and_reported(intake: Intake, field: str) -> None:
    [made] = tools_of(intake, tool("search", 0, **{field: {"x": "y" * 2_000_000}}))
    assert getattr(made, field) == ("{}" if field == "input_schema" else "")
    assert "was left out; 1000000 are allowed" in intake.cut[0].reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"key": ""}, "agent id: a name must be a non-empty string"),
        ({"key": None}, "agent id: a name must be a non-empty string"),
        ({"key": 7}, "agent id: a name must be a non-empty string"),
        ({"key": "x" * 129}, "agent id: a name has at most 128 characters, this has 129"),
        ({"key": "a\x1bb"}, "agent id: a name must not hold control characters"),
        ({"key": "a\ud800"}, "agent id: a name must be whole characters"),
        ({"name": "x" * 129}, "agent name: a name has at most 128 characters"),
        ({"name": ["a"]}, "agent name: a name must be a non-empty string"),
        ({"description": 5}, "description: expected a string, found a number"),
        ({"description": ["a"]}, "description: expected a string, found a list"),
        ({"kind": "robot"}, "kind: expected one of mcp_server, a2a_agent, skill, openapi, custom, found 'robot'"),
        ({"kind": []}, "kind: expected one of"),
        ({"version": {}}, "version: expected a string, found an object"),
        ({"version": "1" * 129}, "version: a name has at most 128"),
        ({"version": "1\ud800"}, "version: a name must be whole characters"),
        ({"tags": "sea"}, "tags: expected a list of non-empty strings, found a string"),
        ({"tags": ["a", ""]}, "tags: expected a list of non-empty strings"),
        ({"tags": [1]}, "tags: expected a list of non-empty strings"),
        ({"tags": ["x" * 20_000_000]}, "tags: a name has at most 128 characters"),
        ({"tags": ["\ud800"]}, "tags: a name must be whole characters"),
        ({"visible_to": {"a": 1}}, "visible_to: expected a list"),
        ({"transport": "npx"}, "transport: expected an object, found a string"),
        ({"transport": {"url": "http://[broken"}}, "transport: its url cannot be read"),
        ({"transport": {"x": float("nan")}}, "transport: cannot be written as JSON"),
        ({"transport": {"x": "y" * 20_000_000}}, "characters; 1000000 are allowed"),
    ],
)
def test_a_bad_agent_is_rejected_alone(intake: Intake, fields: dict[str, object], reason: str) -> None:
    intake.take(agent("before"))
    intake.take(agent(**fields))
    intake.take(agent("after"))
    assert [entry.key for entry in intake.entries] == ["before", "after"]
    [rejected] = intake.rejected
    assert rejected.where == f"{WHERE}#/agents/0"
    assert rejected.reason.startswith(reason) or reason in rejected.reason
    assert len(rejected.reason) < 300
    key = fields.get("key", "github")
    assert rejected.key == (key if isinstance(key, str) else "")


nested: dict[str, object] = {}
for _ in range(100_000):
    nested = {"x": nested}
circular: dict[str, object] = {}
circular["self"] = circular


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": None}, "tool name: a name must be a non-empty string"),
        ({"name": "x" * 129}, "tool name: a name has at most 128 characters, this has 129"),
        ({"name": "a\nb"}, "tool name: a name must not hold control characters"),
        ({"description": {}}, "description: expected a string, found an object"),
        ({"input_schema": "{}"}, "inputSchema: expected an object, found a string"),
        ({"input_schema": []}, "inputSchema: expected an object, found a list"),
        ({"input_schema": 3}, "inputSchema: expected an object, found a number"),
        ({"input_schema": True}, "inputSchema: expected an object, found a boolean"),
        ({"output_schema": ["x"]}, "outputSchema: expected an object, found a list"),
        ({"annotations": "x"}, "annotations: expected an object, found a string"),
        ({"input_schema": {"default": float("nan")}}, "inputSchema: cannot be written as JSON"),
        ({"input_schema": {"default": float("inf")}}, "inputSchema: cannot be written as JSON"),
        ({"input_schema": {"a": {1, 2}}}, "inputSchema: cannot be written as JSON"),
        ({"input_schema": nested}, "inputSchema: cannot be written as JSON"),
        ({"input_schema": circular}, "inputSchema: cannot be written as JSON"),
        ({"tags": [None]}, "tags: expected a list of non-empty strings"),
    ],
)
def test_a_bad_tool_is_rejected_alone(intake: Intake, fields: dict[str, object], reason: str) -> None:
    made = tools_of(intake, tool("first"), tool(**{"number": 1, **fields}), tool("last", 2))  # type: ignore[arg-type]
    assert [each.name for each in made] == ["first", "last"]
    [rejected] = intake.rejected
    assert rejected.where == f"{WHERE}#/agents/0/tools/1"
    assert rejected.reason.startswith(reason)


def test_a_tool_named_twice_counts_once(intake: Intake) -> None:
    made = tools_of(intake, tool(description="first"), tool(number=1, description="second"))
    assert [each.description for each in made] == ["first"]
    assert intake.rejected == [
        Rejected(
            where=f"{WHERE}#/agents/0/tools/1", reason="agent 'github' has a tool 'search' already; the first is kept"
        )
    ]


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["key", "name", "description", "kind", "version", "transport", "tags"]), anything)
)
def test_any_record_is_taken_or_rejected(fields: dict[str, object]) -> None:
    """Whatever a source writes into an agent and its tool: one of the two, never an exception."""
    intake = Intake(where=WHERE)
    as_tool = {name: value for name, value in fields.items() if name in ("description", "tags")}
    as_tool["input_schema"] = fields.get("transport")
    intake.take(agent(**{"key": "good", "tools": [tool("t", 1, **as_tool)], **fields}))
    assert len(intake.entries) + len([r for r in intake.rejected if r.where.endswith("/agents/0")]) == 1
    for entry in intake.entries:
        assert json.dumps([entry.agent.description, entry.agent.version, entry.agent.transport]).isascii()
        for text in (entry.agent.name, entry.agent.description, entry.agent.transport, *entry.agent.tags):
            text.encode()
