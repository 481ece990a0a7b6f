"""What categories are called: words that most of their members have and their siblings have not.

Candidates are tags, nouns, and domains of everyday life (`domains.json`) whose words a member uses. `words.json` tells
which stems are verbs and qualifiers in descriptions of tools, and how common the nouns are there.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, count
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.analyser import rarity, telling_words
from waygraph.registry.model.errors import EmbedderError
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.taxonomy.name_choice import EmbedNames, choose_names, remember
from waygraph.registry.taxonomy.prompts import Service

NAME_WORDS = 2
MARGIN = 1.5
"""A service is of a domain whose words weigh so many times as much in it as those of any other."""
OF_TEXT = 0.85
"""What a word of a description or a tool's name counts, beside a tag or a domain."""
FILLER = 0.2
"""What this share of public servers says names nothing: data, information, api."""
RARE = 0.05
"""A noun that this share of public servers uses is as telling as any; a more common one is less."""
LEAST_PART = 0.12
"""A category is named by what at least so many of its members have, unless that is less than a name."""
_POOL, _STILL_TELLING = 30, 20
_ADDRESS = re.compile(r"\w+://\S+|www\.\S+")
_NO_NOUN = re.compile(r"(ous|able|ible|ful|less|ly|ish|ize|ise|ify)$")


class CategoryNamer:
    """Names categories of one tree of these services. Only their texts make names.

    `embed`: by the embedder of the services' vectors; then of these words those are chosen by which it finds them.
    """

    def __init__(self, services: Sequence[Service], embed: EmbedNames | None = None) -> None:
        self._embed = embed and remember(embed)
        spelling: dict[str, Counter[str]] = defaultdict(Counter)
        own_counts, others = Counter[str](), Counter[str]()
        self._weights: dict[str, dict[str, float]] = {}
        """Service id → term → what it counts."""
        for each in services:
            weights = self._weights[each.id] = {}
            for term, word, weight in _candidates(each):
                spelling[term][word] += 1
                weights[term] = max(weights.get(term, 0.0), weight)
            own = _own_words(each)
            own_counts.update(weights.keys() & own)
            others.update(weights.keys() - own)
        # What is said less by others than by those that are called so is a brand, and no kind of thing.
        brands = {term for term, number in own_counts.items() if others[term] < number}
        for each in services:
            for term in brands & _own_words(each) & self._weights[each.id].keys():
                del self._weights[each.id][term]
        self._words = {term: min(words, key=lambda word: (-words[word], word)) for term, words in spelling.items()}
        self._keep_script()
        self._add_domains(services)

    def name_siblings(
        self,
        classes: Sequence[Collection[str]],
        avoid: Collection[str],
        former: Sequence[str] = (),
        members: Sequence[NDArray[np.float32]] = (),
    ) -> tuple[list[str], list[list[str]]]:
        """Of each class of service ids its name, unique, and its words, the most telling first.

        `avoid`: terms. `former`: of each class the name that it had, which stays while its words still tell it apart.
        `members`: of each class float32 of shape (members, dimension), if an embedder is to choose.
        """
        parts = _Siblings({entity: self._weights[entity] for members in classes for entity in members}, classes)
        rankings = [self._spell(parts.rank(number, avoid)) for number in range(len(classes))]
        pairs = zip(former, rankings, strict=False)
        stable = [name if name and {*name.split("-")} <= {*words[:_STILL_TELLING]} else "" for name, words in pairs]
        names = [name if stable.count(name) == 1 else "" for name in stable or [""] * len(classes)]
        if self._embed and members:
            candidates = [
                {name: 1.0} if name else {word: parts.tell(number, _stem(word)) for word in words[:_STILL_TELLING]}
                for number, (name, words) in enumerate(zip(names, rankings, strict=True))
            ]
            try:
                names = choose_names(candidates, members, self._embed)
            except EmbedderError:  # an endpoint does not answer: the other names are chosen by texts, too
                self._embed = None
        # A word names the sibling of which it tells the most, and no other.
        for number in sorted(range(len(classes)), key=lambda number: -parts.best(number, avoid)):
            sibling_terms = {_stem(word) for name in names for word in name.split("-") if word and not word.isdigit()}
            words = self._spell(parts.rank(number, {*avoid, *sibling_terms})) or rankings[number]
            names[number] = names[number] or _free_name(words, names)
        return names, rankings

    def _spell(self, terms: Sequence[str]) -> list[str]:
        return _without_plurals([self._words[term] for term in terms])

    def _keep_script(self) -> None:
        """Words of a script that few services of the tree are written in name nothing."""
        scripts = Counter(term.isascii() for weights in self._weights.values() for term in weights)
        is_ascii = scripts[True] >= scripts[False]
        for entity, weights in self._weights.items():
            self._weights[entity] = {term: each for term, each in weights.items() if term.isascii() == is_ascii}

    def _add_domains(self, services: Sequence[Service]) -> None:
        """To each service the name of the domain that it is of, as one of its terms."""
        texts = {each.id: {term for term, _ in telling_words(each.text)} for each in services}
        having = Counter(chain.from_iterable(texts.values()))
        for entity, terms in texts.items():
            sums: dict[str, float] = defaultdict(float)
            for term in sorted(terms & _domains_of_terms().keys()):
                for domain in _domains_of_terms()[term]:
                    sums[domain] += rarity(having[term], len(texts))
            best, second = (*sorted(sums.values(), reverse=True), 0.0, 0.0)[:2]
            if best and best >= MARGIN * second:
                domain = max(sums, key=lambda each: sums[each])
                self._weights[entity][_stem(domain)] = 1.0
                self._words[_stem(domain)] = domain


