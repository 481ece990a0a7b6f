"""`waygraph call`: a tool is run from a terminal or a script, by the rules that hold for hosts."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.test_cli_pages import misfit

CALCULATOR = Path(__file__).parents[1] / "servers" / "calculator.py"
WAYGRAPH = Path(sys.executable).with_name("waygraph")
POLICY = """
[[rules]]
match = "calculator/erase"
verdict = "ask"
reason = "the memory goes"

[[rules]]
match = "calculator/wait"
verdict = "deny"
reason = "nobody has a minute"
"""
EVALUATE = "calculator/evaluate"

type Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("call")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    return {
        **os.environ,
        "HOME": str(folder),
        "WAYGRAPH_REGISTRY": str(folder / "tools.grafeo"),
        "WAYGRAPH_POLICY_FILE": str(folder / "policy.toml"),
        "WAYGRAPH_EMBEDDER": "none",
    }


@pytest.fixture(scope="module")
def call(environ: dict[str, str]) -> Call:
    """`waygraph call` with these words, over a calculator that runs here."""
    notes = Path(environ["HOME"]) / "notes"
    subprocess.run([WAYGRAPH, "ingest", "--", sys.executable, CALCULATOR, notes], env=environ, check=True)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([WAYGRAPH, "call", *words], env=environ, capture_output=True, text=True, check=False)

    return call


@pytest.mark.parametrize(
    ("words", "status", "out", "error"),
    [
        ((EVALUATE, "expression=2340*0.17"), 0, "397.8", ""),
        (("calculator__evaluate", "--arguments", '{"expression": "2*3"}'), 0, "6.0", ""),
        ((EVALUATE, "--arguments", '{"expression": "2*3"}', "expression=2*4"), 0, "8.0", ""),
        ((EVALUATE, "expression=2"), 1, "Error executing tool evaluate", ""),
        ((EVALUATE,), 1, "", "/expression: is required"),
        ((EVALUATE, "2*3"), 2, "", "'2*3' is not NAME=VALUE"),
        ((EVALUATE, "--arguments", "[1]"), 2, "", "one JSON object is wanted"),
        ((EVALUATE, "--arguments", "{"), 2, "", "it is not JSON"),
        (("calculator/evalute",), 1, "", "Did you mean 'calculator/evaluate'"),
        (("calculator/wait",), 1, "", "nobody has a minute"),
        (("calculator/erase",), 1, "", "--yes agrees beforehand"),
        (("calculator/erase", "--yes"), 0, "erased", ""),
    ],
)
def test_a_call_is_run_or_refused(call: Call, words: tuple[str, ...], status: int, out: str, error: str) -> None:
    done = call(*words)
    assert done.returncode == status, done.stderr
    assert out in done.stdout
    assert error in done.stderr


def test_a_result_in_json_is_as_mcp_has_it(call: Call) -> None:
    told = json.loads(call(EVALUATE, "expression=2*3", "--json").stdout)
    assert told == {
        "content": [{"type": "text", "text": "6.0"}],
        "structuredContent": {"result": 6.0},
        "isError": False,
    }
    assert misfit(told, "call") == ""


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False)])
def test_a_person_at_a_terminal_is_asked(call: Call, environ: dict[str, str], answer: str, runs: bool) -> None:
    """What is asked of `call` by the fixture is that the registry is there."""
    assert call(EVALUATE, "expression=1*1").returncode == 0
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [WAYGRAPH, "call", "calculator/erase"], env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said = ""
        try:
            while block := os.read(ours, 4096):
                said += block.decode()
        except OSError:  # the other side is closed
            pass
        assert process.wait() == (0 if runs else 1), said
    os.close(ours)
    assert "runs only if a person agrees. Run it?" in said
    assert ("erased" in said) == runs
