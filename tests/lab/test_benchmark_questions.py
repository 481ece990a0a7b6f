"""The benchmark of questions and topics: what it puts into registries, and what it counts; questions by templates."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import questions
from benchmarks.questions import BOTH, COUNT, KEY_TOPICS, NONE, SCHEMAS, TEMPLATES
from benchmarks.world import NATURAL, World, data_folder
from waygraph.registry.model.nouns import Agent, Tool, canonical_json
from waygraph.registry.model.settings import Settings
from waygraph_lab.template_questions import TemplateAuthor, thing_of

TOOLS = [
    {"name": "get_rain", "description": "Rain of a city.", "inputSchema": {"properties": {"city": {}}}},
    {"name": "get_tide", "description": "Tide of a harbour.", "inputSchema": {"properties": {"day": {}}}},
]


def write_dataset(folder: Path) -> World:
    """A data set of two tools and one request, in place of the natural ones."""
    (folder / NATURAL).mkdir()
    agent = {"id": "sky", "name": "Sky", "description": "", "tools": TOOLS}
    asked = {"id": "1", "text": "is there rain in Berlin", "gold": [["sky"]], "gold_tools": [["sky/get_rain"]]}
    for name, row in (("agents", agent), ("queries", asked)):
        (folder / NATURAL / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    world = World(settings=Settings(), environ={}, data=data_folder({}), cache=folder / "cache")
    return replace(world, examples=folder)


def test_each_component_is_measured_against_none(tmp_path: Path) -> None:
    rows = list(questions.rows_of(write_dataset(tmp_path), NATURAL, "questions"))
    components = [NONE, TEMPLATES, SCHEMAS, BOTH, KEY_TOPICS]
    assert [(row["in"], row["component"]) for row in rows] == [(w, c) for w in questions.FORMS for c in components]
    for row in rows:
        assert (row["requests"], row["Recall@1"]) == (1, 1.0)
        assert row["gain"] == (None if row["component"] == NONE else [0.0, 0.0, 0.0])
    assert "| 1.0 |" in questions.tables_of({"rows": rows})


def test_components_say_what_they_are_named_for(tmp_path: Path) -> None:
    """Questions of schemas have values; topics are the words of a tool that few others use, in one line."""
    catalogue = write_dataset(tmp_path).dataset(NATURAL).catalogue
    (entry,) = catalogue.entries
    lines = {name: author(entry, entry.tools[0]) for name, author in questions.authors(catalogue).items()}
    assert lines[NONE] == ()
    assert "get rain in Berlin" in lines[SCHEMAS]
    assert 0 < len(lines[TEMPLATES]) <= COUNT
    assert not [line for line in lines[TEMPLATES] if "Berlin" in line]
    assert {*lines[BOTH]} == {*lines[SCHEMAS], *lines[TEMPLATES]}
    (topics,) = lines[KEY_TOPICS]
    assert topics.split()[:2] == ["rain", "city"]


SKY = Agent(id="sky", name="Sky")
ODD = (
    Tool(id="sky/x", agent_id="sky", name="x"),
    Tool(id="sky/查询", agent_id="sky", name="查询", description="查询天气。", input_schema="[]"),
    Tool(id="sky/get", agent_id="sky", name="get", description="API", input_schema='{"properties": {"": {}, "a": 1}}'),
    Tool(id="sky/_", agent_id="sky", name="_", input_schema='{"properties": {"_": {}, "a": 1}, "required": [{}, "a"]}'),
    Tool(id="sky/long", agent_id="sky", name="list_all", description="x" * 10_000, input_schema="{"),
)


@pytest.mark.parametrize("tool", ODD, ids=lambda tool: tool.name)
def test_every_tool_has_some_questions(tool: Tool) -> None:
    """Whatever its name, language, description and schema: distinct lines of bounded length."""
    asked = TemplateAuthor().questions(SKY, tool, 10)
    assert len(asked) >= 4
    assert len(asked) == len(set(asked))
    assert all(line.strip() == line and 0 < len(line) < 300 for line in asked)


@pytest.mark.parametrize(
    ("name", "description", "thing"),
    [
        ("convert", "Work out what an amount of one currency is worth in another.", "currency"),
        ("list", "Name the currencies known here with code and country.", "currencies"),
        ("download", "Fetch a stored file to the local disk.", "file"),
        ("convert_units", "Anything.", "units"),
        ("convert", "", "Sky"),
    ],
)
def test_a_tool_whose_name_is_a_verb_is_about_a_thing_of_its_description(
    name: str, description: str, thing: str
) -> None:
    """And not about its agent: nobody turns this into Bureau FX."""
    schema = canonical_json({"properties": {"amount": {}, "from": {}, "to": {}}})
    tool = Tool(id="sky/x", agent_id="sky", name=name, description=description, input_schema=schema)
    assert thing_of(SKY, tool) == thing
    if name == "convert":
        assert f"Convert {thing}" in TemplateAuthor().questions(SKY, tool, 10)
