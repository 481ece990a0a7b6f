"""The rules against suspicious texts: `rules.toml`, read when the first text is checked.

An order is compiled when the first text has its words: most processes meet few, and compiling all takes 20 ms.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

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
