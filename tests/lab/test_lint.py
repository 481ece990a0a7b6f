"""`waygraph lint`: how often tools win requests for them, told to somebody who mends a description."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import USAGE, fake_openai
from waygraph.api.cli.app import main
from waygraph.registry.model.nouns import Agent, Tool, canonical_json
from waygraph_lab.evaluation.findability import MOST_REQUESTS, advise, own_requests
from waygraph_lab.evaluation.schema_questions import schema_questions

TOOLS = {
    "larder": {
        "lookup": "",
        "count_jars": "Count the jars on each shelf of the larder.",
        "order_flour": "Order flour, sugar or salt from the mill before they run out.",
    },
    "almanac": {
        "lookup": "Look up the phase of the moon and the hour of sunrise for a date.",
        "list_feasts": "List the feast days of a month, with the saint of each.",
    },
}


type Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """What the program prints; the registry stands behind the command, whose status is given."""

    def call(*words: str, status: int = 0) -> str:
        capsys.readouterr()
        assert main([*words, "--registry", str(tmp_path / "r.grafeo"), "--embedder", "none"]) == status
        return "".join(capsys.readouterr())

    agents = [
        {"id": key, "name": key, "tools": [{"name": name, "description": text} for name, text in tools.items()]}
        for key, tools in TOOLS.items()
    ]
    (tmp_path / "tools.json").write_text(json.dumps({"waygraph": 1, "agents": agents}), encoding="utf-8")
    call("ingest", str(tmp_path / "tools.json"))
    return call


def lint(run: Run, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("lint", *words, "--json").splitlines()[0])
    return found


def write_request(tmp_path: Path, tool: str) -> str:
    """A file with one, which the tool is right for."""
    asked = {"id": "1", "text": "when does the moon rise over our food", "gold": [["larder"]], "gold_tools": [[tool]]}
    (tmp_path / "queries.jsonl").write_text(json.dumps(asked), encoding="utf-8")
    return str(tmp_path / "queries.jsonl")


def test_a_description_that_says_nothing_is_mended(run: Run, tmp_path: Path) -> None:
    """It is named, with who wins its requests. Another text is tried, shown and set, and then wins as shown."""
    tool = "larder/lookup"
    assert f"1 of 1 faulty descriptions: {tool}" in run("lint")
    given = ("--requests", write_request(tmp_path, tool))
    assert "no description\tFor example: when does the moon" in run(
        "lint", tool, *given, "--fail-under", "99", status=1
    )
    text = tmp_path / "text.md"
    text.write_text("Say what food is in the larder, and over which shelf the moon may rise.\n", encoding="utf-8")
    tried = lint(run, tool, "--try", str(text), *given)
    before, after = tried["tools"][0], tried["tried"][0]
    assert (before["first"], before["winners"], after["first"]) == (0, {"almanac/lookup": 1}, 1)
    assert lint(run, tool, *given)["tools"] == [before], "to try changes nothing"
    run("set-tool", tool, "--describe", text.read_text(encoding="utf-8").strip())
    assert lint(run, tool, *given)["tools"] == [after]
    run("lint", tool, *given, "--fail-under", "99")


def test_what_cannot_be_measured_is_refused(run: Run, tmp_path: Path) -> None:
    """A text is tried for one tool alone, and a request names tools that are there."""
    assert "one tool" in run("lint", "larder", "--try", "x", status=2)
    assert "not in the catalogue" in run("lint", "--requests", write_request(tmp_path, "larder/none"), status=1)


def test_requests_are_no_text_that_is_indexed() -> None:
    """They are the same for the same tool, and hold neither its name as it is written nor a sentence of it."""
    agent = Agent(id="a", name="Harbor Git", description="")
    tool = Tool(id="a/merge_pull_request", agent_id="a", name="merge_pull_request", description="Merge it. Delete " * 9)
    texts = [request.text for request in own_requests(agent, tool)]
    assert texts == [request.text for request in own_requests(agent, tool)]
    assert 0 < len(texts) <= MOST_REQUESTS
    assert not [text for text in texts if tool.name in text or text in tool.description]


MONEY = {"type": "string", "description": "Currency code"}


@pytest.mark.parametrize(
    ("name", "properties", "questions"),
    [
        (
            "convert",
            {"amount": {"type": "number"}, "from": MONEY, "to": MONEY},
            ["how much is 20 euros in dollars", "convert 100 dollars to euros"],
        ),
        ("convert", {"value": {}, "from": {"examples": ["cup"]}, "to": {"description": "Such as ml"}},
         ["how much is 20 cup in ml", "convert 100 cup to ml"]),
        ("get_forecast", {"city": {}, "day": {}},
         ["get forecast in Berlin tomorrow", "What is the forecast in Tokyo", "Show me the forecast in Berlin"]),
        ("list_alarms", {"severity": {"enum": ["info", "critical"]}},
         ["list info alarms", "Which critical alarms are there", "Show all info alarms"]),
        ("book_flight", {"from": {"description": "City"}, "to": {"description": "City"}},
         ["book flight from Berlin to Tokyo", "Help me with book flight from Tokyo", "I need book flight from Berlin"]),
        ("ping", {"a": {}, "b": {"type": "object"}, "c": 7, "d": {"enum": ["x" * 99, 3, "\x1b[2J"]}}, []),
    ],
    ids=["money", "units", "kinds", "choices", "ends", "nothing to say"],
)  # fmt: skip
def test_questions_of_a_schema_have_values(name: str, properties: dict[str, Any], questions: list[str]) -> None:
    """Of its examples and choices, else of the kinds that names of parameters tell; none where neither is known."""
    agent = Agent(id="a", name="Bureau FX", description="")
    schema = canonical_json({"properties": properties, "required": []})
    tool = Tool(id="a/x", agent_id="a", name=name, description="", input_schema=schema)
    assert list(schema_questions(agent, tool)) == questions


def test_questions_are_offered_and_approved_by_a_source(run: Run, tmp_path: Path) -> None:
    """Those that it states are offered no more; of several tools none are."""
    schema: dict[str, Any] = {"properties": {"city": {}}}
    tool: dict[str, Any] = {"name": "get_rain", "description": "Rain of a city.", "inputSchema": schema}
    offers = ["get rain in Berlin", "What is the rain in Tokyo", "Show me the rain in Berlin"]
    for approved in ([], offers[:2]):
        agent = {"id": "sky", "name": "Sky", "tools": [{**tool, "questions": approved}]}
        (tmp_path / "sky.json").write_text(json.dumps({"waygraph": 1, "agents": [agent]}), encoding="utf-8")
        run("ingest", str(tmp_path / "sky.json"))
        assert lint(run, "sky/get_rain")["offers"] == offers[len(approved) :]
    assert "to approve" in run("lint", "sky/get_rain")
    assert lint(run)["offers"] == []


def test_the_advice_adds_what_a_description_lacks() -> None:
    """The name in front; behind a first sentence that has its words, agent and parameters; examples where some lost."""
    agent = Agent(id="a", name="Harbor Git", description="")
    bare = Tool(id="a/x", agent_id="a", name="list_branches", description="For git.")
    assert advise(agent, bare) == ("List branches.", "List branches. For git.")
    full = Tool(id="a/x", agent_id="a", name="list_branches", description="List all branches.")
    assert advise(agent, full) == ("List branches of Harbor Git.", "List all branches. List branches of Harbor Git.")
    assert advise(agent, full, ["who works on what"])[1] == "List all branches. For example: who works on what"


def test_requests_are_split_by_a_model_where_one_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, with the cost before and after; where it fails, one line names the request."""
    with fake_openai() as endpoint:
        for name, value in {**endpoint.environ, "WAYGRAPH_OPENAI_RETRIES": "0"}.items():
            monkeypatch.setenv(name, value)
        endpoint.answers = ['{"steps": ["look up the moon", "list the feast days"]}']
        told = run("lint", "almanac/lookup", "--by-steps", "openai:m", "--json")
        made = json.loads(told.splitlines()[0])["requests"]
        assert len(endpoint.requests) == made > 0
        assert f"at most {made} calls of openai:m" in told
        assert (
            f"asked: {made} calls, {made * USAGE['prompt_tokens']} + {made * USAGE['completion_tokens']} tokens" in told
        )
        endpoint.overloads = 1
        failed = run("lint", "almanac/lookup", "--by-steps", "openai:m", status=1)
        assert "error: query '" in failed
        assert "127.0.0.1 still answers 429" in failed
    assert "expected openai:MODEL" in run("lint", "--by-steps", "cross:x", status=2)
