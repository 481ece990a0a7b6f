"""Language models as they are: those that think first, that need fields of their own, and that answer what is unfit."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_openai import KEY, USAGE, FakeOpenAI
from waygraph.api.cli.app import main
from waygraph.registry.language_model.answers import ModelAnswers
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.language_model.messages import after_thoughts, begins_with_object, list_in
from waygraph.registry.model.errors import LanguageModelRefused
from waygraph.registry.model.settings import Settings

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
PROMPT = [{"role": "user", "content": "?"}]


@pytest.fixture
def fake(fake: FakeOpenAI) -> FakeOpenAI:
    fake.answers = ['{"numbers": [1]}']
    return fake


def chat(fake: FakeOpenAI, **settings: Any) -> ChatModel:
    environ = fake.environ
    return ChatModel.open("m", Settings(openai_retries=0, **settings), environ)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>1 or 2?</think>\n\n2", "2"),
        ("1 or 2?</think>2", "2"),
        ("<think>a</think>b</think>2", "2"),
        ("<think>1 or", ""),
        ("  <think>", ""),
        ("2", "2"),
        ("", ""),
        ('{"reason": "it says </think>[1]", "numbers": [2]}', '{"reason": "it says </think>[1]", "numbers": [2]}'),
        ('```json\n["</think>"]\n```', '```json\n["</think>"]\n```'),
    ],
)
def test_an_answer_is_what_comes_after_the_thoughts(text: str, answer: str) -> None:
    assert after_thoughts(text) == answer


@pytest.mark.parametrize(
    "text", ['```json\n{"steps": [1]}\n```', 'So:\n{"steps": [1]}', '<think>{}</think>{"steps": [1]}']
)
def test_a_list_is_read_whatever_is_around_it(text: str) -> None:
    assert list_in(text, "steps") == [1]
    assert list_in(text.replace("[1]", '[1], "more": 2'), "steps") == []


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ('{"numbers": [1]} as I think', True),
        ('```json\n{"numbers": [1]}\n```\nas I', True),
        ('Perhaps {"numbers": [1]}? No,', False),
        ('{"numbers": [1', False),
        ("", False),
    ],
)
def test_of_an_answer_that_was_cut_off_the_object_must_be_first(text: str, is_whole: bool) -> None:
    assert begins_with_object(text) is is_whole


@pytest.mark.parametrize("field", ["", "reasoning_content"])
def test_a_model_that_thinks_first_has_room_for_it(fake: FakeOpenAI, field: str) -> None:
    """An answer that its thoughts cut off is asked for without the limit, and from then on each is; both cost."""
    fake.thought_tokens, fake.thought_field = 300, field
    model = chat(fake)
    first, second = (model.complete(PROMPT, max_tokens=300) for _ in range(2))
    assert (first.text, second.text) == ('{"numbers": [1]}', '{"numbers": [1]}')
    assert [request.get("max_tokens") for request in fake.requests] == [300, None, None]
    assert first.completion_tokens == 2 * second.completion_tokens == 2 * USAGE["completion_tokens"]
    assert model.answer("s", "u") == '{"numbers": [1]}'


def test_a_model_that_babbles_keeps_its_limit(fake: FakeOpenAI) -> None:
    """Asked once more each time, since no answer without the limit was whole either; a whole one is taken as it is."""
    fake.thought_tokens, fake.thought_field = 300, "reasoning"
    fake.answers = ["And so on"]
    model = chat(fake)
    for _ in range(2):
        assert model.complete(PROMPT, max_tokens=300).text == "And so on"
    assert [request.get("max_tokens") for request in fake.requests] == [300, None, 300, None]
    model.complete(PROMPT, max_tokens=301)
    assert len(fake.requests) == 5


def test_fields_of_a_setting_are_in_each_request_and_part_of_what_answers_are_kept_by(fake: FakeOpenAI) -> None:
    fields = {"chat_template_kwargs": {"enable_thinking": False}, "max_tokens": 9, "temperature": None}
    model = chat(fake, openai_body=json.dumps(fields))
    model.complete(PROMPT, max_tokens=300)
    (request,) = fake.requests
    assert (request["chat_template_kwargs"], request["max_tokens"]) == ({"enable_thinking": False}, 9)
    assert "temperature" not in request
    plain = chat(fake)
    assert len({model.key("s", "u"), plain.key("s", "u"), plain.key("s", "v"), plain.key("su")}) == 4
    assert plain.key("s", "u") == chat(fake, openai_body="{}").key("s", "u")


def test_no_error_shows_a_secret_among_the_fields(fake: FakeOpenAI) -> None:
    """Not even if the endpoint repeats it."""
    fake.refuses = "metadata"
    model = chat(fake, openai_body=json.dumps({"metadata": {"tokens": ["token-of-mine"]}}))
    with pytest.raises(LanguageModelRefused, match=r"Unsupported value: 'metadata'.*tokens") as refusal:
        model.answer("s", "u")
    assert "token-of-mine" not in str(refusal.value)


def test_no_error_shows_a_secret_as_json_spells_it(fake: FakeOpenAI) -> None:
    value = 'tok"en/абв-12345'
    model = chat(fake, openai_body=json.dumps({"metadata": {"tokens": [value]}}))
    for quotation in (value, json.dumps(value), json.dumps(value, ensure_ascii=False).replace("/", "\\/")):
        assert "12345" not in str(model._endpoint.refusal(f"said {quotation}"))


def test_what_is_unfit_is_not_kept_and_what_was_kept_is_judged_anew(fake: FakeOpenAI, tmp_path: Path) -> None:
    fake.answers = ['{"a": 1}', '{"b": 1}', '{"b": 2}']

    def ask(field: str, temperature: float = 0) -> tuple[dict[str, Any], int, int]:
        answers = ModelAnswers(chat(fake), tmp_path / "answers.jsonl")
        answer = answers.ask("s", {}, is_fit=lambda answer: field in answer, temperature=temperature)
        return answer, answers.usage.calls, answers.usage.kept

    assert ask("b") == ({"a": 1}, 1, 0)
    assert not (tmp_path / "answers.jsonl").exists()
    assert ask("b") == ({"b": 1}, 1, 0)
    assert ask("b") == ({"b": 1}, 0, 1)
    assert ask("a") == ({"b": 2}, 1, 0)
    assert ask("b") == ({"b": 1}, 0, 1)
    assert ask("b", temperature=0.5) == ({"b": 2}, 1, 0)


def test_a_taxonomy_whose_build_failed_is_built_by_the_same_command(
    fake: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the file of former answers; an unfit answer that stands in it is passed over."""
    monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("WAYGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    base = ["--registry", str(tmp_path / "r.grafeo"), "--embedder", "none"]
    assert main([*base, "ingest", str(CATALOG)]) == 0
    build = [*base, "taxonomy", "build", "--model", "openai:m", "--leaf-size", "5"]
    fake.answers = ["I cannot help with that."]
    assert main(build) == 1
    kept = tmp_path / "cache" / "taxonomy" / "answers.jsonl"
    assert str(kept) in " ".join(capsys.readouterr().err.split())
    assert not kept.exists()
    lines = [
        {"key": chat(fake).key(*(message["content"] for message in request["messages"])), "text": "I cannot.", **USAGE}
        for request in fake.requests
    ]
    kept.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    fake.thought_tokens = 50

    def design(request: dict[str, Any]) -> str:
        told = json.loads(request["messages"][1]["content"])
        if "service" not in told:
            return json.dumps({"categories": [{"name": "one"}, {"name": "two"}]})
        return json.dumps({"numbers": [1 + len(told["service"]["name"]) % 2]})

    fake.answer = design
    assert main(build) == 0
    assert main([*base, "taxonomy", "show"]) == 0
    assert "one" in capsys.readouterr().out
