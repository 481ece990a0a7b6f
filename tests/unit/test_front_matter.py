"""Front matter as authors write it: the name and the description are the words that stand there."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.ingest.sources.formats.skill import AS_WRITTEN, read_front_matter
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings


def front(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields, and what is remarked on each."""
    remarks: dict[str, str] = {}
    fields = read_front_matter(text, "SKILL.md", lambda place, reason: remarks.update({place: reason}))
    return dict(fields), remarks


PLAIN = [
    "Ties a bowline: twice round.",
    "Use when: the wind turns, or: it does not",
    "[draft] Ties knots",
    "{rope} is a placeholder",
    "@bosun ties knots",
    "`bowline` ties knots",
    "*Ties* knots",
    "**Always** ties knots",
    '"Bowline" ties knots',
    "'tis a knot",
    "- ties knots",
    "? ties knots",
    "| ties knots",
    "> ties knots",
    "%rope ties knots",
    "!knot ties: ropes",
    "&rope ties knots",
    "#1 for knots",
    "Ties knots, see #12 of the log.",
    "Ties #reef knots",
    "12",
    "1.50",
    "true",
    "[a, b]",
    "{a: b}",
    "Ties knots: a, b --- and c",
    "Ties \tknots: with tabs",
    "日本: 結び",
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_description_without_quotes_is_what_stands_there(text: str) -> None:
    """Whatever YAML makes of it; the remark says that it is no text in YAML."""
    fields, remarks = front(f"name: knots\ndescription: {text}\nlicense: MIT\n")
    assert (fields["name"], fields["description"], fields["license"]) == ("knots", text, "MIT")
    assert remarks == {"/description": AS_WRITTEN}


PROPER = {
    "plain": ("Ties knots.", "Ties knots."),
    "quoted": ('"Ties: knots # all"', "Ties: knots # all"),
    "single": ("'it''s: a knot'", "it's: a knot"),
    "escaped": (r'"a \"reef\" knot"', 'a "reef" knot'),
    "folded": (">-\n  Ties: knots\n  # and ropes\n\n  Well.", "Ties: knots # and ropes\nWell."),
    "literal": ("|\n  - a: b\n  - c\n", "- a: b\n- c\n"),
    "continued": ("Ties\n  knots\n\n  well", "Ties knots\nwell"),
    "colon inside": ("see https://knots.example:80/a", "see https://knots.example:80/a"),
    "hash inside": ("C# and F#", "C# and F#"),
    "an alias": ("&a Ties knots\nsummary: *a", "Ties knots"),
}


@pytest.mark.parametrize("kind", PROPER)
def test_with_proper_yaml_nothing_changes(kind: str) -> None:
    written, meant = PROPER[kind]
    fields, remarks = front(f"name: knots\ndescription: {written}\nmetadata: {{a: b}}\n")
    assert {"name": "knots", "description": meant, "metadata": {"a": "b"}}.items() <= fields.items()
    assert remarks == {}


@pytest.mark.parametrize(
    ("broken", "kept"),
    [
        ("metadata: {a: b: c}", {}),
        ("allowed-tools: @read, Bash(git:*)", {"allowed-tools": "@read, Bash(git:*)"}),
        ("license: *mine", {"license": "*mine"}),
        ("other: [", {}),
        ("\tindented: with a tab", {}),
        ("version: 1.5\nversion-note: `x`", {"version": 1.5}),
    ],
)
@pytest.mark.parametrize("kind", PROPER)
def test_a_broken_field_costs_no_other(broken: str, kept: dict[str, object], kind: str) -> None:
    """A description that is well written keeps its meaning, wherever the broken field stands."""
    written, meant = PROPER[kind]
    for text in (f"description: {written}\nname: knots\n{broken}\n", f"{broken}\nname: knots\ndescription: {written}"):
        fields, _ = front(text)
        assert fields["name"].startswith("knots")
        assert fields["description"].strip() == meant.strip()
        assert kept.items() <= fields.items()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Ties: a\n  bowline: b\n  and # c", "Ties: a bowline: b and # c"),
        ("Ties: a\n\n  Well: b", "Ties: a\nWell: b"),
        ("Ties: a\nand goes on: here", "Ties: a and goes on: here"),
        ("Ties: a\n--- and a rule", "Ties: a --- and a rule"),
        (">\n\tfolded: a\n\tb", "folded: a b"),
        ("|\n\tkept\n\tapart", "kept\napart"),
        (r'"a path C:\knots"', r"a path C:\knots"),
        ("'it's quoted'", "it's quoted"),
        ("\n  - ties\n  - unties", "- ties - unties"),
        ("\n  en: ties\n  de: knotet", "en: ties de: knotet"),
        ("Ties: a\r\n  and b", "Ties: a and b"),
    ],
)
def test_lines_that_go_on_are_one_text(written: str, meant: str) -> None:
    assert front(f"name: knots\ndescription: {written}\n")[0]["description"] == meant


def test_a_comment_is_told_and_is_no_text() -> None:
    fields, remarks = front("name: knots # mine\ndescription: Ties knots # to do: more\n")
    assert fields == {"name": "knots", "description": "Ties knots"}
    assert remarks.keys() == {"/name", "/description"}
    assert AS_WRITTEN not in remarks.values()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("name: a: b\ndescription: d", "a: b"),
        ("name: 12\ndescription: d", "12"),
        ("name:knots\ndescription:Ties", "knots"),
        ("  name: knots\n  description: a: b", "knots"),
        ('"name": knots\n"description": a: b', "knots"),
        ("name : knots\ndescription : a: b", "knots"),
        ("name: knots\n--- x\ndescription: d", "knots"),
    ],
)
def test_a_name_is_one_line(text: str, name: str) -> None:
    fields, _ = front(text)
    assert fields["name"] == name
    assert fields["description"]


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b", "[", "a b: c: d"])
def test_what_has_no_field_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        front(text)


@pytest.mark.parametrize("begin", ["", "\ufeff", "\n", "\r\n  \r\n"])
@pytest.mark.parametrize("end_of_line", ["\n", "\r\n", "\r"])
def test_any_line_ends_and_marks_at_the_begin_are_read(tmp_path: Path, begin: str, end_of_line: str) -> None:
    lines = ["---", "name: knots", "description: Ties: all", "---", "Text.", ""]
    (tmp_path / "knots").mkdir()
    (tmp_path / "knots" / "SKILL.md").write_bytes((begin + end_of_line.join(lines)).encode())
    [manifest] = read_path(str(tmp_path), Settings())
    assert [entry.agent.description for entry in manifest.entries] == ["Ties: all\n\nText."]


@given(st.lists(st.sampled_from([*PLAIN, *(written for written, _ in PROPER.values())]), min_size=1, max_size=4))
def test_several_texts_keep_apart(texts: list[str]) -> None:
    """Each field has its own text, in any company."""
    lines = [f"other{number}: {text}" for number, text in enumerate(texts)]
    for text in PLAIN:
        assert front("\n".join(["name: knots", *lines, f"description: {text}"]))[0]["description"] == text


@given(st.text("namedescription: -#\"'|>[]{}&*!%@`\n\t~.", max_size=120))
def test_no_front_matter_raises_another_error(text: str) -> None:
    try:
        fields, _ = front(text)
    except SourceError:
        return
    assert all(
        fields[name] is None or isinstance(fields[name], str) for name in ("name", "description") if name in fields
    )
