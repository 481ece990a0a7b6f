"""Documents of one name in a folder: each is an agent, and stays the same one whatever else comes or goes."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from waygraph.ingest.sources.read import documents, list_path, read_documents, read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

S = Settings()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry.open(tmp_path / "r.grafeo", embedder="none", environ={}) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "books"
    made.mkdir()
    return made


def put(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def ledger(mark: str, server: str = "") -> dict[str, Any]:
    """An OpenAPI document that its description tells apart."""
    paths = {f"/{mark}": {"get": {"operationId": f"read_{mark}", "summary": f"Reads {mark}"}}}
    servers = {"servers": [{"url": server}]} if server else {}
    return {"openapi": "3.0.3", "info": {"title": "Ledger", "description": mark}, "paths": paths, **servers}


def ingest(registry: Registry, folder: Path) -> list[str]:
    """What was rejected."""
    [manifest] = read_path(str(folder), S)
    return [each.reason for each in sync(registry, manifest, allow_mass_removal=True).changes.rejected]


def marks(registry: Registry) -> dict[str, str]:
    """Agent id → its description's begin."""
    return {agent.id: agent.description.split("\n")[0] for agent in registry.agents()}


def skill(mark: str) -> str:
    return f"---\nname: tidy\ndescription: {mark}\n---\nText of {mark}."


def card(mark: str) -> dict[str, Any]:
    skills = [{"id": "s", "name": mark, "description": mark, "tags": []}]
    address = {"url": f"https://{mark}.example/a2a", "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
    return {"name": "Clerk", "description": mark, "version": "1", "skills": skills, **address}


def catalogue(mark: str) -> dict[str, Any]:
    return {"waygraph": 1, "agents": [{"id": "clerk", "description": mark, "tools": [{"name": mark}]}]}


def servers(mark: str) -> dict[str, Any]:
    return {"mcpServers": {"clerk": {"command": "serve", "args": [mark], "description": mark}}}


@pytest.mark.parametrize(
    ("make", "names", "ids"),
    [
        (ledger, ("one.json", "two.json"), {"Ledger", "two.Ledger"}),
        (ledger, ("eu/api.json", "us/api.json"), {"Ledger", "us.api.Ledger"}),
        (lambda mark: ledger(mark, "https://one.example"), ("one.json", "two.json"), {"Ledger", "two.Ledger"}),
        (lambda mark: ledger(mark, f"https://{mark}.example"), ("one.json", "two.json"), {"Ledger", "two.Ledger"}),
        (skill, ("old/tidy/SKILL.md", "young/tidy/SKILL.md"), {"tidy", "young.tidy"}),
        (card, ("one.json", "two.json"), {"Clerk", "two.Clerk"}),
        (catalogue, ("one.json", "two.json"), {"clerk", "two.clerk"}),
        (servers, ("one.json", "two.json"), {"clerk", "two.clerk"}),
    ],
)
def test_documents_of_one_name_are_agents_of_their_own_for_good(
    registry: Registry, folder: Path, make: Callable[[str], Any], names: tuple[str, str], ids: set[str]
) -> None:
    """Also after a sync again, and when a document comes that stands before them."""
    put(folder, names[0], make("alpha"))
    put(folder, names[1], make("beta"))
    assert ingest(registry, folder) == []
    before = {agent.id: agent.content_hash for agent in registry.agents()}
    assert set(before) == ids
    assert len(set(before.values())) == 2
    assert ingest(registry, folder) == []
    assert {agent.id: agent.content_hash for agent in registry.agents()} == before
    put(folder, f"a/{names[0]}", make("gamma"))
    assert ingest(registry, folder) == []
    after = {agent.id: agent.content_hash for agent in registry.agents()}
    assert before.items() < after.items()
    assert len(after) == 3


def test_an_agent_stays_the_one_of_its_document_when_the_others_go(registry: Registry, folder: Path) -> None:
    for name in ("one", "two", "three"):
        put(folder, f"{name}.json", ledger(name))
    ingest(registry, folder)
    before = marks(registry)
    assert len(before) == 3
    (folder / "one.json").unlink()
    (folder / "three.json").unlink()
    ingest(registry, folder)
    assert marks(registry) == {agent: mark for agent, mark in before.items() if mark == "two"}


@pytest.mark.parametrize("changed", [False, True])
def test_the_first_agent_of_a_folder_is_no_other_s_when_a_namesake_comes(
    registry: Registry, folder: Path, changed: bool
) -> None:
    """The newcomer stands before it by name, and the older document may have changed meanwhile."""
    put(folder, "m.json", ledger("old"))
    ingest(registry, folder)
    put(folder, "a.json", ledger("new"))
    if changed:
        document = ledger("old")
        document["info"]["description"] = "old, mended"
        put(folder, "m.json", document)
    ingest(registry, folder)
    assert marks(registry) == {"Ledger": "old, mended" if changed else "old", "a.Ledger": "new"}
    (folder / "a.json").unlink()
    ingest(registry, folder)
    assert list(marks(registry)) == ["Ledger"]


def test_one_document_by_several_names_is_one_agent(registry: Registry, folder: Path) -> None:
    """Copied, and reached by a link."""
    original = put(folder, "m.json", ledger("old"))
    shutil.copy(original, folder / "a.json")
    (folder / "z.json").symlink_to(original)
    assert ingest(registry, folder) == []
    assert marks(registry) == {"Ledger": "old"}
    put(folder, "a.json", ledger("other"))
    ingest(registry, folder)
    assert marks(registry) == {"Ledger": "old", "a.Ledger": "other"}


def test_a_document_that_cannot_be_read_for_now_keeps_its_agent(registry: Registry, folder: Path) -> None:
    for name in ("one", "two"):
        put(folder, f"{name}.json", catalogue(name))
    ingest(registry, folder)
    put(folder, "two.json", {"waygraph": 1, "agents": [{"id": "clerk", "tools": 5}]})
    [reason] = ingest(registry, folder)
    assert "tools" in reason
    assert marks(registry) == {"clerk": "one", "two.clerk": "two"}


def test_a_pattern_and_documents_from_elsewhere_are_told_apart_alike(registry: Registry, folder: Path) -> None:
    for name in ("one", "two"):
        put(folder, f"{name}.json", ledger(name))
    [by_pattern] = read_path(f"{folder}/*.json", S)
    sync(registry, by_pattern)
    assert marks(registry) == {"Ledger": "one", "two.Ledger": "two"}
    [sent] = read_documents(list(documents(list_path(str(folder)), S)), S, source=str(folder))
    assert [entry.document for entry in sent.entries] == ["one.json", "two.json"]


def test_relative_names_are_the_same_documents(
    registry: Registry, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ingests `.` and whoever writes the whole path mean one source."""
    for name in ("one", "two"):
        put(folder, f"{name}.json", ledger(name))
    ingest(registry, folder)
    before = registry.sources()[0].claims
    monkeypatch.chdir(folder)
    ingest(registry, Path("."))
    assert [source.claims for source in registry.sources()] == [before]
