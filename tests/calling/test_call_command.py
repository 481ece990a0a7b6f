"""`waygraph call`: a tool is run from a terminal or a script, by the rules that hold for hosts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_cli_pages import misfit
from tests.terminal import terminal
from waygraph.api.cli.commands.call import read_arguments
from waygraph.registry.model.nouns import Tool

SERVERS = Path(__file__).parents[1] / "servers"
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
    """`waygraph call` with these words, over a calculator and an abacus that run here."""
    notes = Path(environ["HOME"]) / "notes"
    for server in ([SERVERS / "calculator.py", notes], [SERVERS / "abacus.py"]):
        subprocess.run([WAYGRAPH, "ingest", "--", sys.executable, *server], env=environ, check=True)

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
        (("calculator/evalute",), 1, "", "Nearest: calculator__evaluate,"),
        (("calculator/wait",), 1, "", "nobody has a minute"),
        (("calculator/erase",), 1, "", "the memory goes; without a terminal nobody can be asked, --yes agrees"),
        (("evaluate", "expression=2*3"), 0, "6.0", ""),
        (("erase", "--yes"), 1, "", "run `waygraph call calculator/erase`"),
        ((EVALUATE, "expr=2*3"), 1, "", '/expr: is not known; known: "expression"; did you mean "expression"?'),
        ((EVALUATE, "expression=2*3", "expression=2*4"), 2, "", "'expression' is given twice"),
        (("abacus/total", "numbers=[1, 2]"), 0, "3", ""),
        (("abacus/total", "numbers=1,2,3"), 1, "", "/numbers: "),
        (("abacus/total", "numbers=[1,2,3"), 1, "", "/numbers: "),
        (("abacus/picture",), 0, "[image image/png]", ""),
        (("calculator/erase", "--yes"), 0, "erased", ""),
        *(
            ((EVALUATE, "expression=2*3", f"--timeout={text}"), 2, "", "timeout_s must be a number above 0")
            for text in ("nan", "inf", "-1", "0")
        ),
    ],
)
def test_a_call_is_run_or_refused(call: Call, words: tuple[str, ...], status: int, out: str, error: str) -> None:
    done = call(*words)
    assert done.returncode == status, done.stderr
    assert out in done.stdout
    assert error in done.stderr


def test_a_result_in_json_is_as_mcp_has_it(call: Call) -> None:
    told = json.loads(call(EVALUATE, "expression=2*3", "--json").stdout)
    del told["_meta"]
    assert told == {
        "content": [{"type": "text", "text": "6.0"}],
        "structuredContent": {"result": 6.0},
        "isError": False,
    }
    assert misfit(told, "call") == ""


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 1), ("", 130)])
def test_a_person_at_a_terminal_is_asked(call: Call, environ: dict[str, str], answer: str, status: int) -> None:
    """With the policy's reason, and that the tool destroys. Ctrl-C ends the program without a word."""
    assert call(EVALUATE, "expression=1*1").returncode == 0  # the registry is there
    with terminal("call", "calculator/erase", program=[str(WAYGRAPH)], around=environ, status=status) as screen:
        screen.until("[y/N]: ")
        if status == 130:
            time.sleep(0.5)  # a signal between the prompt and the read that waits would be seen after the answer only
            os.kill(screen.pid, signal.SIGINT)
        screen.type(answer)
        shown = screen.rest()
    assert "runs only if a person agrees: the memory goes. It may change or delete things. Run it?" in shown
    assert ("erased" in shown) == (status == 0)
    assert ("'calculator/erase' cannot be called: you did not agree" in shown) == (status == 1)
    assert "Aborted" not in shown
    assert "host" not in shown


NULL, TEXT = {"type": "null"}, {"type": "string"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "text": TEXT,
    "optional": {"anyOf": [TEXT, NULL]},
    "listed": {"type": ["string", "null"]},
    "referred": {"$ref": "#/$defs/digit"},
    "composed": {"allOf": [TEXT, {"minLength": 1}]},
    "number": {"anyOf": [{"type": "integer"}, NULL]},
    "choice": {"enum": [1, 2]},
    "list": {"type": "array"},
    "anything": {},
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "5", "5"),
        ("optional", "5", "5"),
        ("optional", "null", "null"),
        ("listed", "true", "true"),
        ("referred", "1", "1"),
        ("composed", "[1]", "[1]"),
        ("number", "5", 5),
        ("number", "null", None),
        ("choice", "2", 2),
        ("list", '["a"]', ["a"]),
        ("list", "a", "a"),  # fits nothing, and is refused as it was typed
        ("anything", "5", 5),
        ("anything", "five", "five"),
        ("other", "5", 5),
    ],
)
@pytest.mark.parametrize("required", [[], ["text"] + [f"missing{number}" for number in range(20)]])
def test_a_value_is_what_the_schema_takes(name: str, text: str, value: object, required: list[str]) -> None:
    """Text where text fits, else JSON; whatever else is missing."""
    schema = {"properties": SCHEMAS, "required": required, "$defs": {"digit": {"type": "string", "enum": ["1", "2"]}}}
    tool = Tool(id="a/b", agent_id="a", name="b", call_name="a__b", description="", input_schema=json.dumps(schema))
    assert read_arguments(tool, [f"{name}={text}"], "") == {name: value}
