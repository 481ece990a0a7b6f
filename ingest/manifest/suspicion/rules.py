"""The rules against suspicious texts, and the orders that they find: sentences that give a model orders, or do what the
tool's name and schema do not ask for.

The rules stand in `rules.toml`, which is read when the first text is checked. An order is compiled when the first text
has its words: most processes meet few, and compiling all takes 20 ms.

A sentence that only tells of an order (quoted after a word such as *detects*, or shown as *sample output:*) is a
mention, and a notice. One that names an address or a file with secrets is an order, whatever stands before it. The
rules see words. They do not see what a tool does, an order told as a story, or a language that is not listed in
`rules.toml`.
"""

import re
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

Span = tuple[int, int]
"""Begin and end of what a rule finds, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """An order, as `rules.toml` describes it. `patterns`: one, or one a concept.

    `is_mark`: it finds a token or label, which orders nothing by itself. `is_notice`: it denies nothing.
    `excuses`: what in a tool's purpose, or in the sentence, makes the order a harmless one. `after_first_sentence`: a
    sentence that begins a text says what the tool is for. `after_first_quarter`: the same of the first words of a first
    sentence.
    """

    name: str
    says: str
    words: Sequence[Sequence[str]]
    patterns: tuple[str, ...]
    within_chars: int = 0
    gaps_chars: Sequence[int] = ()
    in_one_clause: bool = False
    after_first_sentence: bool = False
    after_first_quarter: bool = False
    is_mark: bool = False
    is_notice: bool = False
    sentence_words: Sequence[str] = ()
    excuses: Sequence[str] = ()

    @property
    def parts(self) -> list[re.Pattern[str]]:
        return [_compile(pattern) for pattern in self.patterns]

    def may_fit(self, small: str) -> bool:
        """Whether an ASCII text in small letters has a word of each group."""
        for group in self.words:  # loops and no calls, since this is asked of every text many times
            for word in group:
                if word in small:
                    break
            else:
                return False
        return True

    def may_find(self, small: str) -> bool:
        """Whether it may find anything in such a text; a rule with words of a sentence looks at no others."""
        return has_one(self.sentence_words, small) if self.sentence_words else self.may_fit(small)

    def find(self, sentence: str) -> Iterator[Span]:
        parts = self.parts
        if len(parts) == 1:
            yield from (match.span() for match in parts[0].finditer(sentence))
        elif self.gaps_chars:
            yield from _find_in_order(sentence, parts, self.gaps_chars)
        else:
            for start, end in _find_near(sentence, parts, self.within_chars):
                if not (self.in_one_clause and _COMMA.search(sentence, start, end)):
                    yield start, end


@dataclass(frozen=True, slots=True)
class NameRule:
    """What stands before the name of a tool that is put aside, or that is to be called."""

    name: str
    puts_aside: bool
    words: Sequence[str]
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class CharacterRule:
    """Characters that nobody sees. `says` is empty if texts that are no attack hold them."""

    name: str
    says: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, kw_only=True)
class Rules:
    orders: tuple[Rule, ...]
    harm: Rule
    context: Mapping[str, re.Pattern[str]]
    purpose: Mapping[str, Sequence[str]]
    words_of_names: Sequence[str]
    names: tuple[NameRule, ...]
    characters: tuple[CharacterRule, ...]
    look_alikes: Mapping[str, str]
    """Latin letter → those that look like it."""

    def may_order(self, small: str) -> bool:
        """False for most ASCII texts, in which no rule can find an order. `small`: the text in small letters."""
        return any(rule.may_fit(small) for word, rules in self._openers if word in small for rule in rules)

    @cached_property
    def _openers(self) -> Sequence[tuple[str, Sequence[Rule]]]:
        """Each word of the rules' smallest groups, with these rules: most texts have none of them."""
        openers: dict[str, list[Rule]] = {}
        for rule in self.orders:
            for word in min(rule.words, key=len):
                openers.setdefault(word, []).append(rule)
        return tuple(openers.items())


@cache
def load_rules() -> Rules:
    document = tomllib.loads(files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"))
    concepts, names = document["concepts"], document["names"]
    return Rules(
        orders=tuple(_rule(block, concepts) for block in document["orders"]),
        harm=_rule(document["harm"], concepts),
        context={name: _compile(pattern) for name, pattern in document["context"].items()},
        purpose=document["purpose"],
        words_of_names=names["words"],
        names=tuple(
            NameRule(
                name=rule["name"],
                puts_aside=rule["puts_aside"],
                words=rule.get("words", names["words"]),
                pattern=re.compile(rule["pattern"] + names["name"], re.VERBOSE),
            )
            for rule in names["rules"]
        ),
        characters=tuple(
            CharacterRule(rule["name"], rule.get("says", ""), re.compile(rule["pattern"]))
            for rule in document["characters"]
        ),
        look_alikes=document["look_alikes"],
    )


def _rule(block: Mapping[str, Any], concepts: Mapping[str, Mapping[str, Any]]) -> Rule:
    patterns = [block["pattern"]] if "pattern" in block else [_pattern(name, concepts) for name in block["concepts"]]
    fields = {name: value for name, value in block.items() if name in Rule.__dataclass_fields__}
    return Rule(patterns=tuple(patterns), **fields)


def _pattern(concept: str, concepts: Mapping[str, Mapping[str, Any]]) -> str:
    """Alternatives, one a language."""
    languages = dict(concepts[concept])
    return "|".join((*(_pattern(name, concepts) for name in languages.pop("includes", ())), *languages.values()))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE | re.DOTALL)


def has_one(words: Collection[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a loop, as above
        if word in text:
            return True
    return False


_COMMA = re.compile("[,;:，；：]")


def _find_near(sentence: str, concepts: Sequence[re.Pattern[str]], within_chars: int) -> Iterator[Span]:
    """Stretches of at most so many characters that hold one word of each concept."""
    if not all(each.search(sentence) for each in concepts):
        return
    words = sorted((*match.span(), which) for which, each in enumerate(concepts) for match in each.finditer(sentence))
    last: dict[int, Span] = {}
    for start, end, which in words:
        last[which] = start, end
        begin, finish = min(at for at, _ in last.values()), max(at for _, at in last.values())
        if len(last) == len(concepts) and finish - begin <= within_chars:
            yield begin, finish
            last.clear()


def _find_in_order(sentence: str, concepts: Sequence[re.Pattern[str]], gaps_chars: Iterable[int]) -> Iterator[Span]:
    """Stretches with one word of each concept in this order. One pattern with `.{0,80}?` between them would take the
    product of the gaps for each word that begins one.
    """
    stretches = [match.span() for match in concepts[0].finditer(sentence)]
    for concept, gap in zip(concepts[1:], gaps_chars, strict=True):
        ends, longer = [end for _, end in stretches], list[Span]()
        for match in concept.finditer(sentence):
            at = bisect_left(ends, match.start() - gap)
            if at < len(ends) and ends[at] <= match.start():
                longer.append((stretches[at][0], match.end()))
        stretches = longer
    yield from stretches


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
