"""What one server says costs that server alone: never the lists of the others, a start, or the gateway."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from tests.gateway.hosts import Place, ingest, over_http
from tests.gateway.programs import odd_numbers
from tests.service import served
from waygraph.api.mcp import gateway as mcp_gateway
from waygraph.api.mcp import offers
from waygraph.ingest.execution.executor import Executor
from waygraph.registry.model.nouns import Agent
from waygraph.registry.registry import Registry

pytestmark = pytest.mark.attack
NUMBERS = ["9" * 400, "1e999", "-1e999", "NaN", "-1", "true", '"soon"', "null", "[60]", "9" * 4_000]
ODD = [("," + f'"ttlMs":{number}', f',"annotations":{{"priority":{number}}},"size":{number}') for number in NUMBERS]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a server takes long to start."""
    monkeypatch.setattr(offers, "LIST_S", 60.0)


def place_of(folder: Path, *servers: tuple[str, str, str]) -> Place:
    place = Place(folder)
    launches = {
        name: {"command": sys.executable, "args": [odd_numbers.__file__, name, of_list, of_item]}
        for name, of_list, of_item in servers
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": launches}))
    assert ingest(place, str(folder / "mcp.json")) in (0, 1)
    return place


async def read(url: str) -> tuple[list[str], list[str], list[str]]:
    async with over_http(url, "legacy") as host:
        prompts = [each.name for each in (await host.list_prompts()).prompts]
        resources = [str(each.uri) for each in (await host.list_resources()).resources]
        answer: Any = await host.call_tool("use_tool", {"name": "sound__go", "params": {}})
        return prompts, resources, [block.text for block in answer.content]


def test_no_number_of_a_server_takes_the_lists_of_others(tmp_path: Path) -> None:
    """Each odd server says one number in every place that takes one."""
    odd = [(f"odd{number}", *extras) for number, extras in enumerate(ODD[:6])]
    place = place_of(tmp_path, ("sound", "", ""), *odd)
    with Registry.open(place.registry) as registry:
        assert "sound" in {agent.id for agent in registry.agents()}
    with served(place.registry) as service:
        prompts, resources, told = anyio.run(read, f"{service.url}/mcp")
        assert "sound__sound" in prompts
        assert "waygraph://agents/sound/note://sound" in resources
        assert told[0] == "went"
        assert "Traceback" not in service.log


@pytest.mark.parametrize("extras", ODD[6:], ids=lambda extras: extras[0][:16])
def test_a_ttl_that_is_none_is_as_if_it_were_not_said(tmp_path: Path, extras: tuple[str, str]) -> None:
    place = place_of(tmp_path, ("sound", "", ""), ("odd", extras[0], ""))
    with served(place.registry) as service:
        prompts, _, told = anyio.run(read, f"{service.url}/mcp")
        assert {"sound__sound", "odd__odd"} <= {*prompts}
        assert told[0] == "went"


@pytest.mark.parametrize("fault", [OverflowError("too large"), RecursionError(), KeyError("prompts"), MemoryError()])
def test_whatever_a_server_leads_to_costs_its_own_list(
    tmp_path: Path, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in reading one server that nobody has met yet: here it is planted where its answer is read."""
    place = place_of(tmp_path, ("sound", "", ""), ("odd", "", ""))
    call = Executor.call

    async def fail(self: Executor, call_: Any) -> Any:
        if call_.agent.id == "odd" and call_.method.endswith("/list"):
            raise fault
        return await call(self, call_)

    monkeypatch.setattr(Executor, "call", fail)
    with served(place.registry) as service:
        prompts, resources, told = anyio.run(read, f"{service.url}/mcp")
        assert prompts == ["sound__sound"]
        assert resources == ["waygraph://capabilities", "waygraph://agents/sound/note://sound"]
        assert told[0] == "went"


def test_a_server_that_cannot_be_warmed_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Its round is a task of the gateway's, which would end with it."""

    class Failing:
        async def warm(self, _: Agent) -> None:
            raise OverflowError

    gateway: Any = SimpleNamespace(executor=Failing())
    anyio.run(mcp_gateway._warm, gateway, Agent(id="odd", name="odd"))
    assert "odd" in caplog.text


def test_of_a_list_without_end_a_bounded_part_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest counts as suspicious, the longest texts first; what is remembered of a text is not the text."""
    monkeypatch.setattr(offers, "MOST_READ_CHARS", 2_000)
    agent = Agent(id="box", name="box")
    sizes = (900, 10, 1_500, 20, 900)
    items = [{"name": f"p{at}", "description": "x" * size} for at, size in enumerate(sizes)]
    read = [offer for item in items if (offer := offers._read_item("prompt", agent, item))]
    assert {each.removeprefix("box__p") for each in offers._doubtful_addresses(read)} == {"2"}
    verdicts: Any = offers._is_suspicious
    assert verdicts.cache.maxsize == offers.MOST_VERDICTS
    assert all(isinstance(key, bytes) and len(key) == 32 for key in verdicts.cache)
    assert len(verdicts.cache) >= len(sizes) - 1
