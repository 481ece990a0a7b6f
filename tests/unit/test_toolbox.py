"""What the adapters share: tools for a conversation, results and refusals as a model reads them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from waygraph import Filters, Principal, Registry, ToolResult, Turn, ingest
from waygraph.adapters.toolbox import Toolbox

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
ASK = Turn(role="user", text="convert an amount of one currency")


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry.open(":memory:", embedder="none", environ={}) as registry:
        ingest(registry, CATALOG)
        registry.operator.set("bureau-fx", visible_to=["desk"])
        yield registry


def names(toolbox: Toolbox, *turns: Turn) -> list[str]:
    return [tool.name for tool in toolbox.find(turns)]


def test_tools_are_found_for_the_last_words_of_the_user(registry: Registry) -> None:
    """What the assistant says behind them changes nothing of the request; why a tool cannot run stands in its text."""
    [tool] = Toolbox(registry, limit=1).find([Turn(role="user", text="make it cosy"), ASK])
    assert tool.name == "bureau-fx__convert"
    assert tool.parameters["type"] == "object"
    assert "Cannot run here: it is known from a catalogue only" in tool.description


def test_without_words_there_are_no_tools(registry: Registry) -> None:
    assert names(Toolbox(registry)) == []
    assert names(Toolbox(registry), Turn(role="assistant", text="Hello"), Turn(role="user", text=" ")) == []


def test_options_narrow_what_is_found(registry: Registry) -> None:
    """Filters, and what the principal may see."""
    assert "bureau-fx__convert" in names(Toolbox(registry), ASK)
    filtered = Toolbox(registry, filters=Filters(without_agent_ids=("bureau-fx",)))
    seen = Toolbox(registry, principal=Principal(id="guest"))
    earlier = Turn(role="call", tool="bureau-fx__convert")
    assert "bureau-fx__convert" not in names(filtered, ASK) + names(seen, earlier, ASK)


def test_called_tools_stay(registry: Registry) -> None:
    """Those that the registry has, the latest first; others are the program's own."""
    calls = [Turn(role="call", tool=name) for name in ("hearthside__set_light", "own_tool", "harbor-git__search_code")]
    offered = names(Toolbox(registry, limit=3), *calls, ASK)
    assert offered[-2:] == ["harbor-git__search_code", "hearthside__set_light"]
    assert len(offered) == 5


def test_a_long_conversation_fits_the_limits_of_a_registry(registry: Registry) -> None:
    """Only its latest turns count, each in part: whole, it would be refused."""
    long = [Turn(role="assistant", text="word " * 20_000)] * 300
    assert names(Toolbox(registry, limit=1), *long, Turn(role="user", text=ASK.text + " now" * 20_000)) != []


def test_a_refused_call_is_a_result(registry: Registry) -> None:
    """Nothing runs the catalogue; a name that is not there is answered by those that are near."""
    for name, reason in (
        ("bureau-fx__convert", "known from a catalogue"),
        ("bureau-fx__convrt", "Nearest: bureau-fx__convert"),
    ):
        result = Toolbox(registry).call(name, {})
        assert result.is_error
        assert reason in result.text
        assert asyncio.run(Toolbox(registry).call_async(name, {})) == result


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("", {}, "1 to 512 characters"),
        ("n" * 100_000, {}, "1 to 512 characters"),
        ("a\nb", {}, "that can be printed"),
        ("bureau-fx__convert", [1], "expected an object"),
        ("bureau-fx__convert", {"amount": float("nan")}, "known from a catalogue"),
        ("\ud800", {}, "that can be printed"),
    ],
)
def test_whatever_a_model_wrote_as_a_call_ends_no_agent(
    registry: Registry, name: str, arguments: Any, reason: str
) -> None:
    result = Toolbox(registry).call(name, arguments)
    assert result.is_error
    assert reason in result.text
    assert asyncio.run(Toolbox(registry).call_async(name, arguments)) == result
    called = Turn(role="call", tool=name, outcome="failed", result=result.text)
    assert "bureau-fx__convert" in names(Toolbox(registry), ASK, called), "the conversation goes on"


def test_results_are_one_text() -> None:
    """Blocks that are no text are named, without their data."""
    blocks = (
        {"type": "text", "text": "one"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
        {"type": "resource_link", "uri": "file:///b"},
    )
    assert ToolResult(content=blocks).text == "one\n[image image/png]\ntwo\n[resource_link file:///b]"
    assert ToolResult(structured_content={"sum": 3}).text == '{"sum": 3}'


def test_what_is_no_registry_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Registry\.open"):
        Toolbox("tools.grafeo")  # type: ignore[arg-type]
