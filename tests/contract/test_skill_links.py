"""What skills teach and need, in every place: edges stay true while tools come and go, and tell of nothing hidden."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.test_toolsets import entry, feed
from tests.cypher_page import questions
from tests.shelf import Shelf
from waygraph import Principal
from waygraph.ingest.manifest.records import AgentRecord, Intake, Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import migrate


def skill(name: str, *names: str) -> AgentEntry:
    intake = Intake("skills")
    intake.take(
        AgentRecord(pointer="", key=name, kind="skill", description="How to.", transport={"names": list(names)})
    )
    return intake.entries[0]


@pytest.fixture
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    place = shelf.empty()
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as opened:
        yield opened


def links(registry: LocalRegistry, skill: str = "guide") -> list[str]:
    """By Cypher, and a doctor agrees."""
    statement = (
        "MATCH (s:Agent {id: $name})-[:TEACHES]->(t:Tool) RETURN t.id AS id "
        "UNION ALL MATCH (s:Agent {id: $name})-[:NEEDS]->(a:Agent) RETURN a.id AS id"
    )
    assert [each for each in examine(registry, deep=True) if not each.ok] == []
    return sorted(str(row[0]) for row in registry.operator.cypher(statement, {"name": skill}).rows)


@pytest.mark.parametrize("name", ["door/open", "door__open", "mcp__door__open", "door:open", "Door:open", "open"])
def test_a_skill_teaches_the_tool_that_it_names(registry: LocalRegistry, name: str) -> None:
    feed(registry, skill("guide", name, "Bash", "nothing:here"), source="skills")
    assert links(registry) == []
    feed(registry, entry("door", ["open", "close"]))
    assert links(registry) == ["door", "door/open"]
    feed(registry, entry("door", ["close"]))
    assert links(registry) == []


@pytest.mark.parametrize("name", ["door/do__that", "door__do__that", "mcp__door__do__that", "do__that"])
def test_a_tool_may_have_a_separator_in_its_name(registry: LocalRegistry, name: str) -> None:
    feed(registry, entry("door", ["do__that"]), skill("guide", name))
    assert links(registry) == ["door", "door/do__that"]


def test_a_server_that_is_named_alone_is_needed(registry: LocalRegistry) -> None:
    feed(registry, entry("door"), skill("guide", "door"))
    assert links(registry) == ["door"]


def test_a_bare_name_counts_where_one_tool_bears_it(registry: LocalRegistry) -> None:
    feed(registry, entry("door", ["open"]), skill("guide", "open"))
    feed(registry, entry("window", ["open"]), source="other")
    assert links(registry) == []
    registry.operator.set("window", visible_to=["crew"])  # who does not see it must not learn of it
    assert links(registry) == ["door", "door/open"]
    registry.operator.remove("window")
    assert links(registry) == ["door", "door/open"]


def test_which_skills_teach_tools_that_are_denied_or_hidden(registry: LocalRegistry) -> None:
    """The question of the page on Cypher. Denied: it waits, or an operator rejected it."""
    feed(registry, entry("door", ["open"]), entry("gate", ["lock"]))
    feed(registry, skill("of-door", "open"), skill("of-window", "shut"), skill("of-gate", "lock"), source="skills")
    registry.operator.set("door", hidden=True)
    sync(registry, Manifest(source="strict", policy="strict", entries=(entry("window", ["shut"]),)))
    registry.operator.reject("window/shut", reason="not here")
    statement = questions()["Which skills teach tools that are hidden, wait or were rejected"]
    rows = [tuple(row) for row in registry.operator.cypher(statement).rows]
    assert rows == [("of-door", "door/open"), ("of-window", "window/shut")]


def test_a_copy_has_the_same_edges(registry: LocalRegistry, tmp_path: Path) -> None:
    feed(registry, entry("door"), skill("guide", "door:open"))
    with LocalRegistry.open(tmp_path / "copy.grafeo", embedder="none", settings=Settings(), environ={}) as copy:
        migrate(registry.store, copy.store)
        assert links(copy) == ["door", "door/open"]


def test_who_may_not_see_the_skill_or_the_tool_is_told_of_neither(registry: LocalRegistry) -> None:
    feed(registry, entry("door", ["open"]), entry("gate", ["lock"], visible_to=("crew",)))
    feed(registry, skill("guide", "open", "lock"), source="skills")
    public = registry.find_tools("open the door of the house", principal=Principal()).notice("skill")
    crew = registry.find_tools("lock the gate of the house", principal=Principal(groups=("crew",))).notice("skill")
    assert "guide" in public
    assert "guide" in crew
    registry.operator.set("guide", visible_to=["crew"])
    assert not registry.find_tools("open the door of the house", principal=Principal()).notice("skill")
