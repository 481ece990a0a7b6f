"""`python -m benchmarks.noun_words`: which words of tool descriptions are nouns, counted in the servers of Toucan.

It writes what `category_names.py` of the product reads. A noun ends a phrase or has a plural; a verb begins a sentence
or a tool's name, follows `to`, or has an object behind it. No request of any data set is read.
"""

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.record import PROJECT
from benchmarks.world import data_folder
from waygraph.registry.index.analyser import CAMEL, telling_words

SOURCE = Path("training/toucan/agents.jsonl")
TARGET = PROJECT / "registry" / "taxonomy" / "words.json"
FEWEST_SERVERS = 10
VERB, NOUN, PLURAL = 0.35, 0.2, 0.1
"""From this share of its places on a word is a verb; under these shares it is no noun."""
LEAST_SHARE = 0.02
"""Of the servers: how common a noun is stands in the file from here on."""
_TOKEN = re.compile(r"[^\W_]+(?:'[a-z]+)?|[^\w\s]|\n")
_MARKS = frozenset(".\n!?:*-•")
_BEFORE_VERB = frozenset("to can will you that lets could should would must we they which not".split())
_BEHIND_VERB = frozenset("the a an your you it any all this these their its up out one multiple specific".split())
_BEHIND_NOUN = frozenset(
    "of for in and or with from on by at via into is are was were has have than within using based between".split()
)


@dataclass
class Places:
    """Of each term, how often it stands anywhere, where verbs do, at the end of a phrase, and in the plural."""

    all: Counter[str] = field(default_factory=Counter)
    verb: Counter[str] = field(default_factory=Counter)
    end: Counter[str] = field(default_factory=Counter)
    plural: Counter[str] = field(default_factory=Counter)
    servers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def read_text(self, text: str, server: str) -> None:
        tokens = _TOKEN.findall(text)
        words = [".", *(token.casefold() for token in tokens), "."]
        for token, before, behind in zip(tokens, words, words[2:], strict=False):
            is_verb = before in _MARKS or before in _BEFORE_VERB or behind in _BEHIND_VERB
            self._count(token, server, is_verb=is_verb, is_end=not behind[0].isalnum() or behind in _BEHIND_NOUN)

    def read_name(self, name: str, server: str) -> None:
        """Of a tool: `createIssue`."""
        parts = [each for each in re.split(r"[\W_]+", CAMEL.sub(" ", name)) if each]
        for at, part in enumerate(parts if len(parts) > 1 else ()):
            self._count(part, server, is_verb=at == 0, is_end=at == len(parts) - 1)

    def _count(self, token: str, server: str, *, is_verb: bool, is_end: bool) -> None:
        for term, word in telling_words(token) if token.isascii() and token[0].isalpha() else ():
            self.all[term] += 1
            self.servers[term].add(server)
            self.verb[term] += is_verb
            self.end[term] += is_end and not is_verb
            self.plural[term] += word.endswith("s") and not word.endswith("ss") and not is_verb

    def is_verb(self, term: str) -> bool:
        return self.verb[term] >= VERB * self.all[term]

    def is_noun(self, term: str) -> bool:
        return self.end[term] >= NOUN * self.all[term] or self.plural[term] >= PLURAL * self.all[term]


def count_places(lines: Iterable[str]) -> Places:
    """`lines`: an agent with its tools as JSON each."""
    places = Places()
    for agent in map(json.loads, lines):
        places.read_text(agent.get("description") or "", agent["id"])
        for tool in agent.get("tools", ()):
            places.read_text(tool.get("description") or "", agent["id"])
            places.read_name(tool["name"], agent["id"])
    return places


def word_lists(places: Places) -> dict[str, Any]:
    terms = sorted(term for term, servers in places.servers.items() if len(servers) >= FEWEST_SERVERS)
    servers = len(set[str]().union(*places.servers.values()))
    verbs = [term for term in terms if places.is_verb(term)]
    qualifiers = [term for term in terms if not places.is_verb(term) and not places.is_noun(term)]
    shares = {term: round(len(places.servers[term]) / servers, 3) for term in _nouns(terms, places)}
    return {
        "origin": "stems of TheAgentArk/Toucan (MIT) by `python -m benchmarks.noun_words`",
        "verbs": " ".join(verbs),
        "qualifiers": " ".join(qualifiers),
        "nouns": {term: share for term, share in shares.items() if share >= LEAST_SHARE},
    }


def _nouns(terms: Iterable[str], places: Places) -> Iterator[str]:
    return (term for term in terms if places.is_noun(term) and not places.is_verb(term))


if __name__ == "__main__":
    with (data_folder(os.environ) / SOURCE).open(encoding="utf-8") as file:
        lists = word_lists(count_places(file))
    TARGET.write_text(json.dumps(lists) + "\n", encoding="utf-8")
    print(f"{TARGET}: {', '.join(f'{len(value)} {name}' for name, value in lists.items())}", file=sys.stderr)
