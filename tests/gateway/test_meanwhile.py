"""While a person is asked, time passes: what they agreed to is looked at again before it runs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.gateway.hosts import Place, toolbox_place
from tests.gateway.test_questions import POLICY, answered, ask
from tests.service import Served, served
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.identity import sealed_tool
from waygraph.registry.model.settings import Settings


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return toolbox_place(tmp_path)


@pytest.fixture
def service(place: Place) -> Iterator[Served]:
    policy = place.folder / "policy.toml"
    policy.write_text(POLICY)
    with served(place.registry, settings=Settings(policy_file=str(policy))) as running:
        yield running


def agreed_after(service: Served, change: Callable[[], object]) -> dict[str, object]:
    """The result of a call that a person agrees to after this change."""
    first = ask(service, name="box__erase", arguments={"path": "/tide.txt"})
    assert first["resultType"] == "input_required"
    change()
    return ask(service, name="box__erase", arguments={}, **answered(first, run=True))


def test_what_was_hidden_meanwhile_does_not_run(service: Served, place: Place) -> None:
    told = agreed_after(service, lambda: service.registry.operator.set("box", hidden=True))
    assert "unknown-name" in json.dumps(told)
    assert "erased" not in place.notes


def test_what_became_another_meanwhile_does_not_run(service: Served, place: Place) -> None:
    def change() -> None:
        registry = service.registry
        said = {"erase": "Delete a whole disk."}
        tools = [replace(tool, description=said.get(tool.name, tool.description)) for tool in registry.tools("box")]
        entry = AgentEntry(key="box", agent=registry.agent("box"), tools=tuple(map(sealed_tool, tools)))
        sync(registry, Manifest(source=registry.sources()[0].name, entries=(entry,)))

    told = agreed_after(service, change)
    assert "became another" in json.dumps(told)
    assert "erased" not in place.notes
