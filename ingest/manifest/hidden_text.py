"""What of a text a person does not read as a model does: unseen characters, letters that look like others, and encoded
text, of which short pieces are decoded to see whether they hold a command.
"""

import json
import re
import unicodedata
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping

MAX_QUOTE_CHARS = 60


def quote(text: str) -> str:
    line = " ".join(text.split())
    return json.dumps(line if len(line) <= MAX_QUOTE_CHARS else line[: MAX_QUOTE_CHARS - 1] + "…", ensure_ascii=False)


# Letters of other scripts that look like Latin ones: what a person takes for a word, and a rule would not.
#
# Those that are alike in most typefaces, of Cyrillic, Greek and Armenian; of Unicode's list of confusable
# characters (UTS #39) the ones that words are forged with.


_LATIN: Mapping[str, str] = {
    "a": "\u0430\u03b1",
    "c": "\u0441\u03f2",
    "d": "\u0501",
    "e": "\u0435",
    "h": "\u04bb\u0570",
    "i": "\u0456\u03b9",
    "j": "\u0458\u03f3",
    "k": "\u043a\u03ba",
    "l": "\u04cf",
    "n": "\u0578",
    "o": "\u043e\u03bf\u0585",
    "p": "\u0440\u03c1",
    "q": "\u051b",
    "s": "\u0455",
    "u": "\u057d\u03c5",
    "v": "\u03bd\u0475",
    "w": "\u051d",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af",
    "A": "\u0410\u0391",
    "B": "\u0412\u0392",
    "C": "\u0421\u03f9",
    "E": "\u0415\u0395",
    "H": "\u041d\u0397",
    "I": "\u0406\u0399\u04c0",
    "J": "\u0408\u037f",
    "K": "\u041a\u039a",
    "M": "\u041c\u039c",
    "N": "\u039d",
    "O": "\u041e\u039f",
    "P": "\u0420\u03a1",
    "Q": "\u051a",
    "S": "\u0405",
    "T": "\u0422\u03a4",
    "W": "\u051c",
    "X": "\u0425\u03a7",
    "Y": "\u03a5\u04ae",
    "Z": "\u0396",
}
"""Latin letter → those that look like it."""
_TO_LATIN = str.maketrans({other: latin for latin, others in _LATIN.items() for other in others})
_OTHERS = "".join(_LATIN.values())
_LEAST_LATIN_LETTERS = 4
"""Shorter ones are symbols as often as words: units, variables, grades."""
_LETTER = r"[^\W\d_]"
_MIXED_WORD = re.compile(
    rf"(?<!{_LETTER})(?=[a-zA-Z]*[{_OTHERS}])(?=[{_OTHERS}]*[a-zA-Z])[a-zA-Z{_OTHERS}]{{{_LEAST_LATIN_LETTERS},}}(?!{_LETTER})"
)
"""A run of letters, as between the underscores of a name."""


def in_latin(text: str) -> str:
    """As a person reads it who knows no other script."""
    return text.translate(_TO_LATIN)


def forged_words(text: str) -> list[str]:
    """Words of Latin letters in which others stand for some: no language writes so."""
    return _MIXED_WORD.findall(text)


