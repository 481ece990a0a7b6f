"""No benchmark asks an endpoint that only happens to be configured: one rule, over every benchmark and variable."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import scalemcp, taxonomy
from benchmarks.endpoint import read_models, remove_endpoint
from benchmarks.peers import __main__ as peers
from benchmarks.record import PROJECT, Result
from benchmarks.world import EXAMPLES, World
from tests.fake_openai import KEY, FakeOpenAI, fake_openai
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import load_settings

MODELS = {
    "WAYGRAPH_EMBEDDER": "openai:m?dimension=48",
    "WAYGRAPH_RERANK": "openai:m",
    "WAYGRAPH_WALK": "openai:m",
    scalemcp.RERANKERS_VARIABLE: "cross-encoder:x,openai:m",
}
ENDPOINT = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": KEY}


@pytest.fixture
def endpoint() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        running.answers = ['{"numbers": [1]}']
        yield running


@pytest.mark.parametrize("spends", [False, True])
@pytest.mark.parametrize("name", benchmarks.NAMES)
def test_a_benchmark_gets_an_endpoint_only_with_spend(
    name: str, spends: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds: list[World] = []

    def look(world: World) -> Result:
        worlds.append(world)
        return Result(name=name, skipped="only looked at")

    known: Any = benchmarks.BENCHMARKS if name in benchmarks.BENCHMARKS else benchmarks.ON_SERVERS
    monkeypatch.setitem(known, name, look)
    options = ["--evals", str(tmp_path), *(["--spend"] if spends else [])]
    assert benchmarks.main([name, *options], {"WAYGRAPH_LOG_LEVEL": "debug", **ENDPOINT, **MODELS}) == 0
    (world,) = worlds
    named = {*ENDPOINT, *MODELS} & world.environ.keys()
    assert named == ({*ENDPOINT, *MODELS} if spends else set())
    specs = (world.configured, world.settings.rerank, world.settings.walk)
    assert any(specs) == spends
    assert world.environ["WAYGRAPH_LOG_LEVEL"] == "debug"
    told = capsys.readouterr().err
    assert ("add --spend" in told) != spends
    assert all(variable in told for variable in MODELS) != spends


@pytest.mark.parametrize("name", ["loop", "taxonomy"])
def test_a_named_model_needs_spend_too(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmarks.main([name, "--model", "openai:m", "--evals", str(tmp_path)], ENDPOINT) == 2
    assert "--model=openai:m: asking a language model costs money: add --spend" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spends", [False, True])
def test_a_whole_run_asks_nothing_unless_it_may(
    spends: bool, endpoint: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of the trees, over the examples alone."""
    monkeypatch.setattr(taxonomy, "SETS", ((EXAMPLES, Of.AGENTS),))
    monkeypatch.setattr(taxonomy, "QUICK_TOOLS", 60)
    monkeypatch.setattr(taxonomy, "BROWSED", 5, raising=False)
    cache = load_settings(os.environ).cache_path
    environ = {"OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": KEY, "WAYGRAPH_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "cache").mkdir()
    if (cache / "models").is_dir():
        (tmp_path / "cache" / "models").symlink_to(cache / "models")
    options = ["--quick", "--data", str(tmp_path / "none"), "--evals", str(tmp_path)]
    spend = ["--model", "openai:m", "--spend"] if spends else []
    assert benchmarks.main([taxonomy.NAME, *options, *spend], environ) == 0
    assert bool(endpoint.requests) == spends
    assert ("m: get_all" in (tmp_path / "taxonomy.json").read_text(encoding="utf-8")) == spends


def test_peers_get_no_endpoint_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[peers.Comparison] = []

    def look(comparison: peers.Comparison) -> Result:
        seen.append(comparison)
        return Result(name=peers.NAME, skipped="only looked at")

    monkeypatch.setattr(peers.Comparison, "result", look)
    assert peers.main(["run", "--data", str(tmp_path)], {**ENDPOINT, **MODELS}) == 0
    (comparison,) = seen
    assert not {*ENDPOINT, *MODELS} & comparison.environ.keys()
    assert (comparison.settings.embedder, comparison.settings.walk) == ("", "")


def test_only_names_of_models_count() -> None:
    """A local embedder, a ranker in a file, and variables of others are no reason to ask."""
    local = {"WAYGRAPH_EMBEDDER": "onnx:/m", "WAYGRAPH_RERANK": "ranker:a.json", "EDITOR": "openai:m"}
    assert read_models(local) == {}
    assert remove_endpoint(local | ENDPOINT) == local


ASK = (
    "import os; from benchmarks.endpoint import permitted_environ; "
    "print('OPENAI_API_KEY' in permitted_environ(os.environ, model='', spend=False))"
)


@pytest.mark.parametrize(("reply", "asks"), [("y\n", True), ("no\n", False), ("\n", False)])
def test_a_person_at_the_terminal_is_asked(reply: str, asks: bool) -> None:
    """By a terminal of its own; what is no terminal is asked nothing."""
    assert asks == _answer_at_terminal(reply.encode())
    piped = subprocess.run(
        [sys.executable, "-c", ASK], input=reply, env=_environ(), capture_output=True, text=True, check=True
    )
    assert (piped.stdout.strip(), "add --spend" in piped.stderr) == ("False", True)


def _answer_at_terminal(reply: bytes) -> bool:
    here, there = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=there, stderr=there, stdout=subprocess.PIPE, env=_environ()
    ) as asker:
        os.close(there)
        question = b""
        while b"[y/N]" not in question:
            question += os.read(here, 1024)
        assert b"WAYGRAPH_RERANK=openai:m" in question
        os.write(here, reply)
        assert asker.stdout
        answer = asker.stdout.read()
        os.close(here)
    return answer.strip() == b"True"


def _environ() -> dict[str, str]:
    return {**os.environ, **ENDPOINT, "WAYGRAPH_RERANK": "openai:m"}


def test_tests_see_no_endpoint() -> None:
    """Nor any model of one, whatever the caller's environment names: run once more with all of it set."""
    assert not [name for name in os.environ if name.startswith("OPENAI_")]
    assert not read_models(os.environ)
    if "ENDPOINTS_ARE_SET" not in os.environ:
        this = f"{Path(__file__).relative_to(PROJECT)}::{test_tests_see_no_endpoint.__name__}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", this]
        environ = {**os.environ, **ENDPOINT, **MODELS, "ENDPOINTS_ARE_SET": "1"}
        done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, check=False)
        assert "1 passed" in done.stdout, done.stdout


def test_nothing_else_reads_the_environment_for_an_endpoint() -> None:
    """Scripts, targets of make and the benchmarks name no variable of an endpoint: the one rule is enough."""
    places = [PROJECT / "Makefile", *(PROJECT / "scripts").rglob("*.py"), *(PROJECT / "scripts").rglob("*.sh")]
    places += (PROJECT / "packages" / "waygraph-lab" / "src" / "benchmarks").rglob("*.py")
    named = [str(path.relative_to(PROJECT)) for path in places if "OPENAI_" in path.read_text(encoding="utf-8")]
    assert [name for name in named if not name.endswith("benchmarks/endpoint.py")] == []
