"""A program finds tools and calls them, with nothing but `import waygraph`: sync, async, and through a service."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import waygraph
from tests.service import process, served, until

CALCULATOR = Path(__file__).parents[1] / "servers" / "calculator.py"
POLICY = """
[[rules]]
match = "calculator/erase"
verdict = "deny"
reason = "the memory stays"
"""
CATALOGUE = {
    "waygraph": 1,
    "agents": [{"id": "abacus", "tools": [{"name": "percent", "description": "Work out 17 percent of a number."}]}],
}
RUDE = """if True:
    import json, sys
    INFO = {"name": "rude", "version": "1"}
    GREETING = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
    BLOCKS = [{"type": "text"}, json.loads(sys.argv[1]), {"type": "hologram"}, 7]
    ANSWERS = {
        "initialize": GREETING,
        "tools/list": {"tools": [{"name": "blurt", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": BLOCKS},
    }
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]}
            print(json.dumps(answer), flush=True)
"""
"""A server whose result holds little that MCP has."""
IMAGE = {"type": "image", "data": "?", "mimeType": "image/png"}
REQUEST = "17 percent of 2340"
ARGUMENTS = {"expression": "2340*0.17"}


@dataclass(frozen=True)
class Desk:
    """A registry with a calculator that runs here and an abacus that only a catalogue names."""

    place: Path
    settings: waygraph.Settings
    notes: Path
    audit: Path

    def open(self) -> waygraph.Registry:
        return waygraph.Registry.open(self.place, settings=self.settings)

    @property
    def began(self) -> list[str]:
        return self.notes.read_text(encoding="utf-8").split() if self.notes.exists() else []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    settings = waygraph.Settings(
        data_dir=str(folder / "data"),
        policy_file=str(folder / "policy.toml"),
        audit_file=str(folder / "audit.jsonl"),
        embedder="none",
    )
    desk = Desk(folder / "tools.grafeo", settings, folder / "notes", folder / "audit.jsonl")
    with desk.open() as registry:
        [report] = waygraph.ingest(registry, [sys.executable, str(CALCULATOR), str(desk.notes)])
        assert "calculator" in report.changes.created_agents
        waygraph.ingest(registry, CATALOGUE, source="catalogue")
    return desk


@pytest.fixture(params=["here", "service"])
def registry(request: pytest.FixtureRequest, desk: Desk) -> Iterator[waygraph.Registry]:
    """The same registry, opened here and at a service."""
    if request.param == "here":
        with desk.open() as registry:
            yield registry
    else:
        with served(desk.place, settings=desk.settings) as service, waygraph.Registry.open(service.url) as registry:
            yield registry


def test_a_tool_is_found_and_runs(registry: waygraph.Registry) -> None:
    """What can run comes first, though the abacus fits as well; its schema is a mapping."""
    found = registry.find(REQUEST)
    assert [(each.tool.id, bool(each.cannot_run)) for each in found][:2] == [
        ("calculator/evaluate", False),
        ("abacus/percent", True),
    ]
    assert found[0].input_schema["required"] == ["expression"]
    assert found.route.reason == ""
    result = registry.call(found[0], ARGUMENTS)
    assert (result.text, result.structured_content, result.is_error) == ("397.8", {"result": 397.8}, False)
    assert registry.call("calculator__evaluate", ARGUMENTS) == registry.call(found[0].tool, ARGUMENTS) == result


def test_the_policy_decides(registry: waygraph.Registry, desk: Desk) -> None:
    """What it refuses does not run, and its match says so beforehand."""
    [erase] = [each for each in registry.find("erase the memory") if each.tool.name == "erase"]
    assert erase.cannot_run == "the memory stays"
    with pytest.raises(waygraph.NotCallable, match="the memory stays"):
        registry.call(erase)
    assert "erase" not in desk.began


def test_arguments_are_checked_before_anything_runs(registry: waygraph.Registry, desk: Desk) -> None:
    before = desk.began
    with pytest.raises(waygraph.InvalidArguments, match="/expression"):
        registry.call("calculator/evaluate", {"formula": "1*1"})
    with pytest.raises(waygraph.UnknownName):
        registry.call("calculator/divide")
    assert desk.began == before


def test_an_agent_that_nothing_runs_says_why(registry: waygraph.Registry) -> None:
    [percent] = [each for each in registry.find(REQUEST) if each.agent.id == "abacus"]
    assert percent.cannot_run == "it is known from a catalogue only"
    with pytest.raises(waygraph.NotCallable, match="catalogue"):
        registry.call(percent)


def test_a_tool_that_fails_is_a_result(registry: waygraph.Registry) -> None:
    assert registry.call("calculator/evaluate", {"expression": "seven"}).is_error


def test_a_result_is_as_mcp_has_it_whatever_a_server_sends(tmp_path: Path) -> None:
    """A block without what its type needs stands as JSON in a text; one of a type that is not known stays."""
    settings = waygraph.Settings(data_dir=str(tmp_path / "data"), embedder="none")
    with waygraph.Registry.open(tmp_path / "tools.grafeo", settings=settings) as registry:
        waygraph.ingest(registry, [sys.executable, "-c", RUDE, json.dumps(IMAGE)])
        [tool] = registry.tools()
        result = registry.call(tool)
    assert [block["type"] for block in result.content] == ["text", "text", "hologram", "text"]
    assert result.text.splitlines() == ['{"type": "text"}', json.dumps(IMAGE), "[hologram]", "7"]


def test_every_call_is_in_the_audit(desk: Desk) -> None:
    """As those of hosts: who, what, how it ended."""
    with desk.open() as registry:
        registry.call("calculator/evaluate", ARGUMENTS, principal=waygraph.Principal(id="ines"))
        with pytest.raises(waygraph.NotCallable):
            registry.call("calculator/erase")
    lines = [json.loads(line) for line in desk.audit.read_text(encoding="utf-8").splitlines()][-2:]
    told = [(line["caller"], line["action"], line["target"], line["outcome"]) for line in lines]
    assert told == [("ines", "call", "calculator/evaluate", "ok"), ("local", "call", "calculator/erase", "refused")]


def test_a_principal_calls_what_it_sees(desk: Desk) -> None:
    with desk.open() as registry:
        registry.operator.set("abacus", visible_to=["traders"])
        with pytest.raises(waygraph.UnknownName):
            registry.call("abacus/percent", principal=waygraph.Principal())
        registry.operator.set("abacus", visible_to=None)


@pytest.mark.parametrize("where", ["here", "service"])
def test_so_it_is_for_asynchronous_programs(where: str, desk: Desk) -> None:
    """The same answers and errors, many at once."""

    async def ask(registry: waygraph.Registry) -> None:
        async with registry as tools:
            found = await tools.find(REQUEST)
            results = await asyncio.gather(*(tools.call(found[0], {"expression": f"{n}*2"}) for n in range(8)))
            assert [result.structured_content for result in results] == [{"result": 2.0 * n} for n in range(8)]
            for tool, arguments in (
                ("calculator/erase", {}),
                ("abacus/percent", {}),
                ("calculator/evaluate", {"x": 1}),
            ):
                with pytest.raises(waygraph.CallError):
                    await tools.call(tool, arguments)
            assert (await tools.route(REQUEST)).matches[0].agent.id in ("calculator", "abacus")
            assert (await tools.operator.changes(limit=1)).items

    if where == "here":
        asyncio.run(ask(desk.open()))
    else:
        with served(desk.place, settings=desk.settings) as service:
            asyncio.run(ask(waygraph.Registry.open(service.url)))


async def test_a_call_that_is_given_up_ends_at_its_server(desk: Desk) -> None:
    async with desk.open() as tools:
        call = asyncio.create_task(tools.call("calculator/wait"))
        await asyncio.to_thread(until, lambda: "wait" in desk.began, "the tool began")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.to_thread(until, lambda: "cancelled" in desk.began, "the server was told")


def test_a_call_has_a_deadline_and_an_end(desk: Desk) -> None:
    registry = desk.open()
    with registry, pytest.raises(waygraph.CallTimedOut):
        registry.call("calculator/wait", timeout_s=0.5)
    for ask in (registry.find, registry.call):
        with pytest.raises(waygraph.WaygraphError, match="was closed"):
            ask("calculator/evaluate")


def test_a_service_without_a_gateway_says_so(desk: Desk, tmp_path: Path) -> None:
    environ = {"WAYGRAPH_DATA_DIR": str(tmp_path)}
    with (
        process(desk.place, tmp_path, "--no-mcp", environ=environ) as service,
        waygraph.Registry.open(service.url) as registry,
    ):
        assert registry.find(REQUEST)[0].cannot_run == "this service offers no gateway (--no-mcp)"
        with pytest.raises(waygraph.NotCallable, match="--no-mcp"):
            registry.call("calculator/evaluate", ARGUMENTS)