_FLAG_EMOJI = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
"""Flags of regions, such as that of Scotland, are written with tag characters."""
_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ZERO_WIDTH = re.compile("[\u180e\u200b\u2060-\u2064\ufeff\u115f\u1160\u3164\uffa0]")
_JOINER = re.compile("[\u200c\u200d]+")
_IGNORABLE = re.compile("[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180d\u200e\u200f\ufff9-\ufffb]")
"""Unseen as well; but texts that are no attack hold them: hyphenation, Arabic, Hebrew, Khmer and Mongolian."""
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
_PRIVATE = re.compile("[\ue000-\uf8fe\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
"""Letters that no standard gives a meaning, but for U+F8FF, with which Apple writes its logo."""
_BREAKS_BETWEEN_WORDS = ("THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts without spaces, which write U+200B where a line may break."""


def hidden_characters(text: str) -> Iterator[str]:
    """What a model reads, or what reorders what a person reads; not what scripts and emoji are written with."""
    visible = _FLAG_EMOJI.sub("", text)
    for what, count in (
        ("tag characters, which only a model reads", sum(map(len, _TAGS.findall(visible)))),
        ("marks that reorder the text a person sees", len(_BIDI.findall(visible))),
        ("letters of private use, which mean what their author likes", len(_PRIVATE.findall(visible))),
        ("invisible characters", sum(1 for _ in _invisible(visible))),
        ("variation selectors that change nothing to see", sum(_idle_selectors(visible))),
    ):
        if count:
            yield f"holds {count} {what}"
    if words := forged_words(text):
        yield f"writes Latin words with letters of other scripts ({quote(words[0])})"


def _invisible(text: str) -> Iterator[int]:
    for match in _ZERO_WIDTH.finditer(text):
        at, character = match.start(), match.group()
        byte_order_mark = character == "\ufeff" and at == 0
        between = character == "\u200b" and _script(text, at - 1) in _BREAKS_BETWEEN_WORDS
        hangul = character in "\u115f\u1160\u3164\uffa0" and _script(text, at - 1) == "HANGUL"
        if not (byte_order_mark or between or hangul):
            yield at
    for match in _JOINER.finditer(text):
        if len(match.group()) > 1 or not _may_be_joined(text, match.start() - 1):
            yield match.start()


def _may_be_joined(text: str, at: int) -> bool:
    """Whether a joiner may follow: a letter of a script that joins, a mark on one, or an emoji."""
    if at < 0 or text[at].isascii():
        return False
    return unicodedata.category(text[at])[0] in "LMS" and _script(text, at) not in ("LATIN", "CYRILLIC", "GREEK")


def _idle_selectors(text: str) -> Iterator[int]:
    """Runs of several, and such as stand behind a letter or at the beginning: digits become keycaps, others emoji."""
    for match in _SELECTORS.finditer(text):
        before = text[match.start() - 1] if match.start() else " "
        if len(match.group()) > 1 or (before.isascii() and before not in "0123456789#*"):
            yield len(match.group())


def _script(text: str, at: int) -> str:
    return unicodedata.name(text[at], "").partition(" ")[0] if 0 <= at < len(text) else ""


def without_hidden(text: str) -> str:
    """As a model reads it: neither invisible characters between letters nor letters of another width hide a word."""
    if text.isascii():
        return text
    visible = _TAGS.sub(_spell_tags, text)
    for pattern in (_BIDI, _ZERO_WIDTH, _JOINER, _IGNORABLE, _SELECTORS, _PRIVATE):
        visible = pattern.sub("", visible)
    return unicodedata.normalize("NFKC", visible)


def _spell_tags(tags: re.Match[str]) -> str:
    """The ASCII characters that tag characters stand for."""
    codes = (ord(character) - 0xE0000 for character in tags.group())
    return "".join(chr(code) for code in codes if 0x20 <= code < 0x7F)


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]{24,}|(?:\\x[0-9a-fA-F]{2}){12,}|(?:%[0-9a-fA-F]{2}){12,}")
_LEAST_BASE64, _LEAST_HEX = 200, 160
"""Characters of a run that is told of whatever it holds; of `\\x41` and `%41` a half and three quarters of that."""
_LEAST_LETTERS = 20
"""Different ones in a text in base64: a row of dashes or one word over and over has fewer."""
_COMMAND = re.compile(
    r"""\|\s*(?:ba|z|da|k)?sh\b | \b(?:curl|wget)\s+\S*(?:https?:|ftp:|-) | /dev/(?:tcp|udp)/ | \bchmod\s+[+\d]
    | \brm\s+-\w*[rf] | \b(?:ba)?sh\s+-[ci]\b | \bn(?:c|cat)\s+(?:-|[\w.]+\s+\d) | \bpowershell\b.{0,200}?\s-e | \bIEX\b
    | \bpython\d?\s+-c | \bbase64\s+-{1,2}d | \bos\.system\( | \bsubprocess\. | \b(?:eval|exec)\s*\( | &&\s*/?\w+/
      | >&?\s*/dev/""",
    re.IGNORECASE | re.VERBOSE,
)


def encoded_text(text: str, *, commands_only: bool = False) -> Iterator[str]:
    """One reason a kind."""
    for kind, pattern in (("base64", _BASE64), ("hexadecimal", _HEX)):
        for match in pattern.finditer(text):
            run = match.group()
            if not commands_only and _is_long(run, kind):
                yield f"holds {len(run)} characters of encoded text ({kind})"
                break
            if (content := decode_run(run, kind)) and _COMMAND.search(content):
                yield f"holds an encoded command ({kind} of {quote(content)})"
                break


def _is_long(run: str, kind: str) -> bool:
    if kind == "hexadecimal":
        return len(run) >= {"\\": _LEAST_HEX // 2, "%": _LEAST_HEX * 3 // 4}.get(run[0], _LEAST_HEX)
    is_mixed = any(c.islower() for c in run) and any(c.isupper() for c in run) and any(c.isdigit() for c in run)
    return len(run) >= _LEAST_BASE64 and is_mixed and len(set(run)) >= _LEAST_LETTERS


def decode_run(run: str, kind: str) -> str:
    """The text that it stands for; empty if that is no text in ASCII."""
    try:
        if kind == "hexadecimal":
            plain = bytes.fromhex(run.replace("\\x", "").replace("%", "")).decode("ascii")
        else:
            short = run.rstrip("=").translate(_OF_URLS)
            plain = b64decode(short[: len(short) - (len(short) % 4 == 1)] + "=" * (-len(short) % 4)).decode("ascii")
    except (ValueError, Base64Error):
        return ""
    return plain if plain.isprintable() else ""


_OF_URLS = str.maketrans("-_", "+/")
