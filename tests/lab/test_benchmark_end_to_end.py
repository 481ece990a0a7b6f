"""Models with tools beside the paper's: a whole small run over real servers, against a scripted endpoint."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks import end_to_end, scalemcp
from benchmarks.__main__ import main
from benchmarks.published import SCALEMCP_AGENTS
from benchmarks.tables import detail_tables
from tests.lab.agent_models import KEY, TOKENS, AgentModels, agent_models


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "catalogs").mkdir()
    companies = "".join(f"Firm{n} Holdings,F{n}X,Trade\n" for n in range(20))
    (tmp_path / scalemcp.COMPANIES).write_text(f"company,ticker,sector\n{companies}", encoding="utf-8")
    return tmp_path


def run(folder: Path, models: AgentModels, model: str) -> int:
    environ: Mapping[str, str] = {
        "WAYGRAPH_CACHE_DIR": str(folder / "cache"),
        "WAYGRAPH_EMBEDDER": "none",
        end_to_end.JUDGE_VARIABLE: "openai:judge",
        scalemcp.RERANKERS_VARIABLE: "openai:guide",
        "OPENAI_BASE_URL": models.url,
        "OPENAI_API_KEY": KEY,
    }
    options = ["--quick", "--spend", "--model", model, "--data", str(folder), "--evals", str(folder)]
    return main([end_to_end.NAME, *options], environ)


def test_a_small_run_leaves_the_table_and_asks_nothing_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row a model and way of finding; the paper's thirty stand behind."""
    with agent_models() as models:
        models.right_tools = defaultdict(list)
        assert run(folder, models, "openai:refusing") == 0
        told = capsys.readouterr().err
        tasks = 3 * end_to_end.QUICK_TASKS
        assert f"end_to_end: estimate for {tasks} queries: {4 * tasks} calls, " in told
        assert f"asked: {2 * tasks} calls, {2 * tasks * TOKENS['prompt_tokens']:,} + " in told
        models.requests.clear()
        assert run(folder, models, "openai:refusing") == 0
        assert models.requests == []
        assert f"{tasks} tasks were not tried again" in capsys.readouterr().err
    record = json.loads((folder / "end_to_end.json").read_text(encoding="utf-8"))
    rows = record["details"]["rows"]
    ways = ["Text Search", "Vector Search", f"{end_to_end.RERANKED}: openai:guide"]
    assert [(row["model"], row["method"]) for row in rows] == [("refusing", way) for way in ways]
    assert all((row["tool correctness"], row["task completion"]) == (0, 0) for row in rows)
    table = detail_tables([record])
    assert "| refusing | Text Search | 0.0 | 0.0 | 0.0 |" in table
    assert "| *GPT 4o, the paper's* | Vector Search | 51.7 | 86.5 |" in table
    assert table.count("the paper's* |") == len(SCALEMCP_AGENTS) == 30


def test_a_model_that_is_not_there_is_told_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with agent_models() as models:
        assert run(folder, models, "openai:absent") == 1
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("end_to_end: no task got an answer: 127.0.0.1 refuses")]
    assert not (folder / "end_to_end.json").exists()


def test_without_a_model_it_says_what_it_needs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([end_to_end.NAME, "--data", str(folder), "--evals", str(folder)], {}) == 0
    assert f"end_to_end: skipped, {end_to_end.NO_MODEL}" in capsys.readouterr().err
