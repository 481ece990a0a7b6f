"""A call of a tool that an operator renamed, and whose parameters callers do not all see, reaches its server whole."""

import json
from pathlib import Path
from typing import Any

from tests.gateway.hosts import Era, error_of, over_http, toolbox_place
from tests.service import served
from waygraph.registry.registry import Registry


async def test_a_call_as_the_operator_says(tmp_path: Path, era: Era) -> None:
    place = toolbox_place(tmp_path)
    said = {"name": "plus_two", "parameters": {"b": {"pin": 2}, "a": {"name": "number"}}}
    with Registry.open(place.registry, embedder="none", environ={}) as registry:
        registry.operator.set_tool("box/add", said)
    with served(place.registry) as service:
        async with over_http(f"{service.url}/mcp", era) as client:
            host: Any = client
            found = await host.call_tool("find_tools", {"query": "box__plus_two", "detail": "schema"})
            [tool] = [each for each in json.loads(found.content[0].text)["tools"] if each["name"] == "box__plus_two"]
            assert list(tool["inputSchema"]["properties"]) == ["number"]
            sent = await host.call_tool("use_tool", {"name": "box__plus_two", "params": {"number": 3}})
            assert sent.structured_content == {"total": 5}
            for params in ({"number": 3, "b": 9}, {"number": 3, "a": 9}, {"a": 3}):
                answer = await host.call_tool("use_tool", {"name": "box__plus_two", "params": params})
                assert error_of(answer)["code"] == "invalid-arguments"
