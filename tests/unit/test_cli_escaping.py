"""Untrusted text is shown, and steers nothing."""

import json
import unicodedata

import pytest

from waygraph.api.cli.render.output import many_lines, one_line
from waygraph.registry.model.foreign_text import escape_unsafe


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
