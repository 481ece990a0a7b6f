"""What categories are called: words that most of their members have and their siblings have not.

Candidates are tags, nouns, and domains of everyday life (`domains.json`) whose words a member uses. `words.json` tells
which stems are verbs and qualifiers in descriptions of tools, and how common the nouns are there. An embedder, where
there is one, chooses among them: the names by which it finds the most members.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from waygraph.registry.taxonomy.prompts import Service

type EmbedNames = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts → float32 of shape (texts, dimension), rows of length 1, by the embedder of the members' vectors."""

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
        most: int = _STILL_TELLING,
    ) -> tuple[list[str], list[list[str]]]:
        """Of each class of service ids its name, unique, and its words, the most telling first.

        `avoid`: terms. `former`: of each class the name that it had, which stays while its words still tell it apart.
        `members`: of each class float32 of shape (members, dimension), if an embedder is to choose, among `most` words.
        """
        parts = _Siblings({entity: self._weights[entity] for members in classes for entity in members}, classes)
        rankings = [self._spell(parts.rank(number, avoid)) for number in range(len(classes))]
        pairs = zip(former, rankings, strict=False)
        stable = [name if name and {*name.split("-")} <= {*words[:_STILL_TELLING]} else "" for name, words in pairs]
        names = [name if stable.count(name) == 1 else "" for name in stable or [""] * len(classes)]
        if self._embed and members:
            candidates = [
                {name: 1.0} if name else {word: parts.tell(number, _stem(word)) for word in words[:most]}
                for number, (name, words) in enumerate(zip(names, rankings, strict=True))
            ]
            try:
                names = choose_names(candidates, members, self._embed)
            except EmbedderError:  # an endpoint does not answer: the other names are chosen by texts, too
                self._embed = None
        # A word names the sibling of which it tells the most, and no other.
        nameless = [number for number, name in enumerate(names) if not name]
        for number in sorted(nameless, key=lambda number: -parts.best(number, avoid)):
            sibling_terms = {_stem(word) for name in names for word in name.split("-") if word and not word.isdigit()}
            words = self._spell(parts.rank(number, {*avoid, *sibling_terms})) or rankings[number]
            names[number] = _free_name(words, names)
        return names, rankings

    def _spell(self, terms: Sequence[str]) -> list[str]:
        """Without those that begin as one before does: they are its plurals."""
        words = [self._words[term] for term in terms]
        return [word for at, word in enumerate(words) if not any(word[:4] == other[:4] for other in words[:at])]

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


# -- names chosen by an embedder -------------------------------------------------------------------------

WIDTH = 0.03
"""A difference of cosines by which a name is chosen e times as likely as another one."""
PRIOR = 0.3
"""What counts, beside the members found, how well a word tells the siblings apart by their texts."""
LEAST_ALONE = 0.5
"""A second word finds alone at least this share of what the first one does."""
LEAST_IN_ALL = 0.9
"""And the siblings together lose no more than this by it."""
SECOND_WORDS = 8
_ROUNDS = 4
_ALIKE_CHARS = 3


def choose_names(
    candidates: Sequence[Mapping[str, float]], members: Sequence[NDArray[np.float32]], embed: EmbedNames
) -> list[str]:
    """Of each sibling a word, or two with a hyphen; no two siblings share a word. Empty without a free word.

    `candidates`: of each its words, the most telling first, and how much each tells. `members`: of each sibling
    float32 of shape (members, dimension), rows of length 1. The names are improved one by one until none changes.
    """
    search = _Search(candidates, members, embed)
    for _ in range(_ROUNDS):
        before = list(search.names)
        for number in range(len(candidates)):
            search.choose_word(number)
        if search.names == before:
            break
    for number in range(len(candidates)):
        search.add_word(number)
    return search.names


def remember(embed: EmbedNames) -> EmbedNames:
    """The same; no name is embedded twice."""
    vectors: dict[str, NDArray[np.float32]] = {}

    def embed_names(names: Sequence[str]) -> NDArray[np.float32]:
        new = [name for name in dict.fromkeys(names) if name not in vectors]
        vectors.update(zip(new, embed(new) if new else (), strict=True))
        return np.stack([vectors[name] for name in names])

    return embed_names


class _Search:
    def __init__(
        self, candidates: Sequence[Mapping[str, float]], members: Sequence[NDArray[np.float32]], embed: EmbedNames
    ) -> None:
        sizes = [len(rows) for rows in members]
        self._candidates, self._embed, self._rows = candidates, embed, np.concatenate(members)
        self._embed([*chain.from_iterable(candidates), ""])  # at once, which takes less than one by one
        self._class_of = np.repeat(np.arange(len(members)), sizes)
        self._weights = np.repeat([1 / max(1, size) for size in sizes], sizes)[:, None]
        self.names = [next(iter(words), "") for words in candidates]
        self._closeness = self._close_to(self.names)

    def choose_word(self, number: int) -> None:
        if not (words := self._free_words(number)):
            self.names[number] = ""
            return
        closeness = self._close_to(words)
        in_all, _ = self._shares(number, closeness)
        telling = self._candidates[number]
        values = in_all + PRIOR * np.array([telling[word] for word in words]) / (max(telling.values()) or 1.0)
        self._take(number, words, closeness, values)

    def add_word(self, number: int) -> None:
        """The second word that finds the most with the first one, if one does, and finds members alone too."""
        first = self.names[number]
        alike = [word for word in self._free_words(number) if word[:_ALIKE_CHARS] != first[:_ALIKE_CHARS]]
        if not (first and alike):
            return
        now, now_own = self._shares(number, self._closeness[:, [number]])
        in_all, own = self._shares(number, self._close_to(alike))
        does = (own >= LEAST_ALONE * now_own) & (in_all >= LEAST_IN_ALL * now)
        if pairs := [f"{first}-{alike[at]}" for at in np.flatnonzero(does)[:SECOND_WORDS]]:
            closeness = self._close_to(pairs)
            in_all, _ = self._shares(number, closeness)
            if in_all.max() > now[0]:
                self._take(number, pairs, closeness, in_all)

    def _free_words(self, number: int) -> list[str]:
        others = {word for at, name in enumerate(self.names) if at != number for word in name.split("-")}
        return [word for word in self._candidates[number] if word not in others]

    def _close_to(self, names: Sequence[str]) -> NDArray[np.float64]:
        """float64 of shape (members, names): how likely each is chosen, before it is divided by the sum of siblings."""
        cosines = self._rows @ self._embed([name.replace("-", " ") for name in names]).T
        return np.exp(cosines.astype(np.float64) / WIDTH)

    def _shares(self, number: int, closeness: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """If the sibling had each of these names: the likelihood of right choices, summed over siblings, and its own.

        float64 of shape (names,) each.
        """
        right = np.take_along_axis(self._closeness, self._class_of[:, None], axis=1)
        others = self._closeness.sum(axis=1, keepdims=True) - self._closeness[:, [number]]
        is_own = (self._class_of == number)[:, None]
        shares = np.where(is_own, closeness, right) / (others + closeness) * self._weights
        return shares.sum(axis=0), (shares * is_own).sum(axis=0)

    def _take(
        self, number: int, names: Sequence[str], closeness: NDArray[np.float64], values: NDArray[np.float64]
    ) -> None:
        """Equal values: the first one's."""
        best = int(np.round(values, 9).argmax())
        self.names[number], self._closeness[:, number] = names[best], closeness[:, best]
