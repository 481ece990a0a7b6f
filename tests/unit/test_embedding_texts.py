"""Which texts are embedded, and with what weights."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from waygraph.registry.embedding import texts as embedding_texts
from waygraph.registry.embedding.embedder import Progress, Role
from waygraph.registry.embedding.texts import (
    Parts,
    SpooledVectors,
    TextForms,
    agent_texts,
    first_sentence,
    is_latin,
    new_vectors,
    parameter_text,
    query_text,
    tool_parts,
    tool_texts,
    unit_mean,
)
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import InvalidSetting, StorageFailed
from waygraph.registry.model.nouns import Agent, TextForm, Tool
from waygraph.registry.model.validation import is_form, read_form

GITHUB = Agent(id="github", name="GitHub", description="Repositories and issues.")
SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string", "description": "what to\n find"}, "limit": {"type": "integer"}},
}
SEARCH = Tool(
    id="github/search", agent_id="github", name="search", description="Find issues.", input_schema=json.dumps(SCHEMA)
)


def test_without_a_description_the_name_stands_alone() -> None:
    bare = Tool(id="a/t", agent_id="a", name="t")
    assert tool_texts("plain", Agent(id="a", name="A"), bare, 1000) == ("t",)
    assert tool_texts("contextual", Agent(id="a", name="A"), bare, 1000) == ("A | t", "t")
    assert agent_texts("contextual", Agent(id="a", name="A"), ["t"], 1000) == ("A. Tools: t",)


def test_a_contextual_tool_says_whose_it_is_and_what_it_takes() -> None:
    """One text names the agent, one the parameters with their descriptions, one is the first sentence."""
    tool = replace(SEARCH, description="Find issues. Newest first.")
    assert tool_texts("contextual", GITHUB, tool, 1000) == (
        "GitHub | search: Find issues. Newest first.",
        "search: Find issues. Newest first. Parameters: q (what to find), limit",
        "Find issues.",
    )


@pytest.mark.parametrize(
    ("text", "latin"),
    [
        ("", True),
        ("123 …", True),
        ("où est ma clé, Đặng?", True),
        ("GitHub 上的 issue", True),
        ("查 GitHub 的最新问题", True),
        ("查一下 API 的天气预报", False),
        ("где моя посылка", False),
    ],
)
def test_a_text_is_latin_if_half_of_its_letters_are(text: str, latin: bool) -> None:
    assert is_latin(text) is latin


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ("", ""),
        ("Find issues", "Find issues"),
        (" Reads v1.2 of it! Then more.", "Reads v1.2 of it!"),
        ("Search papers\n\nArgs:\n  q: text.", "Search papers"),
        ("查询天气。支持城市。", "查询天气。"),
        ("word " * 40, ("word " * 32).strip()),
        ("x" * 200, "x" * 160),
    ],
)
def test_the_first_sentence_of_a_description(description: str, sentence: str) -> None:
    assert first_sentence(description) == sentence


def test_a_contextual_agent_names_its_first_25_tools() -> None:
    (text,) = agent_texts("contextual", GITHUB, [f"t{i}" for i in range(30)], 1000)
    assert text.startswith("GitHub: Repositories and issues. Tools: t0, t1, ")
    assert text.endswith(", t24")


ASKED = replace(SEARCH, questions=("Where is the bug?", "Any open issue?"))


def test_a_concatenation_holds_all_parts() -> None:
    assert tool_parts("concat", GITHUB, ASKED, 1000) == Parts(
        ("search: Find issues. Parameters: q (what to find), limit Where is the bug? Any open issue?",)
    )


@pytest.mark.parametrize(
    ("form", "weights"), [("tdwa-1", (0.2, 0.2, 0.2, 0.2, 0.2)), ("tdwa-2", (0.2, 0.3, 0.25, 0.25))]
)
def test_tdwa_weighs_the_parts_as_the_paper_does(form: TextForm, weights: tuple[float, ...]) -> None:
    """Table 4: [.2 .2 .2 .4] and [.2 .3 0 .5]; the questions share theirs, a part of weight 0 is not embedded."""
    parts = tool_parts(form, GITHUB, ASKED, 1000)
    assert parts.weights == weights
    parameters = ("q (what to find), limit",) if form == "tdwa-1" else ()
    assert parts.texts == ("search", "Find issues.", *parameters, "Where is the bug?", "Any open issue?")


def test_what_a_tool_lacks_leaves_its_weight_to_the_rest() -> None:
    """Without questions and parameters .2 and .2 are left of var-1: after scaling to length 1 that is .5 and .5."""
    bare = Tool(id="a/t", agent_id="a", name="t", description="d", questions=())
    parts = tool_parts("tdwa-1", GITHUB, bare, 1000)
    assert parts == Parts(("t", "d"), (0.2, 0.2))
    rows = np.array([[1, 0], [0, 1]], dtype=np.float32)
    np.testing.assert_allclose(unit_mean(rows, [2], parts.shares), unit_mean(rows, [2], (0.5, 0.5)), atol=1e-7)


OWN = "tdwa:name=1,parameters=1,agent=2"


def test_own_weights_and_components_make_the_parts() -> None:
    parts = tool_parts(read_form(OWN), GITHUB, ASKED, 1000)
    assert parts == Parts(("search", "q (what to find), limit", GITHUB.name), (0.25, 0.25, 0.5))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("concat", "concat"),
        (OWN, "tdwa:name=0.25,parameters=0.25,agent=0.5"),
        ("tdwa: agent = 4, name = 2, parameters = 2, questions = 0", "tdwa:name=0.25,parameters=0.25,agent=0.5"),
        ("tdwa:name=.2,description=.2,parameters=.2,questions=.4", "tdwa-1"),
        ("tdwa:questions=5,description=3,name=2", "tdwa-2"),
        ("tdwa:name=1,description=1,questions=1", "tdwa:name=0.333333,description=0.333333,questions=0.333333"),
    ],
)
def test_equal_texts_have_one_form(text: str, form: str) -> None:
    assert read_form(text) == form
    assert read_form(form) == form
    assert is_form(form)
    assert is_form(text) == (text == form)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tdwa", "texts must be one of contextual, plain, concat, tdwa-1, tdwa-2, or weights such as tdwa:name=.2"),
        ("tdwa:", "the components are name, description, parameters, questions, agent, not ''"),
        ("tdwa:names=1", "not 'names'. Did you mean 'name'"),
        ("tdwa:name", "'name' needs a weight from 0 to 1000"),
        ("tdwa:name=much", "'name' needs a weight"),
        ("tdwa:name=nan", "'name' needs a weight"),
        ("tdwa:name=-1", "'name' needs a weight"),
        ("tdwa:name=1,name=2", "'name' stands there twice"),
        ("tdwa:name=0,agent=0", "one weight at least"),
        (7, "not 7"),
    ],
)
def test_weights_that_cannot_be_are_refused(text: Any, why: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(why)):
        read_form(text)


class _Axes:
    """Gives each text an axis of its own; names what it embedded."""

    fingerprint, dimension = "axes", 16

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "NDArray[np.float32]":
        assert (role, progress) == ("document", None)
        self.texts += [text for text in texts if text not in self.texts]
        return np.eye(self.dimension, dtype=np.float32)[[self.texts.index(text) for text in texts]]


def made(form: TextForm, tool: Tool) -> tuple[dict[str, float], str]:
    """Text → its share of the tool's vector, and the vector's key."""
    embedder = _Axes()
    parts = TextForms(form=form, max_chars=1000).of_entries([AgentEntry(key="g", agent=GITHUB, tools=(tool,))])
    found = new_vectors(parts, {}, embedder)
    vector = found.vectors[tool.id]
    assert vector is not None
    return {text: round(float(vector[at]), 4) for at, text in enumerate(embedder.texts) if vector[at]}, found.keys[
        tool.id
    ]


def test_a_vector_is_the_weighted_sum_at_length_one() -> None:
    vector, _ = made("tdwa-2", ASKED)
    length = (0.2**2 + 0.3**2 + 2 * 0.25**2) ** 0.5
    assert vector == {
        "search": round(0.2 / length, 4),
        "Find issues.": round(0.3 / length, 4),
        "Where is the bug?": round(0.25 / length, 4),
        "Any open issue?": round(0.25 / length, 4),
    }


def test_texts_are_embedded_in_parts_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of several parts, too; progress tells of all of them."""
    calls: list[list[str]] = []
    told: list[tuple[int, int]] = []

    class Words:
        fingerprint, dimension = "words", 3

        def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> NDArray[np.float32]:
            assert role == "document"
            calls.append(list(texts))
            if progress:
                progress(len(texts), len(texts))
            return np.asarray([[len(text), ord(text[0]), 1] for text in texts], np.float32)

    texts = {"a": ("one", "two"), "b": ("two",), "c": ("three", "one"), "d": (), "e": ("two", "six")}
    made_of = {entity: Parts(its) for entity, its in texts.items()}
    whole = new_vectors(made_of, {}, Words()).vectors
    calls.clear()
    monkeypatch.setattr(embedding_texts, "ENTITIES_AT_ONCE", 1)
    parts = new_vectors(made_of, {}, Words(), lambda done, total: told.append((done, total))).vectors
    assert calls == [["one", "two"], ["three"], ["six"]]
    assert told == [(2, 4), (3, 4), (4, 4)]
    assert {each: np.asarray(vector).tolist() for each, vector in parts.items()} == {
        each: np.asarray(vector).tolist() for each, vector in whole.items()
    }


