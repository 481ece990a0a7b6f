"""The program as a process of its own: what it imports, its pipes, its terminal, its signals."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import PROGRAM, terminal

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
HEAVY = (
    "asyncio fastapi grafeo huggingface_hub mcp neo4j networkx numpy onnx onnxruntime pydantic rich Stemmer "
    "tokenizers waygraph.registry.registry yaml"
).split()
FOR_CALLS = ("waygraph.registry.access.policy", "waygraph.registry.model.arguments", "waygraph.registry.model.usage")
FOR_WRITES = (
    "waygraph.registry.graph.read waygraph.registry.graph.write waygraph.registry.index.local.index_upkeep "
    "waygraph.registry.model.pictures waygraph.registry.operators waygraph.registry.storage.live_graph "
    "waygraph.registry.storage.local_operator waygraph.registry.taxonomy waygraph.registry.writer"
).split()
NOT_FOR_A_READ = ("asyncio", "grafeo", "huggingface_hub", "networkx", "onnx", "rich", "yaml", *FOR_CALLS, *FOR_WRITES)
FOR_A_SEARCH = ("onnxruntime", "tokenizers", "waygraph.registry.embedding.onnx", "waygraph.registry.routing.exclusions")
NOT_FOR_AN_INTRODUCTION = (
    "fastapi",
    "waygraph.ingest.execution.call_openapi",
    "waygraph.ingest.hosts",
    "waygraph.ingest.manifest.suspicion",
    "waygraph.ingest.sources.formats.mcp_config",
    "waygraph.registry.access.api_keys",
    *(name for name in NOT_FOR_A_READ if name not in ("asyncio", *FOR_CALLS)),
    *FOR_A_SEARCH,
)
IMPORTED = """
import sys
from waygraph.api.cli.app import main
main(sys.argv[2:])
print(*(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
"""
INTRODUCED = """
import os, sys
from threading import Thread
from waygraph.api.cli.app import main
from waygraph.api.cli.commands import serve

serve.LOAD_AFTER_S = 60
(reading, to_program), (from_program, writing) = os.pipe(), os.pipe()
os.dup2(reading, 0)
os.dup2(writing, 1)

def introduce():
    os.write(to_program, sys.argv[2].encode() + b"\\n")
    answer = os.read(from_program, 100_000)
    assert b'"instructions"' in answer, answer
    print(*(name for name in sys.argv[1].split(",") if name in sys.modules), file=sys.stderr)
    os.close(to_program)

Thread(target=introduce).start()
main(sys.argv[3:])
"""
INITIALIZE = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
    '"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}'
)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry of the example catalogue."""
    path = tmp_path_factory.mktemp("process") / "held.grafeo"
    subprocess.run([*PROGRAM, "--registry", path, "ingest", CATALOG], check=True, capture_output=True)
    return path


def run(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, env=env)


def imported(names: tuple[str, ...], *words: str | Path) -> str:
    """Which of these modules a run of the program had imported at its end."""
    command = [sys.executable, "-c", IMPORTED, ",".join(names), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.strip()


def test_help_imports_nothing_heavy() -> None:
    """`waygraph --help` needs neither an engine nor numpy, pydantic or rich, nor the commands that it lists."""
    assert imported((*HEAVY, "waygraph.api.cli.commands"), "--help") == ""


@pytest.mark.parametrize(
    "words", [("route", "book a table", "-k", "2", "--tag", "food"), ("find", "book a table"), ("agents",), ("status",)]
)
def test_a_read_imports_only_what_it_needs(held: Path, words: tuple[str, ...]) -> None:
    """In a pipe a read does without rich, the graph engine and what only writes need."""
    assert imported(NOT_FOR_A_READ, "--registry", held, *words) == ""


def test_a_list_imports_no_model(held: Path) -> None:
    assert imported(FOR_A_SEARCH, "--registry", held, "status") == ""


def test_a_gateway_introduces_itself_before_it_loads_what_a_search_or_a_call_needs(held: Path) -> None:
    command = [sys.executable, "-c", INTRODUCED, ",".join(NOT_FOR_AN_INTRODUCTION), INITIALIZE]
    done = subprocess.run([*command, "--registry", held, "mcp"], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""


def test_the_version_is_printed() -> None:
    assert re.fullmatch(r"waygraph \d+\.\d+\.\d+\S*\n", run("--version").stdout)


def test_a_pipe_gets_plain_text(held: Path) -> None:
    """No escape sequence, no box, no cut, whatever the environment says of colours and width."""
    done = run("--registry", held, "agents", FORCE_COLOR="1", COLUMNS="20", TERM="xterm-256color")
    assert done.returncode == 0
    assert not re.search("[\x1b─━│…]", done.stdout)
    assert {line.count("\t") for line in done.stdout.splitlines()} == {5}


def test_exit_statuses(held: Path) -> None:
    """0 for an answer, 1 for an error of ours in one line, 2 for wrong usage."""
    assert run("--registry", held, "status").returncode == 0
    ours = run("--registry", held, "show", "nobody")
    assert (ours.returncode, ours.stdout) == (1, "")
    assert re.fullmatch(r"error: [^\n]+\n", ours.stderr)
    usage = run("show")
    assert usage.returncode == 2
    assert "Traceback" not in usage.stderr


@pytest.mark.parametrize("words", [("tools",), ("--help",), ("cypher", "--help")])
def test_a_reader_that_leaves_is_no_error(held: Path, words: tuple[str, ...]) -> None:
    """With nobody at the other end of the pipe the program ends quietly, as `head` makes it."""
    with subprocess.Popen(
        [*PROGRAM, "--registry", str(held), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 141


def test_an_interrupt_is_quiet(held: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "--registry", str(held), "cypher"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A shell's background job ignores the signal, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - it takes no lock
    ) as program:
        assert program.stdin
        assert program.stdout
        assert program.stderr
        program.stdin.write(b"RETURN 1 AS one;\n")
        program.stdin.flush()
        assert program.stdout.readline() == b"one\n"
        program.send_signal(signal.SIGINT)
        assert program.stderr.read() == b""
    assert program.returncode == 130


def test_a_terminal_gets_tables(held: Path) -> None:
    """Drawn rules, descriptions cut to the line, votes as bars; ids are never cut."""
    with terminal("--registry", held, "route", "book a table for four under my name", "-k", "2", "--explain") as screen:
        shown = screen.rest()
    assert "─────" in shown
    assert "█" in shown
    assert "trencher-tables/reserve" in shown
    with terminal("--registry", held, "find", "convert currency") as screen:
        shown = screen.rest()
    assert "bureau-fx/rate-history" in shown
    assert "…" in shown or max(map(len, shown.splitlines())) < 100


def test_a_hostile_description_steers_no_terminal(tmp_path: Path) -> None:
    """rich's markup and escape sequences in a description are drawn as text; only our own styles are styles."""
    bad = tmp_path / "bad.json"
    bad.write_text(
        '{"waygraph": 1, "agents": [{"id": "mail", "description": "[bold red]x[/] \\u001b]0;owned\\u0007 \\u202e y"}]}'
    )
    registry = tmp_path / "r.grafeo"
    assert run("--registry", registry, "--embedder", "none", "ingest", bad).returncode == 0
    for words in (["show", "mail"], ["agents"], ["cypher", "MATCH (a:Agent) RETURN a.description"], ["export"]):
        with terminal("--registry", registry, *words) as screen:
            shown = screen.rest()
        assert "[bold red]x[/]" in shown
        assert "\\u001b]0;owned\\u0007 \\u202e y" in shown
        assert not re.search("[\x1b\x07\u202e]", re.sub(r"\x1b\[[\d;]*m", "", shown))
