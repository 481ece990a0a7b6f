"""The adapters in the five frameworks that others wrote, with a scripted model: tools are found, called, and refused.

Each framework runs the program of examples/agents/ over a registry with a real server, as a person starts it.
"""

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import waygraph
from tests.clients.gateways import Gateway, client_beside
from tests.host_programs import FRAMEWORKS, PINS, framework_packages
from tests.scripted_model import KEY, ScriptedModel, scripted_model
from tests.service import served

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "agents"
CALCULATOR = ROOT / "tests" / "servers" / "calculator.py"
POLICY = """
[[rules]]
match = "calculator/erase"
verdict = "deny"
reason = "the memory stays"

[[rules]]
match = "calculator/wait"
verdict = "ask"
"""
OLD_SCHEMA = {"type": "object", "properties": {"share": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}}
"""As drafts before the sixth have it; the draft of 2020 refuses it."""
CATALOGUE = {
    "waygraph": 1,
    "agents": [
        {"id": "abacus", "tools": [{"name": "share", "description": "Take a share.", "inputSchema": OLD_SCHEMA}]}
    ],
}
SUM = "Evaluate 17 percent of a number with the calculator, and the share. expression=2340*0.17"
CHART = "Draw a lineChart of the visits."
QUESTIONS = (SUM, "Erase the memory of the calculator.", "Wait for a minute.", CHART)
RUN_S = 120.0
IN_EACH = pytest.mark.parametrize("framework", FRAMEWORKS)

ASYNC_LANGCHAIN = """
import asyncio, sys
from langchain.agents import create_agent
from langchain_core.tools import tool
from waygraph import Registry
from waygraph.adapters.langchain import RegistryMiddleware

@tool
def calculator__evaluate(expression: str) -> str:
    "The agent's own, which has the name of one in the registry."
    return f"own {expression}"

async def main(place, question, *own):
    async with Registry.open(place) as registry:
        tools = [calculator__evaluate] if own else []
        agent = create_agent("openai:gpt-5-mini", tools, middleware=[RegistryMiddleware(registry, limit=1)])
        state = await agent.ainvoke({"messages": [("user", question)]})
        print([(each.status, each.text) for each in state["messages"] if each.type == "tool"])

asyncio.run(main(*sys.argv[1:]))
"""


@dataclass(frozen=True)
class Desk:
    """A registry with a calculator that runs, and agents that only a catalogue names."""

    place: Path
    settings: waygraph.Settings
    notes: Path

    @property
    def environ(self) -> Mapping[str, str]:
        folder, policy = self.settings.data_dir, self.settings.policy_file
        return {"WAYGRAPH_DATA_DIR": folder, "WAYGRAPH_POLICY_FILE": policy, "WAYGRAPH_EMBEDDER": "none"}

    @property
    def began(self) -> list[str]:
        return self.notes.read_text(encoding="utf-8").split() if self.notes.exists() else []


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    policy = folder / "policy.toml"
    policy.write_text(POLICY, encoding="utf-8")
    settings = waygraph.Settings(data_dir=str(folder / "data"), policy_file=str(policy), embedder="none")
    desk = Desk(folder / "tools.grafeo", settings, folder / "notes")
    with waygraph.Registry.open(desk.place, settings=settings) as registry:
        waygraph.ingest(registry, [sys.executable, str(CALCULATOR), str(desk.notes)])
        waygraph.ingest(registry, CATALOGUE, source="catalogue")
        waygraph.ingest(registry, str(ROOT / "examples" / "catalog"))
    return desk


