"""The orchestrators of examples/ in three frameworks that others wrote, with a scripted model: find, call, answer."""

import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.clients.gateways import LISTED, Door, Gateway, Service, client_beside
from tests.host_programs import FRAMEWORKS, PINS, host_program
from tests.scripted_model import KEY, NAME, ScriptedModel, scripted_model

FOLDER = "examples/orchestrators"
RUN_S = 120.0
IN_EACH = pytest.mark.parametrize("framework", FRAMEWORKS)


@dataclass(frozen=True)
class Orchestrators:
    """The programs, and the gateway that they are to use."""

    folder: Path
    gateway: Gateway
    service: Service

    def run(self, framework: str, door: Door, task: str, *options: str) -> tuple[str, ScriptedModel]:
        """What one printed, started as a person starts it, and what its model was asked. `options` are a surface."""
        program = (*host_program(framework), str(self.folder / f"with_{framework}.py"))
        where = shlex.join(self.gateway.waygraph("mcp", *options)) if door == "stdio" else self.service.url(door)
        with scripted_model() as model:
            keys = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": KEY, "WAYGRAPH_API_KEY": self.service.key}
            done = subprocess.run(
                (*program, "--model", NAME, "--gateway", where, *options, task),
                env={**self.gateway.environ, **keys},
                capture_output=True,
                text=True,
                check=False,
                timeout=RUN_S,
            )
        assert done.returncode == 0, (model.refused, done.stderr)
        return done.stdout, model


@pytest.fixture
def orchestrators(root: Path, gateway: Gateway, services: Service) -> Orchestrators:
    return Orchestrators(root / FOLDER, gateway, services)


@IN_EACH
def test_the_model_finds_a_tool_calls_it_and_answers(framework: str, orchestrators: Orchestrators) -> None:
    """It carries our few tools and no other, is told of one by find_tools, and answers with what that returned."""
    path = orchestrators.gateway.home / "note.txt"
    told, model = orchestrators.run(framework, "stdio", f"Read the complete contents of a text file. path={path}")
    assert orchestrators.gateway.note in told
    assert model.offered == {LISTED}
    assert [call.tool for call in model.calls] == ["find_tools", "use_tool"]
    assert model.calls[0].arguments["query"] == "Read the complete contents of a text file."


def test_a_router_names_one_tool_and_the_model_runs_it(orchestrators: Orchestrators) -> None:
    """On the router's surface the model carries two tools, and chooses none itself."""
    path, task = orchestrators.gateway.home / "note.txt", "Read the complete contents of a text file."
    told, model = orchestrators.run("openai_agents", "stdio", f"{task} path={path}", "--surface", "router")
    assert orchestrators.gateway.note in told
    assert model.offered == {frozenset({"route", "execute"})}
    assert [call.tool for call in model.calls] == ["route", "execute"]
    assert model.calls[0].arguments["query"] == task


@IN_EACH
def test_an_image_reaches_the_model(framework: str, orchestrators: Orchestrators) -> None:
    """Byte by byte the server's, in the shape in which the framework hands images to its model."""

    async def image() -> str:
        async with client_beside(orchestrators.gateway.server("everything")) as client:
            result = await client.call_tool("get-tiny-image", {})
            [data] = [block.data for block in result.content if block.type == "image"]
            return data

    told, model = orchestrators.run(framework, "/desk/mcp", "Return a tiny MCP logo image.")
    assert "The image above is the MCP logo." in told
    assert f"data:image/png;base64,{anyio.run(image)}" in model.last_request


@IN_EACH
def test_what_goes_wrong_reaches_the_model(framework: str, orchestrators: Orchestrators) -> None:
    """What the server said of its failure is what the model goes on from."""
    path = orchestrators.gateway.home / "gone.txt"
    told, model = orchestrators.run(framework, "/mcp", f"Read the complete contents of a text file. path={path}")
    assert "ENOENT" in told
    assert model.calls[-1].tool == "use_tool"


@IN_EACH
def test_what_the_page_says_to_install_is_what_is_tested(framework: str, root: Path) -> None:
    """Every package of its line is pinned for the tests, and its program is named."""
    page = (root / FOLDER / "README.md").read_text(encoding="utf-8")
    [line] = [line for line in page.splitlines() if f"(with_{framework}.py)" in line]
    [packages] = re.findall(r"`pip install (.+?)`", line)
    pinned = {pin.partition("==")[0] for pin in (PINS / f"{framework}.txt").read_text().split()}
    assert {package.partition("[")[0] for package in shlex.split(packages)} <= pinned
    assert f"`python with_{framework}.py " in line
