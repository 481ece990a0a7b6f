"""What of a text a person does not read as a model does: unseen characters, letters that look like others, and encoded
text, of which short pieces are decoded to see whether they hold a command.
"""

import json
import re
import unicodedata
from base64 import b64decode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache

from waygraph.ingest.manifest.suspicion.rules import find_orders, load_rules, purpose_of
from waygraph.registry.model.nouns import NOTICE

MAX_QUOTE_CHARS = 60


def quote(text: str) -> str:
    line = " ".join(text.split())
    return json.dumps(line if len(line) <= MAX_QUOTE_CHARS else line[: MAX_QUOTE_CHARS - 1] + "…", ensure_ascii=False)


_LETTER = r"[^\W\d_]"
_LEAST_LATIN_LETTERS, _LEAST_LOOK_ALIKES = 4, 3
"""Shorter ones are symbols as often as words: units, variables, grades."""
_OTHER_WORD = re.compile(rf"(?:(?![a-zA-Z]){_LETTER}){{{_LEAST_LOOK_ALIKES},}}")


@cache
def _to_latin() -> Mapping[int, str]:
    return str.maketrans({other: latin for latin, others in load_rules().look_alikes.items() for other in others})


def in_latin(text: str) -> str:
    """As a person reads it who knows no other script."""
    return text if text.isascii() else text.translate(_to_latin())


@cache
def mixed_word() -> re.Pattern[str]:
    """A run of letters, as between the underscores of a name."""
    others = "".join(load_rules().look_alikes.values())
    both = rf"(?=[a-zA-Z]*[{others}])(?=[{others}]*[a-zA-Z])[a-zA-Z{others}]"
    return re.compile(rf"(?<!{_LETTER}){both}{{{_LEAST_LATIN_LETTERS},}}(?!{_LETTER})")


def scripts_of(text: str) -> set[str]:
    """The scripts, but for Latin, of those of its letters that look like no Latin one: it is written in them."""
    letters = set(text).difference(*load_rules().look_alikes.values())
    return {_script(each, 0) for each in letters if not each.isascii() and each.isalpha()}


def look_alike_word(text: str, scripts: Collection[str]) -> str:
    """The first word all of whose letters look like Latin ones, in a text that is not written in their script.

    `scripts`: those that the texts beside it are written in.
    """
    if text.isascii():
        return ""
    look_alikes = set().union(*load_rules().look_alikes.values())
    own_scripts = scripts_of(text).union(() if _LATIN.search(text) else scripts)
    words = (match.group() for match in _OTHER_WORD.finditer(text))
    return next((each for each in words if look_alikes.issuperset(each) and _script(each, 0) not in own_scripts), "")


