"""Text that looks as if it were written for the model and against its user: a small set of rules, each with a reason.

A flag is a hint to a person, not a verdict: flagged text is shown with it, never dropped. The rules look for what
published attacks on tool descriptions do (tool poisoning, shadowing of other tools, smuggled Unicode); they know
English instructions only, and whoever knows them can write around them.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from waygraph.registry.access.visibility import MAX_FLAGS, in_place_of
from waygraph.registry.model.nouns import Agent, JsonText, Tool

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
_MIXED = re.compile(
    rf"(?<!{_LETTER})(?=[a-zA-Z]*[{_OTHERS}])(?=[{_OTHERS}]*[a-zA-Z])[a-zA-Z{_OTHERS}]{{{_LEAST_LATIN_LETTERS},}}(?!{_LETTER})"
)
"""A run of letters, as between the underscores of a name."""


def in_latin(text: str) -> str:
    """As a person reads it who knows no other script."""
    return text.translate(_TO_LATIN)


def forged_words(text: str) -> list[str]:
    """Words of Latin letters in which others stand for some: no language writes so."""
    return _MIXED.findall(text)


MAX_QUOTE_CHARS = 60
OwnedElsewhere = Callable[[Collection[str]], Mapping[str, Collection[str]]]
"""Of these names those that are other agents' tools, and not this one's: with the ids of these agents."""


class Rule(NamedTuple):
    """`reason` is what a person reads before the words that it found.

    `words`: of each group one stands, in small letters, in every text that fits. Few texts have them, and the others
    are not searched.
    """

    reason: str
    words: tuple[tuple[str, ...], ...]
    pattern: re.Pattern[str]

    def may_fit(self, small: str) -> bool:
        return all(_has_one(group, small) for group in self.words)


def _has_one(words: Collection[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a loop, since this is asked of every text many times
        if word in text:
            return True
    return False


def _rule(reason: str, words: Collection[str], pattern: str) -> Rule:
    """A group of words is written in one text."""
    return Rule(
        reason,
        tuple(tuple(group.split(", ")) for group in words),
        re.compile(pattern, re.IGNORECASE | re.VERBOSE | re.DOTALL),
    )


_KEYS_LIE_IN = r"""(?: ~?/?\.ssh\b | \bid_(?:rsa|ed25519)\b | ~?/?\.aws/ | /etc/(?:passwd|shadow)\b | ~/\.netrc
    | \.gnupg\b | (?:\.cursor|claude_desktop_config|mcp)(?:/mcp)?\.json\b | (?<![\w.])\.env\b | \bprivate\ key )"""
INSTRUCTIONS = (
    _rule(
        "tells the model to ignore its instructions",
        (
            "ignore, disregard, forget, override, bypass",
            "previous, prior, above, earlier, preceding, former, system, safety, original, other",
        ),
        r"""\b(?:ignore|disregard|forget|override|bypass)\s+(?:(?:all|any|every|of|the|your|my|these|those)\s+){0,4}
        (?:previous|prior|above|earlier|preceding|former|system|safety|original|other)\s+(?:\w+\s+){0,2}
        (?:instruction|prompt|rule|message|direction|guideline|guardrail|restriction|polic(?:y|ie))s?\b""",
    ),
    _rule(
        "tells the model to keep something from the user",
        (
            "user, human",
            "not, n't, n’t, dont, never, without, avoid, hide, conceal, keep",
            "tell, inform, notify, alert, warn, mention, reveal, disclos, expos, report, know, see, notice, from",
        ),
        r"""\b(?:do\s+not|don['’]?t|never|without|must\s+not|avoid)\s+(?:ever\s+)?
        (?: (?:tell|inform|notify|alert|warn)(?:ing)?\s+(?:this\s+to\s+|it\s+to\s+)?(?:the\s+)?(?:user|human)s?\b
          | (?:mention|reveal|disclos|expos|report)(?:e|ing)?\s+(?:(?:this|that|it|any|of|the|about)\s+){0,3}
            (?:\w+\s+){0,3}?to\s+(?:the\s+)?(?:user|human)s?\b
          | let(?:ting)?\s+(?:the\s+)?(?:user|human)\s+(?:know|see|notice)\b )
        | \b(?:hide|conceal|keep)\s+(?:(?:this|that|it|these|all)\s+)(?:\w+\s+){0,3}?(?:secret\s+|hidden\s+)?
          from\s+(?:the\s+)?(?:user|human)s?\b""",
    ),
    _rule(
        "marks a part as orders for the model",
        ("important, secret, hidden, critical, admin, im_start, im_end, endoftext, inst, sys", "<, ["),
        r"""<\s*/?\s*(?:important|system|system[-_ ]?(?:prompt|reminder|message)|secret|hidden|critical|admin)\s*>
        | <\|(?:im_start|im_end|system|endoftext)\|> | \[\s*/?\s*(?:INST|SYSTEM)\s*\] | <<\s*/?\s*SYS\s*>>""",
    ),
    _rule(
        "gives the model a new role or new orders",
        ("you are now, instruction, system", "now, :"),
        r"""\byou\s+are\s+now\s+(?:in\s+|an?\s+|the\s+)?(?:\w+\s+)?(?:developer|admin|root|god|debug|jailbroken|unrestricted|DAN)\b
        | \bnew\s+(?:system\s+)?instructions?\s*: | \bsystem\s+(?:prompt|message|override)\s*: """,
    ),
    _rule(
        "asks for a file with secrets",
        (
            "ssh, id_rsa, id_ed25519, aws, /etc/, netrc, gnupg, .json, .env, private key",
            "must, first, before, always, please, need, make sure",
        ),
        r"""\b(?:you\s+must|must\s+first|first|before\s+(?:using|calling|you|invoking|every)|always|please|need\s+to|make\s+sure)\b
        .{0,120}?\b(?:read|open|cat|load|copy|send|upload|pass|include|attach|access|provide)\b.{0,80}?"""
        + _KEYS_LIE_IN,
    ),
    _rule(
        "sends something along to an address",
        (
            "@, http",
            "always, also, must, secretly, silently, quietly, instead",
            "cc, forward, copy, send, redirect, post, upload",
        ),
        r"""\b(?:always|also|must|secretly|silently|quietly|instead)\b.{0,80}?\b(?:bcc|cc|forward|copy|send|redirect|post|upload)\b
        .{0,80}?(?:[\w.+-]+@[\w-]+\.\w+|https?://)""",
    ),
)
_NAME = r"""(?: [`'"“](?P<{0}q>[\w.:/-]{{2,128}})[`'"”] | (?P<{0}c>\w+(?:[_-]\w+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)
    | (?:the\s+)?(?P<{0}t>[\w-]{{2,128}})\s+tool\b | (?:the\s+)?tool\s+(?P<{0}u>[\w-]{{2,128}})\b )"""
_INSTEAD = re.compile(
    r"\b(?i:(?:instead\s+of|rather\s+than|in\s+place\s+of)\s+(?:(?:use|using|call|calling|invoking|the)\s+){0,2}"
    r"|(?:not|never)\s+(?:ever\s+)?(?:use|call|invoke)\s+(?:the\s+)?)" + _NAME.format("a"),
    re.VERBOSE,
)
_REPLACES = re.compile(
    r"\b(?i:overrides?|replaces?|supersedes?|takes?\s+precedence\s+over|disables?)\s+(?i:(?:the|any|existing|original)\s+){0,2}"
    + _NAME.format("b"),
    re.VERBOSE,
)
_WORDS_OF_SHADOWING = (
    "instead", "rather", "in place", "not use", "not call", "not invoke", "never", "overrid", "replace", "supersede",
    "precedence", "disable",
)  # fmt: skip
MAX_NAMES = 50
MAX_READ_CHARS = 100_000
"""Of one text; that one is longer is told, as nobody looked through the rest."""
_SPACES = re.compile(r"\s{2,}")

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{200,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]{160,}|(?:\\x[0-9a-fA-F]{2}){20,}|(?:%[0-9a-fA-F]{2}){40,}")
_LEAST_ENCODED = 80
"""No shorter text holds one of these."""
_LEAST_LETTERS = 20
"""Different ones in a text in base64: a row of dashes or one word over and over has fewer."""

_FLAG_EMOJI = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")
"""Flags of regions, such as that of Scotland, are written with tag characters."""
_TAGS = re.compile("[\U000e0000-\U000e007f]+")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ZERO_WIDTH = re.compile("[\u180e\u200b\u2060-\u2064\ufeff\u115f\u1160\u3164\uffa0]")
_JOINER = re.compile("[\u200c\u200d]+")
_IGNORABLE = re.compile("[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180d\u200e\u200f\ufff9-\ufffb]")
"""Unseen as well; but texts that are no attack hold them: hyphenation, Arabic, Hebrew, Khmer and Mongolian."""
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
_BREAKS_BETWEEN_WORDS = ("THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts without spaces, which write U+200B where a line may break."""


def agent_flags(agent: Agent, elsewhere: OwnedElsewhere) -> tuple[str, ...]:
    """Why an agent's name and description look suspicious: at most `MAX_FLAGS` reasons, and behind them those that tell
    of other agents, so that each such agent is in one of them."""
    return _flags((("name", agent.name), ("description", agent.description)), elsewhere)


def tool_flags(tool: Tool, elsewhere: OwnedElsewhere) -> tuple[str, ...]:
    """As of an agent, and of all texts in schemas and annotations, names of properties included."""
    texts = [("name", tool.name), ("description", tool.description)]
    for where, schema in (
        ("input schema", tool.input_schema),
        ("output schema", tool.output_schema),
        ("annotations", tool.annotations),
    ):
        if "\\" in schema or _needs_a_look(schema):  # what JSON escapes is not read as it stands
            texts += [(where, text) for text in _strings(schema)]
    return _flags(texts, elsewhere)


def _flags(texts: Collection[tuple[str, str]], elsewhere: OwnedElsewhere) -> tuple[str, ...]:
    begun = [(where, text[:MAX_READ_CHARS]) for where, text in texts]
    looked_at = [(where, text, _readings(text)) for where, text in begun if _needs_a_look(text)]
    found = dict.fromkeys(
        f"{where}: has {len(text)} characters, of which {MAX_READ_CHARS} were looked through"
        for where, text in texts
        if len(text) > MAX_READ_CHARS
    )
    found |= dict.fromkeys(f"{where}: {reason}" for where, text, reads in looked_at for reason in _reasons(text, reads))
    return (*tuple(found)[:MAX_FLAGS], *_of_others([(where, reads) for where, _, reads in looked_at], elsewhere))


def _of_others(texts: Iterable[tuple[str, Collection[str]]], elsewhere: OwnedElsewhere) -> Iterator[str]:
    """What tells of agents that nothing before told of: who reads it may see no other."""
    told: set[str] = set()
    for where, readings in texts:
        for owners, words in chain.from_iterable(_shadowing(read, elsewhere) for read in readings):
            if not told.issuperset(owners):
                told.update(owners)
                yield f"{where}: {in_place_of(owners, words)}"


def _needs_a_look(text: str) -> bool:
    """False for most texts, and for JSON as it is written, in which no rule can find anything."""
    if not text.isascii():
        return True
    small = text.lower()
    return (
        any(rule.may_fit(small) for rule in INSTRUCTIONS) or _has_one(_WORDS_OF_SHADOWING, small) or any(_blobs(text))
    )


def _reasons(text: str, readings: Collection[str]) -> Iterator[str]:
    if not text.isascii():
        yield from _hidden_characters(text)
    for read in readings:
        yield from _orders(read)
        yield from _many_names(read)
    yield from _blobs(text)


def _readings(text: str) -> Collection[str]:
    """The text as a model may read it, with one space or line break for several: rules look at each anew."""
    plain = _SPACES.sub(_one_space, _without_hidden(text))
    return dict.fromkeys((plain, in_latin(plain)))


def _one_space(several: re.Match[str]) -> str:
    return "\n" if "\n" in several.group() else " "


def _orders(text: str) -> Iterator[str]:
    small = text.lower()
    for rule in INSTRUCTIONS:
        found = rule.pattern.search(text) if rule.may_fit(small) else None
        if found:
            yield f"{rule.reason} ({_quote(found.group())})"


# -- hidden Unicode ------------------------------------------------------------------------------------


def _hidden_characters(text: str) -> Iterator[str]:
    """What a model reads, or what reorders what a person reads; not what scripts and emoji are written with."""
    shown = _FLAG_EMOJI.sub("", text)
    for what, count in (
        ("tag characters, which only a model reads", sum(map(len, _TAGS.findall(shown)))),
        ("marks that reorder the text a person sees", len(_BIDI.findall(shown))),
        ("invisible characters", sum(1 for _ in _invisible(shown))),
        ("variation selectors that change nothing to see", sum(_idle_selectors(shown))),
    ):
        if count:
            yield f"holds {count} {what}"
    if forged := forged_words(text):
        yield f"writes Latin words with letters of other scripts ({_quote(forged[0])})"


def _invisible(text: str) -> Iterator[int]:
    for found in _ZERO_WIDTH.finditer(text):
        at, character = found.start(), found.group()
        byte_order_mark = character == "\ufeff" and at == 0
        between = character == "\u200b" and _script(text, at - 1) in _BREAKS_BETWEEN_WORDS
        hangul = character in "\u115f\u1160\u3164\uffa0" and _script(text, at - 1) == "HANGUL"
        if not (byte_order_mark or between or hangul):
            yield at
    for found in _JOINER.finditer(text):
        if len(found.group()) > 1 or not _may_be_joined(text, found.start() - 1):
            yield found.start()


def _may_be_joined(text: str, at: int) -> bool:
    """Whether a joiner may follow: a letter of a script that joins, a mark on one, or an emoji."""
    if at < 0 or text[at].isascii():
        return False
    return unicodedata.category(text[at])[0] in "LMS" and _script(text, at) not in ("LATIN", "CYRILLIC", "GREEK")


def _idle_selectors(text: str) -> Iterator[int]:
    """Runs of several, and such as stand behind a letter or at the beginning: digits become keycaps, others emoji."""
    for found in _SELECTORS.finditer(text):
        before = text[found.start() - 1] if found.start() else " "
        if len(found.group()) > 1 or (before.isascii() and before not in "0123456789#*"):
            yield len(found.group())


def _script(text: str, at: int) -> str:
    return unicodedata.name(text[at], "").partition(" ")[0] if 0 <= at < len(text) else ""


def _without_hidden(text: str) -> str:
    """As a model reads it: neither invisible characters between letters nor letters of another width hide a word."""
    if text.isascii():
        return text
    shown = _TAGS.sub(_spell_tags, text)
    for unseen in (_BIDI, _ZERO_WIDTH, _JOINER, _IGNORABLE, _SELECTORS):
        shown = unseen.sub("", shown)
    return unicodedata.normalize("NFKC", shown)


def _spell_tags(tags: re.Match[str]) -> str:
    """The ASCII characters that tag characters stand for."""
    codes = (ord(character) - 0xE0000 for character in tags.group())
    return "".join(chr(code) for code in codes if 0x20 <= code < 0x7F)


# -- other tools' names --------------------------------------------------------------------------------


def _shadowing(text: str, elsewhere: OwnedElsewhere) -> Iterator[tuple[Collection[str], str]]:
    """The owners of another tool that the text puts itself in the place of, and its words."""
    named = _put_aside(text)
    owners = elsewhere(list(named)[:MAX_NAMES]) if named else {}
    for name, quote in named.items():
        if owners.get(name):
            yield owners[name], f"{_quote(name)} ({_quote(quote)})"


def _many_names(text: str) -> Iterator[str]:
    """A crowd of names would hide the one that is a tool's."""
    if (many := len(_put_aside(text))) > MAX_NAMES:
        yield f"puts itself in the place of {many} names"


def _put_aside(text: str) -> dict[str, str]:
    """Names that are not to be used, with the words that say so."""
    if not _has_one(_WORDS_OF_SHADOWING, text.lower()):
        return {}
    instead = {_name_in(found, "a"): found.group() for found in _INSTEAD.finditer(text)}
    return instead | {_name_in(found, "b"): found.group() for found in _REPLACES.finditer(text)}


def _name_in(found: re.Match[str], which: str) -> str:
    return next(name for kind in "qctu" if (name := found.group(which + kind)))


# -- encoded text --------------------------------------------------------------------------------------


def _blobs(text: str) -> Iterator[str]:
    if len(text) < _LEAST_ENCODED:
        return
    for kind, pattern in (("base64", _BASE64), ("hexadecimal", _HEX)):
        for found in pattern.finditer(text):
            blob = found.group()
            if kind != "base64" or _is_encoded(blob):
                yield f"holds {len(blob)} characters of encoded text ({kind})"
                break


def _is_encoded(blob: str) -> bool:
    mixed = any(c.islower() for c in blob) and any(c.isupper() for c in blob) and any(c.isdigit() for c in blob)
    return mixed and len(set(blob)) >= _LEAST_LETTERS


# -- texts ---------------------------------------------------------------------------------------------


def _strings(schema: JsonText) -> Iterator[str]:
    """Every text in a JSON value, names included, at any depth."""
    left: list[object] = [json.loads(schema)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            left += [*value.values(), *value]
        elif isinstance(value, list):
            left += value


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return json.dumps(line if len(line) <= MAX_QUOTE_CHARS else line[: MAX_QUOTE_CHARS - 1] + "…", ensure_ascii=False)
