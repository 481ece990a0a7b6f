"""Tools that nothing here can run: said when they are found, and not first when their arguments fit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.gateway.hosts import Place, error_of, ingest, over_http, toolbox_place
from tests.gateway.hosts import told as told_of
from tests.service import Served, agent, served
from waygraph.registry.registry import Registry

NEEDS_A = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
BOARD = {
    **agent("abacus"),
    "tools": [{"name": "add_up", "description": "Add two whole numbers.", "inputSchema": NEEDS_A}],
}
OF_A_CATALOGUE = "it is known from a catalogue only"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A server that was asked here, and an agent that a catalogue names."""
    made = toolbox_place(tmp_path)
    (tmp_path / "catalogue.json").write_text(json.dumps({"waygraph": 1, "agents": [BOARD]}))
    assert ingest(made, str(tmp_path / "catalogue.json")) == 0
    return made


@pytest.fixture
def service(place: Place) -> Iterator[Served]:
    with served(place.registry) as running:
        yield running


def asked(service: Served, tool: str, **arguments: Any) -> Any:
    async def call() -> Any:
        async with over_http(f"{service.url}/mcp") as host:
            return await host.call_tool(tool, arguments)

    return anyio.run(call)


def test_a_found_tool_says_that_it_cannot_run(service: Served) -> None:
    found = told_of(asked(service, "find_tools", query="add two whole numbers"))
    reasons = {tool["name"]: tool.get("cannot_run") for tool in found["tools"]}
    assert reasons["abacus__add_up"] == OF_A_CATALOGUE
    assert reasons["box__add"] is None
    assert "use_tool" in found["hint"]


@pytest.mark.parametrize("params", [{}, {"a": "one"}, {"a": 1}], ids=["none", "wrong", "right"])
def test_a_call_says_it_whatever_the_arguments(service: Served, params: dict[str, object]) -> None:
    error = error_of(asked(service, "use_tool", name="abacus__add_up", params=params))
    assert error["code"] == "not-callable"
    assert OF_A_CATALOGUE in error["message"]


async def test_what_cannot_run_is_not_listed(place: Place, service: Served) -> None:
    """A host takes what is listed for what it may call; pinning tells routes, too."""
    with Registry.open(place.registry, embedder="none") as registry:
        registry.operator.set("abacus", pinned=True)
        registry.operator.set("box", pinned=True)
    async with over_http(f"{service.url}/mcp") as host:
        names = [tool.name for tool in (await host.list_tools()).tools]
    assert "box__add" in names
    assert "abacus__add_up" not in names
