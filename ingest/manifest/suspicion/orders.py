"""Sentences that give a model orders, or do what the tool's name and schema do not ask for.

A sentence that only tells of an order (quoted after a word such as *detects*, or shown as *sample output:*) is a
mention, and a notice. One that names an address or a file with secrets is an order, whatever stands before it. The
rules see words. They do not see what a tool does, an order told as a story, or a language that is not listed in
`rules.toml`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from waygraph.ingest.manifest.suspicion.rules import Rule, Span, has_one, load_rules

_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n(?=[^a-z\s])")
_QUOTES = (("“", "”"), ("‘", "’"), ("«", "»"), ("„", "“"), ("「", "」"), ("‹", "›"))
_MARKS = (re.compile('"'), re.compile("`"), re.compile(r"(?<!\w)'|'(?!\w)"))
"""Of quotations that begin and end with the same mark. An apostrophe stands within a word."""
_QUOTED_CHARS = 1_000
"""So far from the words a quotation begins and ends: what is longer is no example."""
_LEAD_CHARS = 300
"""So far before the words a verb stands that makes them a mention."""
MAX_MENTIONS = 50
"""Of one rule in one text. A crowd of them would hide the one that is an order."""
_JOINT = re.compile(r"[_\W]+|(?<=[a-z0-9])(?=[A-Z])")
"""Between the words of a name, which are joined by underscores or begin with capitals."""
_LONG_NAME = re.compile(r"\b[A-Za-z]+(?:[_-][A-Za-z]+){4,}\b|\b[a-z]+(?:[A-Z][a-z]+){4,}\b")
MAX_NAME_WORDS = 4
"""A longer name of a parameter is a sentence, and says nothing of what the tool is for."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a tool says that it is for, found once in its name and its parameters' names."""

    sends: bool
    keeps_secrets: bool
    names_place: bool
    """Whether a parameter names the place that something is sent to."""


def purpose_of(name: str, parameters: Iterable[str] = ()) -> Purpose:
    topics = load_rules().purpose
    names = (each for each in parameters if len(_JOINT.split(each)) <= MAX_NAME_WORDS)
    small = "\n".join(names).lower()  # no word that is looked for holds a line break
    words = f"{name.lower()}\n{small}"
    return Purpose(
        has_one(topics["sends"], words), has_one(topics["keeps_secrets"], words), has_one(topics["names_place"], small)
    )


def spell_names(text: str) -> str:
    """As a model reads long names: one word to a parser may be a sentence."""
    return _LONG_NAME.sub(lambda name: _JOINT.sub(" ", name.group()), text)


class Order(NamedTuple):
    """`is_notice`: the text only mentions it, or the rule is no reason to deny."""

    reason: str
    words: str
    is_notice: bool = False


@dataclass(frozen=True, slots=True)
class _Sentence:
    """`place`: from 0, in its text."""

    text: str
    small: str
    place: int
    purpose: Purpose


_EXCUSES: Mapping[str, Callable[[_Sentence], bool]] = {
    "purpose in first sentence": lambda each: not each.place and (each.purpose.sends or each.purpose.keeps_secrets),
    "purpose of sending": lambda each: each.purpose.sends,
    "purpose of keeping secrets": lambda each: each.purpose.keeps_secrets,
    "parameter for the place": lambda each: each.purpose.names_place and "attacker" not in each.small,
    "condition": lambda each: load_rules().context["condition"].search(each.text) is not None,
}


def find_orders(
    text: str, purpose: Purpose, *, is_data: bool = False, rules: Iterable[Rule] | None = None
) -> Iterator[Order]:
    """What each rule finds in the text, once a reason, and of a mention a notice; the text is as a model reads it.

    `is_data`: it is a value and addresses nobody, so that a mark in it is what the value is.
    """
    small = text.lower()
    may_fit = [
        rule
        for rule in (load_rules().orders if rules is None else rules)
        if not (is_data and rule.is_mark) and (not text.isascii() or rule.may_find(small))
    ]
    if not may_fit:
        return
    reasons, mentions = set[str](), Counter[str]()
    for place, part in enumerate(sentences(text)):
        sentence = _Sentence(part, part.lower(), place, purpose)
        for rule, span in ((each, span) for each in may_fit for span in _find(each, sentence)):
            reason = rule.says
            if reason in reasons:
                continue
            mentions[reason] += 1
            words = part[span[0] : span[1]]
            if mentions[reason] > MAX_MENTIONS or not _is_mention(part, span):
                reasons.add(reason)
                yield Order(reason, words, rule.is_notice)
            elif mentions[reason] == 1:
                yield Order(f"quotes or describes what {reason}", words, is_notice=True)


def _find(rule: Rule, sentence: _Sentence) -> Iterator[Span]:
    text, small = sentence.text, sentence.small
    if rule.after_first_sentence and not sentence.place:
        return
    if rule.sentence_words and text.isascii() and not has_one(rule.sentence_words, small):
        return
    if any(_EXCUSES[excuse](sentence) for excuse in rule.excuses):
        return
    first_chars = len(text) // 4 if rule.after_first_quarter and not sentence.place and "exfiltrat" not in small else -1
    yield from (span for span in rule.find(text) if span[0] > first_chars)


def sentences(text: str) -> Iterator[str]:
    """In their order. An empty text has none."""
    return (part for each in _END.split(text) if (part := each.strip()))


def _is_mention(sentence: str, span: Span) -> bool:
    """Whether the words are told of, and not said: after a verb of looking, quoted or in one clause; or a specimen."""
    patterns, lead = load_rules().context, sentence[max(0, span[0] - _LEAD_CHARS) : span[0]]
    if patterns["aim"].search(sentence, span[0]):
        return False
    if patterns["specimen"].search(lead):
        return True
    verb = patterns["tells_of"].search(lead) or patterns["tells_of_asian"].search(lead)
    return verb is not None and (_is_quoted(sentence, span) or not patterns["clause_end"].search(lead[verb.end() :]))


def _is_quoted(sentence: str, span: Span) -> bool:
    before, after = sentence[max(0, span[0] - _QUOTED_CHARS) : span[0]], sentence[span[1] : span[1] + _QUOTED_CHARS]
    if any(len(mark.findall(before)) % 2 and mark.search(after) for mark in _MARKS):
        return True
    return any(
        (at := before.rfind(opens)) >= 0 and closes not in before[at + 1 :] and closes in after
        for opens, closes in _QUOTES
    )


def find_harm(text: str) -> str:
    """The words by which a text says that its tool does harm; empty if it says none, or defends against it."""
    rules = load_rules()
    if not rules.harm.may_fit(text.lower()):
        return ""
    for sentence in sentences(text):
        span = next(rules.harm.find(sentence), None)
        if span and not rules.context["defence"].search(sentence):
            return sentence[span[0] : span[1]]
    return ""
