"""Letters of other scripts that look like Latin ones: what a person takes for a word, and a rule would not.

Those that are alike in most typefaces, of Cyrillic, Greek and Armenian; of Unicode's list of confusable characters (UTS
#39) the ones that words are forged with.
"""

import re
from collections.abc import Mapping

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
_LEAST_LETTERS = 4
"""Shorter ones are symbols as often as words: units, variables, grades."""
_LETTER = r"[^\W\d_]"
_MIXED = re.compile(
    rf"(?<!{_LETTER})(?=[a-zA-Z]*[{_OTHERS}])(?=[{_OTHERS}]*[a-zA-Z])[a-zA-Z{_OTHERS}]{{{_LEAST_LETTERS},}}(?!{_LETTER})"
)
"""A run of letters, as between the underscores of a name."""


def in_latin(text: str) -> str:
    """As a person reads it who knows no other script."""
    return text.translate(_TO_LATIN)


def forged_words(text: str) -> list[str]:
    """Words of Latin letters in which others stand for some: no language writes so."""
    return _MIXED.findall(text)