class _Siblings:
    """How the terms of some classes tell them apart. `weights`: of each member what a term counts."""

    def __init__(self, weights: Mapping[str, Mapping[str, float]], classes: Sequence[Collection[str]]) -> None:
        self._classes = classes
        self._terms = weights
        self._size = len(weights)
        self._class_of = {entity: number for number, members in enumerate(classes) for entity in members}
        self._members: dict[str, dict[str, float]] = defaultdict(dict)
        for entity, terms in weights.items():
            for term, weight in terms.items():
                self._members[term][entity] = weight

    def best(self, number: int, avoid: Collection[str]) -> float:
        """How much the first of its terms tells."""
        return max((self.tell(number, term) for term in self.rank(number, avoid)[:1]), default=0.0)

    def tell(self, number: int, term: str) -> float:
        return self._tell(number, self._members[term])

    def rank(self, number: int, avoid: Collection[str]) -> list[str]:
        """Of a class: the term that tells the most, then those that do so together with it."""
        members = self._classes[number]
        having = Counter(chain.from_iterable(self._terms[entity] for entity in members))
        for term in avoid:
            del having[term]
        terms = [term for term, times in having.items() if times >= max(2, LEAST_PART * len(members))]
        if len(terms) < NAME_WORDS:
            terms = [term for term, times in having.items() if times >= min(2, len(members) // 2)] or list(having)
        terms = sorted(terms, key=lambda term: (-self.tell(number, term), term))[:_POOL]
        if not terms:
            return []
        first = self._members[terms[0]]
        together = {term: self._tell(number, _either(first, self._members[term])) for term in terms[1:]}
        return [terms[0], *sorted(together, key=lambda term: (-together[term], term))]

    def _tell(self, number: int, weights: Mapping[str, float]) -> float:
        """A term's part in the divergence of a class from its siblings: p · log(p / q), with shares of members."""
        inside = sum(weight for entity, weight in weights.items() if self._class_of[entity] == number)
        size = len(self._classes[number])
        share = inside / size
        other_share = (sum(weights.values()) - inside + 1) / (self._size - size + 1)
        return share * max(0.0, log(share / other_share)) if share else 0.0


def _either(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {**first, **{entity: max(weight, first.get(entity, 0.0)) for entity, weight in second.items()}}


def _candidates(service: Service) -> Iterator[tuple[str, str, float]]:
    """Term, word and what it counts. A tag may be an adjective: somebody chose it."""
    is_tool = owner_of(service.id) != service.id
    text = f"{_ADDRESS.sub(' ', service.description)} {service.name if is_tool else service.words}"
    nouns = (each for each in telling_words(text) if _may_be_noun(*each))
    for (term, word), weight in chain(
        ((each, 1.0) for each in telling_words(" ".join(service.tags))), ((each, OF_TEXT) for each in nouns)
    ):
        if term not in verbs() and _load("words.json")["nouns"].get(term, 0.0) < FILLER:
            yield term, word, weight * _telling(term)


def _may_be_noun(term: str, word: str) -> bool:
    """A participle is none, nor a measure such as 1000m; `feed` is no participle, since it is its own stem."""
    is_word = not any(map(str.isdigit, word)) and not _NO_NOUN.search(word)
    return is_word and term not in _qualifiers() and (term == word or not word.endswith("ed"))


def _own_words(service: Service) -> frozenset[str]:
    """The terms of an agent's own name; a tool's words are its agent's name."""
    name = service.name if owner_of(service.id) == service.id else service.words
    return frozenset(term for term, _ in telling_words(name))


def _without_plurals(words: Sequence[str]) -> list[str]:
    """Without those that begin as one before does."""
    return [word for at, word in enumerate(words) if not any(word[:4] == other[:4] for other in words[:at])]


def _free_name(words: Sequence[str], names: Collection[str]) -> str:
    """The first word with the second, or the next that makes a name that no sibling bears; then numbered."""
    first = words[0] if words else "other"
    pairs = (f"{first}-{word}" for word in words[1:])
    plain = next((name for name in pairs if name not in names), first)
    return next(name for number in count(1) if (name := plain if number == 1 else f"{plain}-{number}") not in names)


# -- what is known of words -----------------------------------------------------------------------------


@cache
def _load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((files("waygraph.registry.taxonomy") / name).read_bytes())
    return document


@cache
def verbs() -> frozenset[str]:
    """Stems."""
    return frozenset(_load("words.json")["verbs"].split())


@cache
def _qualifiers() -> frozenset[str]:
    return frozenset(_load("words.json")["qualifiers"].split())


@cache
def domains() -> Mapping[str, frozenset[str]]:
    """Name → the terms of its typical words."""
    return {name: frozenset(term for term, _ in telling_words(words)) for name, words in _load("domains.json").items()}


@cache
def _domains_of_terms() -> Mapping[str, Sequence[str]]:
    domains_of: dict[str, list[str]] = defaultdict(list)
    for domain, terms in domains().items():
        for term in terms:
            domains_of[term].append(domain)
    return domains_of


@cache
def _telling(term: str) -> float:
    """From 0 for what every public server says to 1."""
    share: float = _load("words.json")["nouns"].get(term, 0.0)
    return log(share) / log(RARE) if share > RARE else 1.0


def _stem(word: str) -> str:
    return next((term for term, _ in telling_words(word)), word)