_LATIN = re.compile("[a-zA-Z]")
STRAY = "holds one invisible character"
"""As texts do that were pasted. One by itself says nothing to a model."""
_FLAG_EMOJI = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
"""Flags of regions, such as that of Scotland, are written with tag characters."""
_BREAKS_BETWEEN_WORDS = ("THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts without spaces, which write U+200B where a line may break."""


def hidden_characters(text: str) -> Iterator[str]:
    """What a model reads, or what reorders what a person reads; not what scripts and emoji are written with."""
    visible = _FLAG_EMOJI.sub("", text)
    counts = Counter[str]()
    for rule in load_rules().characters:
        count = _COUNTS.get(rule.name)
        matches = rule.pattern.finditer(visible)
        counts[rule.says] += sum(count(visible, match) if count else len(match.group()) for match in matches)
    for says, number in counts.items():
        if says and number:
            yield STRAY if (number, says) == (1, "invisible characters") else f"holds {number} {says}"
    if word := mixed_word().search(text):  # no language writes some letters of a Latin word with others
        yield f"writes Latin words with letters of other scripts ({quote(word.group())})"


_MOST_BREAKS, _MOST_BLANKS = 50, 500
_BLANKS = re.compile(rf"\s{{{_MOST_BREAKS},}}")


def wide_gaps(text: str) -> Iterator[str]:
    """One reason: so many line breaks or blanks in a row that a person does not see what stands behind them."""
    for match in _BLANKS.finditer(text):
        breaks, blanks = len(match.group().splitlines()), len(match.group())
        if breaks >= _MOST_BREAKS or blanks >= _MOST_BLANKS:
            yield f"holds {blanks} blanks and line breaks in a row, behind which text is out of sight"
            return


def _count_zero_width(text: str, match: re.Match[str]) -> int:
    """Not a byte order mark, a place where a line of Thai may break, a space in Braille, or a filler in Korean."""
    at, character = match.start(), match.group()
    byte_order_mark = character == "\ufeff" and at == 0
    between = character == "\u200b" and _script(text, at - 1) in _BREAKS_BETWEEN_WORDS
    braille = character == "\u2800" and _script(text, at - 1) == "BRAILLE" and text[at - 1] != "\u2800"
    hangul = character in "\u115f\u1160\u3164\uffa0" and _script(text, at - 1) == "HANGUL"
    return not (byte_order_mark or between or braille or hangul)


def _count_joiners(text: str, match: re.Match[str]) -> int:
    """Not one behind a letter of a script that joins, a mark on one, or an emoji."""
    at = match.start() - 1
    may_join = (
        at >= 0
        and not text[at].isascii()
        and unicodedata.category(text[at])[0] in "LMS"
        and _script(text, at) not in ("LATIN", "CYRILLIC", "GREEK")
    )
    return len(match.group()) if len(match.group()) > 1 else not may_join


def _count_selectors(text: str, match: re.Match[str]) -> int:
    """Runs of several, and such as stand behind a letter or at the beginning: digits become keycaps, others emoji."""
    before = text[match.start() - 1] if match.start() else " "
    is_idle = len(match.group()) > 1 or (before.isascii() and before not in "0123456789#*")
    return len(match.group()) if is_idle else 0


def _count_strokes(text: str, match: re.Match[str]) -> int:
    """Not one alone, as phonetic letters have; a word that is struck through has several near each other."""
    at = match.start()
    return match.group() in f"{text[max(0, at - 4) : at]}{text[at + 1 : at + 5]}"


_COUNTS: Mapping[str, Callable[[str, re.Match[str]], int]] = {
    "zero width": _count_zero_width,
    "joiners": _count_joiners,
    "variation selectors": _count_selectors,
    "strokes": _count_strokes,
}
"""Rule → how many of the characters that it finds are hidden."""


def _script(text: str, at: int) -> str:
    return unicodedata.name(text[at], "").partition(" ")[0] if 0 <= at < len(text) else ""


def without_hidden(text: str) -> str:
    """As a model reads it: neither invisible characters between letters nor letters of another width hide a word."""
    if text.isascii():
        return text
    for rule in load_rules().characters:
        text = rule.pattern.sub(_spell_tags if rule.name == "tags" else "", text)
    return unicodedata.normalize("NFKC", text)


def _spell_tags(tags: re.Match[str]) -> str:
    """The ASCII characters that tag characters stand for."""
    codes = (ord(character) - 0xE0000 for character in tags.group())
    return "".join(chr(code) for code in codes if 0x20 <= code < 0x7F)


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]{24,}|(?:\\x[0-9a-fA-F]{2}){12,}|(?:%[0-9a-fA-F]{2}){12,}")
_RUN = re.compile(r"\S{16}")
"""As long as the shortest run, in which there is no space."""
_LEAST_BASE64, _LEAST_HEX = 200, 160
"""Characters of a run that is a notice whatever it holds; of `\\x41` and `%41` a half and three quarters of that."""
_LEAST_SHARE = 0.9
"""Of what a run stands for so much can be read, if it is a text."""
_LEAST_LETTERS = 20
"""Different ones in a text in base64: a row of dashes or one word over and over has fewer."""
_COMMAND = re.compile(
    r"""\|\s*(?:ba|z|da|k)?sh\b | \b(?:curl|wget)\s+\S*(?:https?:|ftp:|-) | /dev/(?:tcp|udp)/ | \bchmod\s+[+\d]
    | \brm\s+-\w*[rf] | \b(?:ba)?sh\s+-[ci]\b | \bn(?:c|cat)\s+(?:-|[\w.]+\s+\d) | \bpowershell\b.{0,200}?\s-e | \bIEX\b
    | \bpython\d?\s+-c | \bbase64\s+-{1,2}d | \bos\.system\( | \bsubprocess\. | \b(?:eval|exec)\s*\( | &&\s*/?\w+/
      | >&?\s*/dev/""",
    re.IGNORECASE | re.VERBOSE,
)


def encoded_text(text: str, *, is_data: bool = False) -> Iterator[str]:
    """One reason a kind. What stands for a command or an order is one; else a long run is a notice."""
    if not _RUN.search(text):
        return  # so it is of most texts
    for kind, pattern in (("base64", _BASE64), ("hexadecimal", _HEX)):
        length = 0
        for match in pattern.finditer(text):
            run = match.group()
            if (content := decode_run(run, kind)) and (says := _says_encoded(content)):
                yield f"holds an encoded {says} ({kind} of {quote(content)})"
                break
            length = length or _is_long(run, kind) * len(run)
        else:
            if length and not is_data:
                yield f"{NOTICE}holds {length} characters of encoded text ({kind})"


def _says_encoded(content: str) -> str:
    if _COMMAND.search(content):
        return "command"
    orders = (each for each in find_orders(content, purpose_of("")) if not each.is_notice)
    if any(orders) or any(not each.startswith(NOTICE) for each in encoded_text(content)):
        return "order"
    return ""


def _is_long(run: str, kind: str) -> bool:
    if kind == "hexadecimal":
        return len(run) >= {"\\": _LEAST_HEX // 2, "%": _LEAST_HEX * 3 // 4}.get(run[0], _LEAST_HEX)
    if len(run) < _LEAST_BASE64 or len(set(run)) < _LEAST_LETTERS:
        return False
    return any(c.islower() for c in run) and any(c.isupper() for c in run) and any(c.isdigit() for c in run)


def decode_run(run: str, kind: str) -> str:
    """The text that it stands for; empty if that is mostly no text."""
    try:
        if kind == "hexadecimal":
            plain = bytes.fromhex(run.replace("\\x", "").replace("%", ""))
        else:
            short = run.rstrip("=").translate(_OF_URLS)
            plain = b64decode(short[: len(short) - (len(short) % 4 == 1)] + "=" * (-len(short) % 4))
    except (ValueError, Base64Error):
        return ""
    text = plain.decode("utf-8", "replace")
    letters = sum(char.isprintable() or char.isspace() for char in text) - text.count("\ufffd")
    return text if letters >= _LEAST_SHARE * len(text) else ""


_OF_URLS = str.maketrans("-_", "+/")
