"""The ScaleMCP benchmark: a whole small run over an invented list of companies, its record and its tables."""

import json
import os
import subprocess
import sys
import threading
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from benchmarks import scalemcp
from benchmarks.__main__ import main
from benchmarks.published import CROSS, LLM, SCALEMCP
from benchmarks.record import PROJECT
from tests.fake_openai import KEY, fake_openai, in_order


@dataclass
class Night:
    """A run that was killed while it waited for the endpoint, and the next one, which ended.

    `kept`: lines of the first; `asked`: requests to the endpoint in the second; `told`: what that one said.
    """

    folder: Path
    kept: int
    asked: int
    told: str


@pytest.fixture(scope="module")
def folder(night: Night) -> Path:
    """Where a run left its record."""
    return night.folder


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    folder = tmp_path_factory.mktemp("scalemcp")
    (folder / "catalogs").mkdir()
    companies = "".join(f"Firm{n} Holdings,F{n}X,Trade\n" for n in range(20))
    (folder / scalemcp.COMPANIES).write_text(f"company,ticker,sector\n{companies}", encoding="utf-8")
    options = ["--quick", "--spend", "--data", str(folder), "--evals", str(folder)]
    waits, killed, lines = threading.Event(), threading.Event(), folder / "lines" / "scalemcp.jsonl"

    def wait_once(request: dict[str, Any]) -> str:
        if len(endpoint.requests) == 30:
            waits.set()
            killed.wait(100)
        return in_order(2, 1)(request)

    with fake_openai() as endpoint:
        endpoint.answer = wait_once
        environ = {
            "WAYGRAPH_CACHE_DIR": str(folder / "cache"),
            scalemcp.RERANKERS_VARIABLE: "openai:judge",
            "OPENAI_BASE_URL": endpoint.url,
            "OPENAI_API_KEY": KEY,
        }
        command = [sys.executable, "-m", "benchmarks", scalemcp.NAME, *options, "--jobs", "1"]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, env=os.environ | environ, cwd=PROJECT, stdout=quiet, stderr=quiet) as process:
            try:
                assert waits.wait(100)
            finally:
                process.kill()
                killed.set()
        kept = len(lines.read_text(encoding="utf-8").splitlines())
        endpoint.requests.clear()
        with redirect_stderr(StringIO()) as told:
            assert main([scalemcp.NAME, *options], environ) == 0
        return Night(folder, kept, len(endpoint.requests), told.getvalue())


def test_a_killed_run_goes_on(night: Night, details: dict[str, Any]) -> None:
    """What has a line is not asked again; there is a line a query and way of reranking, and what it costs is told."""
    lines = [json.loads(line) for line in (night.folder / "lines" / "scalemcp.jsonl").read_text().splitlines()]
    ways = [row for row in details["rows"] if row["method"] == LLM]
    assert len(lines) == sum(row["queries"] for row in ways)
    assert 10 < night.kept < len(lines)
    assert night.asked == 2 * (len(lines) - night.kept), "agents and tools of each query that had no line"
    assert f"asked: {night.asked} calls, " in night.told
    assert f"; {night.kept} queries were not asked again; the lines are in " in night.told
    estimate = f"scalemcp: estimate for {len(lines)} queries, {night.kept} of them answered before: {night.asked} calls"
    assert estimate in night.told


@pytest.fixture(scope="module")
def details(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "scalemcp.json").read_text(encoding="utf-8"))["details"]
    return read


def test_every_way_is_measured_with_every_number_of_questions(details: dict[str, Any]) -> None:
    """Vector, hybrid and the reranker over three storages, BM25 over none, each with 0, 5 and 10 questions."""
    seen = [(row["method"], row["storage"], row["questions"]) for row in details["rows"] if row["layout"] == "tools"]
    storages = ("concat", "TDWA var-1", "TDWA var-2")
    wanted = {(method, storage, n) for method in ("vector", "hybrid", LLM) for storage in storages for n in (0, 5, 10)}
    assert len(seen) == len(set(seen))
    assert set(seen) == wanted | {("BM25", "", n) for n in (0, 5, 10)}
    for row in details["rows"]:
        for metric in ("nDCG", "Recall", "mAP"):
            assert 0 <= row[f"{metric}@5"] <= details["ceiling"][f"{metric}@5"] <= 1


def test_rerankers_stand_in_the_tables_measured_or_not(details: dict[str, Any]) -> None:
    """The cross-encoder, which nobody named, shows the paper's figures alone, in Tables 2 and 4."""
    lines = scalemcp.tables_of(details).splitlines()
    absent, present = ([line for line in lines if line.startswith(f"| {name} |")] for name in (CROSS, LLM))
    assert len(absent) == len(present) - 2 * 2 == 6
    assert all(f"{scalemcp.UNMEASURED} (" in line for line in absent)
    assert not any(scalemcp.UNMEASURED in line for line in present)
    assert any(f"{scalemcp.UNMEASURED} (0.90)" in line for line in absent)


def test_rerankers_stand_beside_each_other_with_candidates_free() -> None:
    """A row for each model and number of candidates; the paper's row is that of 20."""
    environ = {scalemcp.RERANKERS_VARIABLE: "openai:a,openai:b,ranker:r.json", scalemcp.CANDIDATES_VARIABLE: "20,50"}
    found = [trial for trial in scalemcp.trials_of(environ) if trial.texts == "concat"]
    stages = [(trial.name, trial.recipe.rerank) for trial in found]
    assert [(name, stage.spec, stage.depth) for name, stage in stages if stage] == [
        (LLM, "openai:a", 20),
        (f"{LLM}, 50 candidates", "openai:a", 50),
        (f"{LLM}: b", "openai:b", 20),
        (f"{LLM}: b, 50 candidates", "openai:b", 50),
        ("vector + ranker", "ranker:r.json", 20),
        ("vector + ranker, 50 candidates", "ranker:r.json", 50),
    ]


def test_a_sync_embeds_what_changed(details: dict[str, Any]) -> None:
    """A text for each changed tool, whether it is stored as one text or as parts; none if nothing changed."""
    rows = {(row["storage"], row["share"]): row for row in details["sync"]}
    for storage in ("concat", "tdwa-1"):
        for share, tools in ((0.0, 0), (0.01, 1), (0.1, 10), (1.0, 100)):
            row = rows[storage, share]
            assert (row["tools changed"], row["texts embedded"]) == (tools, tools)


def test_the_papers_figures_are_those_of_its_tables() -> None:
    """Tables 2 and 4 are parts of A5 and A7: recall@5 of the rows that stand in both."""
    assert [SCALEMCP["2", "vector", "concat", n][1]["Recall@5"] for n in (0, 5, 10)] == [0.87, 0.87, 0.91]
    assert [SCALEMCP["2", "hybrid", "concat", n][1]["Recall@5"] for n in (0, 5, 10)] == [0.75, 0.78, 0.83]
    assert [SCALEMCP["4", "vector", s, 10][1]["Recall@5"] for s in ("concat", "TDWA var-1", "TDWA var-2")] == [
        0.912,
        0.886,
        0.891,
    ]
