"""What operators say of tools: laid over what the source says on every engine, and kept whatever the source does."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.gateway_catalog import ISSUE, PUBLIC, agent, put, tool
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import AgentEntry, Document
from waygraph.registry.model.errors import InvalidArguments, InvalidSetting, UnknownName
from waygraph.registry.model.tool_settings import source_arguments
from waygraph.registry.storage.export.formats import as_catalogue
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry

ISSUES, MERGE = "github/create_issue", "github/merge"
SAID: Mapping[str, Any] = {
    "name": "report_defect",
    "description": "Report a defect of the website.",
    "questions": ["the shop is broken, who knows"],
    "parameters": {
        "repo": {"pin": "acme/site"},
        "labels": {"hidden": True},
        "title": {"name": "summary", "description": "In one line."},
    },
}


def github(description: str = "Open an issue in a repository.") -> AgentEntry:
    return agent(
        "github",
        tool("github", "create_issue", description, schema=ISSUE),
        tool("github", "merge", "Merge a pull request."),
        description="Repositories",
    )


@pytest.fixture
def registry(registry: LocalRegistry) -> LocalRegistry:
    put(registry, "work", [github()])
    return registry


def test_a_tool_is_as_the_operator_says(registry: LocalRegistry) -> None:
    version = registry.tool(ISSUES).content_hash
    registry.operator.set_tool(ISSUES, SAID)
    found = registry.tool("github__report_defect")
    assert (found.id, found.name, found.description) == (ISSUES, "report_defect", "Report a defect of the website.")
    assert found.content_hash != version
    schema = json.loads(found.input_schema)
    assert set(schema["properties"]) == {"summary", "state"}
    assert schema["properties"]["summary"] == {"type": "string", "description": "In one line."}
    assert schema["required"] == ["summary"]
    assert registry.tool("github__create_issue") == found == registry.tool(ISSUES)
    assert registry.operator.set_tool(
        "github__report_defect", {"description": SAID["description"]}
    ) == registry.operator.set_tool(ISSUES, SAID)
    assert found in registry.tools("github")
    best = registry.find_tools("defect of the website", principal=PUBLIC).matches[0].tool
    assert best == found
    assert not registry.find_tools("open an issue", recipe="lexical").matches
    stated = registry.store.look(lambda index: index.stated_tool(ISSUES))
    assert stated
    assert (stated[0].name, stated[0].content_hash) == ("create_issue", version)
    assert registry.store.look(lambda index: index.stated_tool(MERGE)) is None


def test_a_request_that_an_operator_adds_finds_the_tool(registry: LocalRegistry) -> None:
    """By its words, until it is taken back; the source's own questions stay, and its approval."""
    asked = "unhappy quuxes everywhere"
    assert MERGE not in {match.tool.id for match in registry.find_tools(asked, recipe="lexical").matches}
    registry.operator.set_tool(MERGE, {"questions": [asked]})
    assert registry.tool(MERGE).questions == (asked,)
    assert registry.find_tools(asked, recipe="lexical").matches[0].tool.id == MERGE
    put(registry, "work", [github()])
    assert registry.find_tools(asked, recipe="lexical").matches[0].tool.id == MERGE
    registry.operator.set_tool(MERGE, {"questions": None})
    assert registry.tool(MERGE).questions == ()
    for bad in (["x" * 501], [""], "text", ["x"] * 51):
        with pytest.raises(InvalidSetting, match="question"):
            registry.operator.set_tool(MERGE, {"questions": bad})


def test_a_hidden_tool_is_found_by_nobody_until_it_is_shown(registry: LocalRegistry) -> None:
    """A sync brings it back as little as an approval does. Lists say that it is hidden."""
    registry.operator.set_tool(MERGE, {"hidden": True})
    put(registry, "work", [github("Open issues.")])
    registry.operator.approve("github")
    hidden = registry.tool(MERGE)
    assert (hidden.pending, hidden.rejection) == (True, "hidden from callers")
    assert MERGE not in [match.tool.id for match in registry.find_tools("merge a pull request").matches]
    with pytest.raises(InvalidSetting, match="true or false"):
        registry.operator.set_tool(MERGE, {"hidden": "yes"})
    assert registry.operator.set_tool(MERGE, {"hidden": False}).tools == ""
    assert registry.find_tools("merge a pull request").matches[0].tool.id == MERGE


def test_a_tool_that_a_source_keeps_from_models_stays_hidden(registry: LocalRegistry) -> None:
    """While any source of it does, whoever spoke last. An operator's word stands above; the export has both."""

    def is_hidden() -> bool:
        return registry.tool(MERGE).pending and MERGE not in [
            match.tool.id for match in registry.find_tools("merge a pull request").matches
        ]

    limited = replace(github(), hidden_tools=("merge",))
    put(registry, "cursor", [limited])
    put(registry, "gemini", [limited])
    put(registry, "work", [github()])
    assert is_hidden()
    assert "keeps it from models" in registry.tool(MERGE).rejection
    document = Document("export.json", registry.operator.export("json"))
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as copy:
        for each in read_documents([document], registry.settings, source="", namespace="", kind="export"):
            sync(copy, each)
        assert copy.tool(MERGE) == registry.tool(MERGE)
    catalogue = Document("c.json", json.dumps({"waygraph": 1, "agents": [as_catalogue(limited)]}))
    [manifest] = read_documents([catalogue], registry.settings, source="sent")
    assert manifest.entries[0].hidden_tools == ("merge",)
    registry.operator.set_tool(MERGE, {"hidden": False})
    put(registry, "cursor", [limited])
    assert not is_hidden()
    registry.operator.set_tool(MERGE, {"hidden": None})
    put(registry, "cursor", [github()])
    put(registry, "gemini", [replace(github(), tools=(), unasked=True)])
    assert is_hidden(), "gemini keeps it still"
    registry.operator.forget("gemini")
    assert not is_hidden()
    said = registry.about("github").settings
    assert said is None or said.tools == ""


