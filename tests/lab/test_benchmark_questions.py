"""The benchmark of questions and topics: what it puts into registries, and what it counts."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks import questions
from benchmarks.questions import BOTH, COUNT, KEY_TOPICS, NONE, SCHEMAS, TEMPLATES
from benchmarks.world import NATURAL, World, data_folder
from waygraph.registry.model.settings import Settings

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
