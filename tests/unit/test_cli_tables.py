"""Tables on terminals of several widths: names can be read, times are short, and what has no room is named."""

import json
import re
import unicodedata

import pytest

from waygraph.api.cli.commands.operate import _view_changes
from waygraph.api.cli.render import views
from waygraph.api.cli.render.output import Block, Fields, Lines, Table, Time, draw, many_lines, one_line, plain_texts
from waygraph.registry.model.changes import Change, SourceSummary
from waygraph.registry.model.foreign_text import escape_unsafe
from waygraph.registry.model.usage import ToolUsage

AT = "2026-11-27T06:08:51.123456+00:00"
NAMES = ["front-desk/evaluate", "front-desk/list_all_bookings", "a-b/x"]
USAGES = [
    ToolUsage(
        tool_id=name,
        calls=12345,
        ok=12000,
        tool_error=3,
        timed_out=2,
        p50_ms=1234.5,
        p95_ms=98765.4321,
        first_at=AT,
        last_at=AT,
    )
    for name in NAMES
]
SOURCES = [
    SourceSummary(name="/home/ada/catalogues/front-desk.json", namespace="", claims=(("a", "a"),), seen_at=AT),
    SourceSummary(name="front-desk", namespace=""),
]
CHANGES = [
    Change(
        id="1",
        at=AT,
        source="front-desk.json",
        revision=1234,
        agent_id="front-desk",
        tool="list_all_bookings",
        what="changed",
        before="{}",
        after="{}",
    )
]
MODELS = Table(
    ("model", "languages", "where", "folder", "sha256"),
    [("minilm", "English", "downloaded", "/home/ada/.local/share/waygraph/models/minilm", "0123456789abcdef" * 4)],
    spare=("sha256", "folder"),
)
WORDS: dict[str, tuple[list[str], list[Block]]] = {
    "usage": (NAMES, list(views.usage(USAGES))),
    "sources": (["front-desk"], list(views.sources(SOURCES, {each.name: each.name for each in SOURCES}))),
    "changes": (["front-desk", "list_all_bookings"], list(_view_changes(CHANGES))),
    "models": (["minilm", "English", "downloaded"], [MODELS]),
}


def drawn(blocks: list[Block], width: int, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    patch.setenv("COLUMNS", str(width))
    draw(blocks)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", WORDS)
def test_names_and_times_are_whole(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No id is folded, no heading loses a letter to the next line, and no line is longer than the terminal."""
    ids, blocks = WORDS[name]
    shown = drawn(blocks, width, monkeypatch, capsys)
    assert max(map(len, shown.splitlines())) <= width, shown
    for each in ids:
        assert each in shown, shown
    assert name != "changes" or "front-desk/list_all_bookings changed, " in shown
    table = blocks[0]
    assert isinstance(table, Table)
    for word in " ".join(table.columns).split():
        assert word in shown, shown
    assert ("2026-11-27 06:08Z" in shown) == (name != "models"), shown
    assert not re.search(r"^\s*\w\s*$", shown, re.MULTILINE), shown


def test_a_wide_terminal_has_every_column(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no room" not in drawn(list(views.usage(USAGES)), 160, monkeypatch, capsys)
    narrow = drawn(list(views.usage(USAGES)), 80, monkeypatch, capsys)
    assert "no room for" in narrow
    assert "cancelled" in narrow.partition("no room for")[2]
    assert "98765.4321" in narrow


def test_a_pipe_has_exact_times_and_every_column() -> None:
    (text,) = plain_texts(views.usage(USAGES))
    assert text.splitlines()[1].endswith(AT)
    assert len({line.count("\t") for line in text.splitlines()}) == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (AT, "2026-11-27 06:08Z"),
        ("2026-11-27T08:08:00+02:00", "2026-11-27 06:08Z"),
        ("never read", "never read"),
        ("", ""),
    ],
)
def test_a_time_is_shown_to_the_minute_in_utc(text: str, shown: str) -> None:
    assert Time(text).to_minute == shown


def test_a_text_takes_what_names_leave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two texts share the line, and are folded between words."""
    table = Table(("field", "before", "after"), [("description", "one two " * 30, "three four " * 30)])
    shown = drawn([table], 80, monkeypatch, capsys)
    assert "no room" not in shown
    words = set(shown.split()) - {"field", "before", "after", "description"}
    assert {each for each in words if each.isalpha()} == {"one", "two", "three", "four"}


def test_lines_begin_at_the_first_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A blank line stands between two blocks, and before none."""
    assert drawn([Lines("397.8")], 80, monkeypatch, capsys) == "397.8\n"
    assert drawn([Fields((("a", "b"),)), Lines("x", "title")], 80, monkeypatch, capsys).splitlines()[1:] == [
        "",
        "title",
        "x",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
        ("\x9b2Jgone", "\\u009b2Jgone"),
        ("good\u202edab", "good\\u202edab"),
        ("a\u2066b\u2069c", "a\\u2066b\\u2069c"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("hi\U000e0041", "hi\\udb40\\udc41"),
        ("bell\x07 null\x00 delete\x7f", "bell\\u0007 null\\u0000 delete\\u007f"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_steers_or_hides_is_spelled_out(text: str, shown: str) -> None:
    """Escape sequences, bidi marks, invisible characters and lone surrogates become visible."""
    assert one_line(text) == shown


def test_ordinary_text_of_any_script_stays() -> None:
    """Accents, CJK, emoji with joiners and Persian with its non-joiner are shown as they are."""
    text = "Crème brûlée, 快递, 👩\u200d🍳, می\u200cخواهم"
    assert one_line(text) == many_lines(text) == text


def test_every_control_and_format_character_is_spelled_or_a_joiner() -> None:
    """No character of the categories Cc and Cf that moves text gets through; only joiners and script signs do."""
    through = {chr(code) for code in range(0x110000) if escape_unsafe(chr(code)) == chr(code)}
    controls = {char for char in through if unicodedata.category(char) in {"Cc", "Zl", "Zp", "Cs"}}
    assert controls == {"\n"}
    assert {char for char in through if unicodedata.bidirectional(char) in {"LRE", "RLE", "LRO", "RLO", "PDF"}} == set()
    assert {char for char in through if unicodedata.bidirectional(char) in {"LRI", "RLI", "FSI", "PDI"}} == set()


def test_escaped_json_is_the_same_json() -> None:
    document = {"text": "\x9b \u202e \U000e0041 \x7f ☕"}
    assert json.loads(escape_unsafe(json.dumps(document, ensure_ascii=False))) == document
