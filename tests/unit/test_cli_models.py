"""Commands that ask a language model, against an endpoint on a real socket."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_openai import KEY, FakeOpenAI, fake_openai, in_order
from waygraph.api.cli.app import main

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
REQUESTS = Path(__file__).parents[2] / "examples" / "requests"
FX = str(CATALOG / "bureau-fx.yaml")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("WAYGRAPH_REGISTRY", str(tmp_path / "r.grafeo"))
        monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
        monkeypatch.setenv("WAYGRAPH_CACHE_DIR", str(tmp_path / "cache"))
        yield running


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(words) == 0
    return capsys.readouterr().out


def test_ingest_asks_a_model_for_questions(fake: FakeOpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers = [json.dumps({"questions": ["How many euros is this?", "What is a yen worth?"]})]
    for _ in range(2):
        said(capsys, "ingest", FX, "--questions", "2", "--questions-by", "openai:writer")
    tools = json.loads(said(capsys, "tools", "bureau-fx", "--json"))["tools"]
    assert {tuple(tool["questions"]) for tool in tools} == {("How many euros is this?", "What is a yen worth?")}
    assert len(fake.requests) == len(tools)
    assert "questions" in said(capsys, "show", "bureau-fx/convert")
    said(capsys, "ingest", FX)
    assert json.loads(said(capsys, "show", "bureau-fx/convert", "--json"))["questions"] == []
    assert main(["ingest", FX, "--questions", "3"]) == 2
    assert "expected openai:MODEL" in capsys.readouterr().err


def test_a_dry_run_pays_no_model(fake: FakeOpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", FX, "--questions", "2", "--questions-by", "openai:writer", "--dry-run"]) == 0
    assert "a dry run asks no language model" in capsys.readouterr().err
    assert fake.requests == []


def test_route_find_and_eval_take_a_reranker(fake: FakeOpenAI, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "ingest", str(CATALOG))
    fake.answer = in_order(2, 1)
    ask = ("book a table for dinner and pay", "--recipe", "lexical", "--json")
    for command, noun in (("route", "agent"), ("find", "tool")):
        plain = [each[noun]["id"] for each in json.loads(said(capsys, command, *ask))["matches"]]
        ranked = [
            each[noun]["id"] for each in json.loads(said(capsys, command, *ask, "--rerank", "openai:judge"))["matches"]
        ]
        assert ranked == [plain[1], plain[0], *plain[2:]]
    told = json.loads(said(capsys, "eval", str(REQUESTS), "--recipe", "lexical", "--rerank", "openai:judge", "--json"))
    (outcome,) = told["outcomes"]
    assert outcome["name"] == "lexical + openai:judge"
    assert outcome["recipe"]["rerank"] == {"spec": "openai:judge", "depth": 20}