def test_vectors_that_wait_in_a_file_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """More vectors than are held come back from a temporary file as they went there, in any order and again."""
    monkeypatch.setattr(embedding_texts, "VECTOR_BYTES_HELD", 100)
    matrix = np.arange(600, dtype=np.float32).reshape(100, 6)
    vectors = SpooledVectors()
    for start in range(0, 100, 10):
        vectors.append([f"e{row}" for row in range(start, start + 10)], matrix[start : start + 10])
    assert list(vectors) == [f"e{row}" for row in range(100)]
    for row in (99, 0, 50, 0):
        np.testing.assert_array_equal(vectors[f"e{row}"], matrix[row])
    assert "e100" not in vectors


def test_no_room_for_waiting_vectors_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no temporary file can be made the write fails as for any other lack of room."""
    monkeypatch.setattr(embedding_texts, "VECTOR_BYTES_HELD", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageFailed, match="temporary file"):
        SpooledVectors().append(["a", "b"], np.ones((2, 384), np.float32))


def test_the_key_tells_weights_and_questions() -> None:
    """Other weights over the same texts, and other questions, are another vector; other forms know neither."""
    flat, turned = replace(ASKED, input_schema="{}"), replace(ASKED, questions=ASKED.questions[::-1])
    forms: tuple[TextForm, ...] = ("tdwa-1", "tdwa-2", "concat")
    keys = [made(form, tool)[1] for form in forms for tool in (SEARCH, ASKED, turned)]
    assert len(set(keys)) == len(keys)
    assert made("tdwa-1", flat)[0].keys() == made("tdwa-2", flat)[0].keys()
    assert made("tdwa-1", flat)[1] != made("tdwa-2", flat)[1] == made("tdwa-2", ASKED)[1]
    assert made("contextual", SEARCH)[1] == made("contextual", ASKED)[1]


@pytest.mark.parametrize(
    "schema",
    ["", "null", "true", "[]", "{", '{"properties": []}', '{"properties": null}', '{"type": "string"}', "[" * 100_000],
)
def test_a_schema_that_is_none_has_no_parameters(schema: str) -> None:
    assert parameter_text(schema) == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("what  is\n\tthis?", "what is this?"),
        ("look " + "iVBORw0KGgo" * 30 + "== please", "look please"),
        ("hash " + "0f" * 150, "hash"),
        ("see data:image/png;base64,AAAA= here", "see here"),
        ("keep " + "a" * 199, "keep " + "a" * 199),
        ("data: base64, please", "data: base64, please"),
        ("今日の天気" * 60, "今日の天気" * 60),
    ],
)
def test_a_query_loses_pasted_files(text: str, left: str) -> None:
    """Base64 and hex of 200 characters or more and data URIs go, words of any script stay."""
    assert query_text(text) == left


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fetch https://www.acme.example/a/b?c=1#d, then stop.", "fetch acme.example web page , then stop."),
        ("see <HTTP://Acme.example:8080>", "see < Acme.example:8080 web page >"),
        ("打开https://acme.example/page查询北京天气", "打开 acme.example web page 查询北京天气"),
        ("https://a.example/x,https://b.example/y", "a.example web page , b.example web page"),
        ("https://ann:secret@acme.example/x", "acme.example web page"),
        ("save it to /srv/notes/june.md.", "save it to file md"),
        ("open ~/a/b.tar.gz", "open file gz"),
        ("open ./b.csv and ../c/d.PDF", "open file csv and file PDF"),
        ("read C:\\Users\\ann\\list.xlsx", "read file xlsx"),
        ("mail ann.b+c@mail.acme.example!", "mail email address !"),
        ("order 3f2504e0-4f89-11d3-9a0c-0305e82c3301 is late", "order ID is late"),
        ("commit af88b1aaac0b222df8539f3ae1", "commit ID"),
        ("card 6227002198765432101", "card ID"),
    ],
)
def test_literal_values_are_told_by_their_kind(text: str, told: str) -> None:
    """What a URL, path, address or id says is what kind of value there is; `literals` leaves them as they are."""
    assert query_text(text) == told
    assert query_text(text, literals=True) == text


@pytest.mark.parametrize(
    "text",
    [
        "list /v1/users/{id}",
        "call harbor-git/create_issue",
        "and/or, 24/7, 11/21/2026, km/h, 1.5/2.5",
        "open the /srv/notes folder",
        "www.acme.example is a host, report.docx a name",
        "follow @ann, a@b, #tag, $5.00",
        "the decade 1990, the code facade, number 12345678",
        "io.github.acme/server and @acme/server",
        "clone git@acme.example:org/repo",
        "install numpy@1.26.10",
        "call /api/v1.1",
    ],
)
def test_what_only_looks_like_a_literal_stays(text: str) -> None:
    """Names of agents, tools and operations, fractions, dates, hosts, and words."""
    assert query_text(text) == text


DIALOGUE = "user: Book a table.\nAssistant: In which town? user: of what\n\n USER : In Oslo,\nfor four"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (DIALOGUE, "Book a table. In Oslo, for four"),
        (f"system: Be brief.\n{DIALOGUE}\nassistant: Done.", "Book a table. In Oslo, for four"),
        ("User: Book a table.", None),
        ("the header User: is missing\nassistant: none", None),
        ("Make users.\nuser: ann\nassistant: bob", None),
        ("user: ann\nuser: bob, the assistant", None),
        ("user:\nassistant: Hello.", None),
        ("assistants for every user: a list", None),
    ],
)
def test_of_a_dialogue_the_user_s_turns_are_read(text: str, told: str | None) -> None:
    """What only holds such words stays; `literals` leaves a dialogue as it is."""
    whole = " ".join(text.split())
    assert query_text(text) == (whole if told is None else told)
    assert query_text(text, literals=True) == whole


@pytest.mark.parametrize(
    "part",
    [
        *("data:", "http://", "http://a:", "http://a.", "a.", "a@", "/a", "./", "~/.", "0123abc-", "C:\\", "/a.b "),
        *("user:assistant:", "\nuser:", "\n \t", "assistant \n"),
    ],
)
def test_a_huge_query_is_cleaned_in_linear_time(part: str) -> None:
    """Megabytes of almost-blobs and almost-literals take about a second, not minutes."""
    started = time.process_time()
    query_text(part * 400_000)
    assert time.process_time() - started < 5


def test_rows_that_cancel_out_give_zeros() -> None:
    """No division by zero: neither for opposite rows nor for zero rows."""
    matrix = np.array([[1, 0], [-1, 0], [0, 0]], dtype=np.float32)
    assert not unit_mean(matrix, [2, 1]).any()
    assert unit_mean(np.zeros((0, 2), dtype=np.float32), []).shape == (0, 2)
