"""Synthetic questions: by a language model behind a real socket, and on their way into a registry."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import KEY, FakeOpenAI
from waygraph.ingest.manifest.questions import TRIES, LanguageModelAuthor, open_author
from waygraph.ingest.manifest.records import (
    AgentRecord,
    Intake,
    Manifest,
    ToolRecord,
)
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.language_model.endpoint import Access, ChatModel, Patience
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import LanguageModelRefused, UnfitAnswer
from waygraph.registry.model.identity import sealed_agent, sealed_tool
from waygraph.registry.model.nouns import Agent, Query, TextForm, Tool, canonical_json
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tool_settings import MAX_QUESTION_CHARS, MAX_QUESTIONS
from waygraph.registry.storage.export.formats import export
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry

AGENT = Agent(id="sky", name="Sky")
WEATHER = sealed_tool(
    Tool(
        id="sky/getForecast",
        agent_id="sky",
        name="getForecast",
        description="Returns the weather of the coming days. Free.",
        input_schema=canonical_json({"properties": {"apiUnits": {}, "cityName": {}}, "required": ["cityName"]}),
    )
)


def manifest(*tools: Tool) -> Manifest:
    return Manifest(source="s", entries=(AgentEntry(key="sky", agent=sealed_agent(AGENT), tools=tools),))


def test_questions_change_the_hash_and_their_absence_does_not() -> None:
    asked = replace(WEATHER, questions=("Will it rain?", "Is it cold?"))
    turned = replace(WEATHER, questions=("Is it cold?", "Will it rain?"))
    tagged = replace(WEATHER, tags=("Will it rain?",))
    hashes = {sealed_tool(tool).content_hash for tool in (WEATHER, asked, turned, tagged)}
    assert len(hashes) == 4
    assert sealed_tool(replace(asked, questions=())).content_hash == WEATHER.content_hash


def test_questions_of_a_source_are_checked() -> None:
    """Lines of their own, each once; what is too long or too many is cut and told; another shape costs the tool."""

    def taken(questions: object) -> tuple[Intake, tuple[Tool, ...]]:
        intake = Intake("f")
        tool = ToolRecord(pointer="/t", name="t", questions=questions)
        intake.take(AgentRecord(pointer="", key="a", tools=[tool]))
        return intake, intake.entries[0].tools

    _, (tidy,) = taken(["a\n b", "a b", " ", "c"])
    assert tidy.questions == ("a b", "c")
    intake, (cut,) = taken(["x" * 1000, *map(str, range(100))])
    assert (len(cut.questions), len(cut.questions[0])) == (MAX_QUESTIONS, MAX_QUESTION_CHARS)
    assert [each.reason for each in intake.cut] == [
        "101 questions, kept 50",
        "a question of more than 500 characters was cut",
    ]
    for wrong in ("why?", [1], {"a": 1}, None):
        intake, tools = taken(wrong)
        assert tools == ()
        assert "questions: expected a list of strings" in intake.rejected[0].reason


def test_a_tool_is_found_by_its_questions_and_they_are_kept(tmp_path: Path) -> None:
    """In word search, after a sync, a reopening and a sync that takes them away."""
    other = sealed_tool(Tool(id="sky/moon", agent_id="sky", name="moon", description="The phase of the moon."))
    asked = sealed_tool(replace(WEATHER, questions=("Do I need an umbrella?",)))
    path = tmp_path / "r.grafeo"
    query = Query(text="umbrella")
    with LocalRegistry.open(path, embedder="none") as registry:
        sync(registry, manifest(asked, other))
    with LocalRegistry.open(path, embedder="none") as registry:
        (found,) = registry.find_tools(query, recipe="lexical").matches
        assert (found.tool.id, found.tool.questions) == (asked.id, asked.questions)
        assert sync(registry, manifest(asked, other)).changes.is_empty
        report = sync(registry, manifest(WEATHER, other))
        assert [(each.id, each.fields) for each in report.changes.updated_tools] == [(asked.id, ("questions",))]
        assert registry.find_tools(query, recipe="lexical").matches == ()


@pytest.mark.parametrize("form", ["concat", "tdwa-1", "tdwa-2", "tdwa:name=.2,questions=.7,agent=.1"])
def test_a_registry_of_weighted_texts_is_sound(tmp_path: Path, form: TextForm) -> None:
    """Routed by the default recipe, examined whole, exported and taken in again: the same vectors; and of a tool with
    another question only that question is embedded anew."""
    asked = sealed_tool(replace(WEATHER, questions=("Do I need an umbrella?", "Is it cold?")))
    other = sealed_tool(Tool(id="sky/moon", agent_id="sky", name="moon", description="The phase of the moon."))
    settings = Settings(cache_dir=str(tmp_path / "cache"))
    with LocalRegistry.open(tmp_path / "r.grafeo", settings=settings, environ={}) as registry:
        sync(registry, manifest(asked, other), texts=form)
        found = registry.find_tools(Query(text="must I take an umbrella along?")).matches
        assert (found[0].tool.id, found[0].tool.questions) == (asked.id, asked.questions)
        assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []
        (tmp_path / "export.json").write_text(export(registry, "json"), encoding="utf-8")
        turned = sealed_tool(replace(asked, questions=("Do I need an umbrella?", "Is there a storm to come?")))
        report = sync(registry, manifest(turned, other))
        assert report.texts_embedded == 1
        assert [each.id for each in report.changes.updated_tools] == [asked.id]
    with LocalRegistry.open(tmp_path / "again.grafeo", settings=settings, environ={}) as again:
        for held in read_path(str(tmp_path / "export.json"), settings):
            assert sync(again, held, texts=form).texts_embedded == 0
        assert [tool.questions for tool in again.tools()] == [asked.questions, ()]


@pytest.fixture
def author(fake: FakeOpenAI, tmp_path: Path) -> Iterator[LanguageModelAuthor]:
    patience = Patience(timeout_s=2.0, retries=1, sleep=lambda _: None)
    model = ChatModel("any-model", Access(base_url=fake.url, api_key=KEY, patience=patience))
    yield LanguageModelAuthor(model, tmp_path / "questions")
    model.close()


def told(*lines: Any) -> str:
    return json.dumps({"questions": lines})


def test_a_model_is_asked_about_the_tool_once(fake: FakeOpenAI, author: LanguageModelAuthor) -> None:
    """The tool is data in the prompt; the answer is kept, whoever asks next."""
    fake.answers = [told("Will it  rain?", "Will it rain?", "Is it cold?", "And tomorrow?")]
    assert author.questions(AGENT, WEATHER, 2) == ("Will it rain?", "Is it cold?")
    assert author.questions(AGENT, WEATHER, 2) == ("Will it rain?", "Is it cold?")
    (request,) = fake.requests
    assert (request["model"], request["temperature"]) == ("any-model", 0)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert json.loads(request["messages"][1]["content"].partition("\n")[2])["name"] == "getForecast"


@pytest.mark.parametrize(
    "answer",
    ["Sure!", "[]", '["a?", "b?"]', told("a?"), told("a?", 2), told("a?", " "), '{"questions": ["a", "b"], "x": 1}',
     "[" * 100_000, told("a?", "x" * 501), told("a?", "b\ud800?"), told("a?", "b\x1b[2J?")],
    ids=range(11),
)  # fmt: skip
def test_anything_but_the_list_is_refused(fake: FakeOpenAI, author: LanguageModelAuthor, answer: str) -> None:
    """Too few, no strings, more than was asked for: asked again once, then told; nothing of it is kept."""
    fake.answers = [answer]
    with pytest.raises(UnfitAnswer, match=r"any-model did not answer with 2 questions for sky/getForecast"):
        author.questions(AGENT, WEATHER, 2)
    assert len(fake.requests) == TRIES
    fake.answers = [told("a?", "b?")]
    assert author.questions(AGENT, WEATHER, 2) == ("a?", "b?")


def test_a_key_is_in_no_message(fake: FakeOpenAI, tmp_path: Path) -> None:
    """A wrong one is told without itself; address and key come from the environment that is handed in."""
    fake.answers = [told("a?")]
    environ = {"OPENAI_BASE_URL": fake.url, "OPENAI_API_KEY": "sk-wrong-1"}
    author = open_author("openai:m", Settings(cache_dir=str(tmp_path)), environ)
    with pytest.raises(LanguageModelRefused, match=r"refuses the key \(401\); set OPENAI_API_KEY") as caught:
        author.questions(AGENT, WEATHER, 1)
    assert "sk-wrong-1" not in str(caught.value)