def test_what_was_said_survives_every_sync_and_is_told_in_changes(registry: LocalRegistry) -> None:
    registry.operator.set_tool(ISSUES, SAID)
    said = registry.tool(ISSUES)
    put(registry, "work", [github()])
    assert registry.tool(ISSUES) == said
    put(registry, "work", [github("Open an issue anywhere.")])
    assert registry.tool(ISSUES).description == said.description
    [change] = [each for each in registry.operator.changes() if not each.is_arrival]
    assert (change.tool, change.fields, change.covered) == ("create_issue", ("description",), ("description",))
    registry.operator.forget("work")
    put(registry, "work", [github()])
    assert registry.tool(ISSUES) == said
    registry.operator.set_tool(ISSUES, dict.fromkeys(("name", "description", "parameters", "questions")))
    assert registry.tool(ISSUES) == github().tools[0]


def test_a_name_that_its_source_gives_another_tool_is_not_taken(registry: LocalRegistry) -> None:
    registry.operator.set_tool(ISSUES, {"name": "report"})
    assert registry.tool("github__report").id == ISSUES
    more = agent("github", *github().tools, tool("github", "report", "The newest report."), description="Repositories")
    put(registry, "work", [more])
    assert registry.tool("github__report").id == "github/report"
    assert registry.tool(ISSUES).name == "create_issue"


def test_an_export_restores_it(registry: LocalRegistry) -> None:
    registry.operator.set_tool(ISSUES, SAID)
    document = Document("export.json", registry.operator.export("json"))
    manifests = read_documents([document], registry.settings, source="", namespace="", kind="export")
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as copy:
        for each in manifests:
            sync(copy, each)
        assert copy.tool(ISSUES) == registry.tool(ISSUES)


def test_it_is_embedded(tmp_path: Path) -> None:
    with LocalRegistry.open(tmp_path / "r.grafeo", embedder="minilm", environ={}) as registry:
        put(registry, "work", [github()])
        registry.operator.set_tool(MERGE, {"description": "Bake bread in an oven."})
        assert registry.find_tools("how do I make a loaf", recipe="tools").matches[0].tool.id == MERGE
        assert [each for each in examine(registry, deep=True) if not each.ok] == []
        registry.reindex()
        assert registry.find_tools("how do I make a loaf", recipe="tools").matches[0].tool.id == MERGE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"title": "x"}, "cannot be set of a tool"),
        ({"name": "merge"}, "has a tool of the name 'merge' already"),
        ({"name": ""}, "non-empty"),
        ({"description": " "}, "is a text of 1 to"),
        ({"parameters": {"nothing": {"hidden": True}}}, "has no parameter 'nothing'; it has: "),
        ({"parameters": {"title": {"hidden": True}}}, "is required: to hide it, pin its value"),
        ({"parameters": {"labels": {"name": "title"}}}, "two parameters of the name 'title'"),
        ({"parameters": {"labels": {"default": 1}}}, "cannot be set of parameter 'labels'"),
        ({"parameters": {"labels": {"pin": float("nan")}}}, "none that JSON can hold"),
        ({"parameters": {"title": {"pin": 7}}}, "does not fit 'github/create_issue'"),
        ({"parameters": ["labels"]}, "takes an object"),
    ],
)
def test_what_cannot_be_said_is_refused(changes: Mapping[str, Any], reason: str) -> None:
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as registry:
        put(registry, "work", [github()])
        revision = registry.status().state.revision
        with pytest.raises(InvalidSetting, match=reason):
            registry.operator.set_tool(ISSUES, changes)
        with pytest.raises(UnknownName):
            registry.operator.set_tool("github/none", changes)
        assert registry.status().state.revision == revision


def test_a_call_has_the_names_and_values_of_the_source() -> None:
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as registry:
        put(registry, "work", [github()])
        registry.operator.set_tool(ISSUES, SAID)
        stated = registry.store.look(lambda index: index.stated_tool(ISSUES))
        assert stated
        sent = source_arguments(stated[1], stated[0], {"summary": "Broken", "state": "open"})
        assert sent == {"title": "Broken", "state": "open", "repo": "acme/site"}
        for name in ("repo", "labels", "title"):
            with pytest.raises(InvalidArguments) as caught:
                source_arguments(stated[1], stated[0], {name: "x"})
            assert caught.value.faults == ((f"/{name}", "not known here"),)


def test_a_fixed_value_is_shown_to_administrators_alone() -> None:
    with LocalRegistry.open(":memory:", embedder="none", environ={}) as registry:
        put(registry, "work", [github()])
        registry.operator.set_tool(ISSUES, SAID)
        assert "acme/site" in json.dumps(shapes.about(registry.about("github")))
        told = json.dumps(shapes.about(registry.about("github"), transport=lambda launch: launch))
        assert "acme/site" not in told
        assert "labels" not in told
