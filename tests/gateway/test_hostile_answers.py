"""What a hostile server answers ends its own call at most: the gateway, and whoever else it serves, go on."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from mcp import MCPError

from tests.gateway.hosts import Era, Open, Place, ingest, on_stdio, opened_by
from tests.gateway.programs.hostile_answers import NAMES
from tests.service import served

PROGRAM = Path(__file__).parent / "programs" / "hostile.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("hostile"))
    config = place.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"bad": {"command": sys.executable, "args": [str(PROGRAM)]}}}))
    assert ingest(place, str(config)) == 0
    return place


@pytest.fixture(params=["stdio", "http"])
def open_host(request: pytest.FixtureRequest, place: Place) -> Iterator[Open]:
    with served(place.registry) as service:
        yield opened_by(request.param, f"{service.url}/mcp", on_stdio(place))


async def test_no_answer_of_a_server_ends_the_gateway(open_host: Open, era: Era) -> None:
    """Half characters, depth, numbers that JSON does not have, fields of another type: all calls end, the last well."""
    async with open_host(era) as host:
        for name in NAMES:
            with anyio.fail_after(20):
                with suppress(MCPError, ValueError):  # the second: the host's own types do not take the answer
                    await host.call_tool(f"bad__{name}", {})
        result = await host.call_tool("bad__well", {})
        assert result.content[0].text == "well"


async def test_a_result_whose_meta_is_no_object_comes_without_it(open_host: Open, era: Era) -> None:
    async with open_host(era) as host:
        for name in ("meta", "meta_list"):
            result = await host.call_tool(f"bad__{name}", {})
            assert (result.content, result.is_error) == ([], False)


async def test_a_number_that_no_float_holds_comes_as_null_and_a_long_one_whole(open_host: Open, era: Era) -> None:
    async with open_host(era) as host:
        assert (await host.call_tool("bad__large_float", {})).structured_content == {"n": None}
        assert (await host.call_tool("bad__nan", {})).structured_content == {"n": None, "i": None}
        assert (await host.call_tool("bad__long_number", {})).structured_content == {"n": int("9" * 4000)}