def run(framework: str, program: str | Path, environ: Mapping[str, str], *words: object) -> tuple[str, ScriptedModel]:
    """What a program printed, and what its model was asked. `program`: a file, or its text."""
    start = [str(program)] if isinstance(program, Path) else ["-c", program]
    with scripted_model() as model:
        fixed = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(framework_packages(framework)),
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": KEY,
            "HAYSTACK_TELEMETRY_ENABLED": "False",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is fetched
        }
        done = subprocess.run(
            [sys.executable, *start, *map(str, words)],
            env={**fixed, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )
    assert done.returncode == 0, (model.refused, done.stderr)
    return done.stdout, model


@pytest.fixture(scope="module")
def conversation(desk: Desk) -> "Conversations":
    return Conversations(desk)


class Conversations:
    """The four questions, put to each framework once."""

    def __init__(self, desk: Desk) -> None:
        self.of = cache(
            lambda framework: run(framework, EXAMPLES / f"with_{framework}.py", desk.environ, desk.place, *QUESTIONS)
        )


def results(model: ScriptedModel) -> dict[str, str]:
    """Of all calls, by tool."""
    return {call.tool: call.result or "" for request in model.asked for call in request.calls}


@IN_EACH
def test_the_model_is_offered_the_tool_and_answers_with_its_result(
    framework: str, conversation: Conversations, desk: Desk
) -> None:
    """The tool stands in the request as one of the model's own, with its schema; its server ran."""
    answers, model = conversation.of(framework)
    request = next(each for each in model.asked if set(each.tools) - {"find_tools"})
    assert request.tools["calculator__evaluate"]["required"] == ["expression"]
    assert "abacus__share" in request.tools
    assert "397.8" in results(model)["calculator__evaluate"]
    assert "397.8" in answers.splitlines()[0]
    assert "evaluate" in desk.began


@IN_EACH
def test_a_refused_call_is_an_error_that_the_model_reads(
    framework: str, conversation: Conversations, desk: Desk
) -> None:
    """What the policy denies and what a person has to agree to; neither runs."""
    model = conversation.of(framework)[1]
    assert "the memory stays" in results(model)["calculator__erase"]
    assert "only if a person agrees" in results(model)["calculator__wait"]
    assert not {"erase", "wait"} & set(desk.began)


@IN_EACH
def test_a_conversation_keeps_the_tools_that_it_called(framework: str, conversation: Conversations, desk: Desk) -> None:
    """The last question alone would not find the calculator."""
    with waygraph.Registry.open(desk.place, settings=desk.settings) as registry:
        alone = {each.agent.id for each in registry.find(CHART)}
    offered = set(conversation.of(framework)[1].asked[-1].tools)
    assert "calculator" not in alone
    assert {"plotwright__lineChart", "calculator__evaluate"} <= offered


@IN_EACH
def test_only_what_fits_is_offered(framework: str, conversation: Conversations) -> None:
    """Five tools are found, and at most five were called; some frameworks have find_tools beside them."""
    assert max(len(request.tools) for request in conversation.of(framework)[1].asked) <= 11


def test_an_adapter_takes_a_service(desk: Desk) -> None:
    """The same program with the address of one, whose gateway makes the call."""
    with served(desk.place, settings=desk.settings) as service:
        answers, model = run("langchain", EXAMPLES / "with_langchain.py", {}, service.url, *QUESTIONS[:2])
    assert "397.8" in answers
    assert "the memory stays" in results(model)["calculator__erase"]


def test_langchain_awaits(desk: Desk) -> None:
    """An agent run by `ainvoke`; a refusal has the status of an error."""
    answer, model = run("langchain", ASYNC_LANGCHAIN, desk.environ, desk.place, SUM)
    assert answer.strip() == "[('success', '397.8')]"
    assert model.offered == {frozenset({"calculator__evaluate"})}
    answer, _ = run("langchain", ASYNC_LANGCHAIN, desk.environ, desk.place, QUESTIONS[1])
    assert answer.startswith("[('error', ")


def test_an_agents_own_tool_goes_before_one_of_its_name(desk: Desk) -> None:
    answer, _ = run("langchain", ASYNC_LANGCHAIN, desk.environ, desk.place, SUM, "own")
    assert answer.strip() == "[('success', 'own 2340*0.17')]"


@pytest.mark.parametrize("framework", ["langchain", "openai_agents", "pydantic_ai"])
async def test_an_image_reaches_the_model(framework: str, gateway: Gateway) -> None:
    """Byte by byte the server's, in the shape in which the framework hands images to its model."""
    environ = {**gateway.environ, "WAYGRAPH_EMBEDDER": "none"}
    program = EXAMPLES / f"with_{framework}.py"
    _, model = run(framework, program, environ, gateway.location, "Return a tiny MCP logo image.")
    async with client_beside(gateway.server("everything")) as client:
        result = await client.call_tool("get-tiny-image", {})
        [data] = [block.data for block in result.content if block.type == "image"]
        assert data in model.last_request


@IN_EACH
def test_a_missing_framework_is_one_error_that_says_what_to_install(framework: str) -> None:
    """It names a package that the tests have pinned; here it is not installed."""
    with pytest.raises(waygraph.WaygraphError, match="pip install") as caught:
        importlib.import_module(f"waygraph.adapters.{framework}")
    [package] = shlex.split(str(caught.value).rpartition("pip install ")[2])
    assert re.split(r"[>=]", package)[0] in pinned(framework)


@IN_EACH
def test_what_the_page_says_to_install_is_what_is_tested(framework: str) -> None:
    """Every package of its line is pinned for the tests, and its program is named."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if f"(with_{framework}.py)" in line]
    [packages] = re.findall(r"`pip install (.+?)`", line)
    assert {package.partition("[")[0] for package in shlex.split(packages)} <= pinned(framework)


def pinned(framework: str) -> set[str]:
    return {pin.partition("==")[0] for pin in (PINS / f"{framework}.txt").read_text().split()}
