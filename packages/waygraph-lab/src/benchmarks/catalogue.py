"""Invented catalogues of any size, the same for the same seed: agents of 7 to 12 tools each, every text distinct."""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

SEED = 20_240_607
MIN_TOOLS, MAX_TOOLS = 7, 12


@dataclass(frozen=True, slots=True)
class Domain:
    """`objects` are what its tools act on, `settings` where or for whom."""

    name: str
    objects: Sequence[str]
    settings: Sequence[str]


@dataclass(frozen=True, slots=True)
class Action:
    """`verb` names tools; `phrases` begin their descriptions, `{}` standing for the object; `asks` begin requests."""

    verb: str
    phrases: Sequence[str]
    asks: Sequence[str]


_WORDS: Mapping[str, Any] = json.loads(Path(__file__).with_name("vocabulary.json").read_bytes())
DOMAINS = tuple(Domain(**domain) for domain in _WORDS["domains"])
ACTIONS = tuple(Action(**action) for action in _WORDS["actions"])
BRANDS, QUALIFIERS, DETAILS = _WORDS["brands"], _WORDS["qualifiers"], _WORDS["details"]
PARAMETERS: Mapping[str, Sequence[str]] = _WORDS["parameters"]
"""Name of a parameter → its JSON type and description."""


def catalogue(tools: int, seed: int = SEED) -> dict[str, Any]:
    """A catalogue document (`waygraph: 1`) of exactly `tools` tools, at least 7."""
    return {"waygraph": 1, "agents": list(all_agents(tools, seed))}


def all_agents(tools: int, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """The agents of `catalogue`, one by one: for catalogues that are too large for memory."""
    return _Author(random.Random(seed)).agents(tools)  # noqa: S311 - not a secret


def requests(count: int, seed: int = SEED) -> list[str]:
    """Distinct requests as people write them, of about 6 to 25 words."""
    return list(islice(all_requests(seed), count))


def steps(count: int, seed: int = SEED) -> list[str]:
    """Distinct steps as a model writes them that splits a task: 3 to 10 words, half of them at most 6.

    So long are LiveMCPBench's steps.
    """
    return list(islice(all_steps(seed), count))


def all_requests(seed: int = SEED) -> Iterator[str]:
    """As `requests`, without end: hundreds of thousands are distinct."""
    return _Author(random.Random(seed + 1)).requests()  # noqa: S311 - not a secret


def all_steps(seed: int = SEED) -> Iterator[str]:
    """As `steps`, without end."""
    return _Author(random.Random(seed + 2)).steps()  # noqa: S311 - not a secret


@dataclass
class _Author:
    """Writes, and never writes the same text twice."""

    chance: random.Random
    written: set[str] = field(default_factory=set)

    def agents(self, tools: int) -> Iterator[dict[str, Any]]:
        for number, size in enumerate(self._sizes(tools), start=1):
            yield self._agent(number, size)

    def requests(self) -> Iterator[str]:
        while True:
            yield self._distinct(self._request)

    def steps(self) -> Iterator[str]:
        while True:
            yield self._distinct(self._step)

    def _sizes(self, tools: int) -> Iterator[int]:
        """Numbers from 7 to 12 that add up to `tools` (a catalogue of 13 tools has one agent of 13)."""
        left = tools
        while left:
            rest_can_be = [
                s for s in range(MIN_TOOLS, MAX_TOOLS + 1) if left - s in {0, *range(7, 13)} or left - s > 13
            ]
            size = self.chance.choice(rest_can_be or [left])
            yield size
            left -= size

    def _agent(self, number: int, size: int) -> dict[str, Any]:
        domain = self.chance.choice(DOMAINS)
        setting = self.chance.choice(domain.settings)
        brand = self.chance.choice(BRANDS)
        pairs = [(action, thing) for action in ACTIONS for thing in domain.objects]
        chosen = self.chance.sample(pairs, size)
        style = self.chance.choice((_snake, _kebab, _camel))
        return {
            "id": f"{brand}-{_kebab(domain.name)}-{number}",
            "name": f"{brand.title()} {domain.name.title()}",
            "description": self._distinct(lambda: self._profile(brand, domain, setting, [t for _, t in chosen])),
            "tags": [_kebab(domain.name)],
            "tools": [
                self._tool(domain, setting, action, thing, style(f"{action.verb} {thing}")) for action, thing in chosen
            ],
        }

    def _profile(self, brand: str, domain: Domain, setting: str, things: list[str]) -> str:
        named = ", ".join(dict.fromkeys(self.chance.sample(things, 3)))
        other = self.chance.choice(domain.settings)
        return f"{brand.title()} helps with {domain.name} for {setting} and {other}: {named} and more."

    def _tool(self, domain: Domain, setting: str, action: Action, thing: str, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "description": self._distinct(lambda: self._description(domain, setting, action, thing)),
            "inputSchema": self._schema(thing),
        }

    def _description(self, domain: Domain, setting: str, action: Action, thing: str) -> str:
        """8 to 40 words."""
        begun = _with_article(self.chance.choice(action.phrases).format(f"{self.chance.choice(QUALIFIERS)} {thing}"))
        place = self.chance.choice((setting, self.chance.choice(domain.settings)))
        sentences = [f"{begun} in {domain.name}, made for {place}"]
        sentences += self.chance.sample(DETAILS, self.chance.randint(0, 2))
        if len(sentences) < 3 and self.chance.random() < 0.4:
            other = self.chance.choice(domain.objects)
            sentences.append(f"Belongs to the same {other} as its {self.chance.choice(QUALIFIERS)} neighbours")
        return ". ".join(sentences) + "."

    def _schema(self, thing: str) -> dict[str, Any]:
        chosen = self.chance.sample(sorted(PARAMETERS), self.chance.randint(0, 5))
        own = f"{_snake(thing)}_id"
        properties = {own: {"type": "string", "description": f"Identifier of the {thing}"}}
        for name in chosen:
            kind, told = PARAMETERS[name]
            properties[name] = {"type": kind, "description": told}
        return {"type": "object", "properties": properties, "required": [own]}

    def _request(self) -> str:
        domain = self.chance.choice(DOMAINS)
        action, thing = self.chance.choice(ACTIONS), self.chance.choice(domain.objects)
        asked = f"{self.chance.choice(action.asks)} {self.chance.choice(QUALIFIERS)} {thing}"
        told = _with_article(f"{asked} for {self.chance.choice(domain.settings)}")
        match self.chance.randint(0, 3):
            case 0:
                return f"{told}, please"
            case 1:
                return f"I work in {domain.name}: {told} and tell {self.chance.choice(BRANDS).title()} when it is done"
            case 2:
                return f"can you {told} before {self.chance.randint(2, 11)} o'clock?"
            case _:
                return f"{told}. {self.chance.choice(DETAILS).lower()}, if that can be had"

    def _step(self) -> str:
        domain = self.chance.choice(DOMAINS)
        ask, thing = self.chance.choice(self.chance.choice(ACTIONS).asks), self.chance.choice(domain.objects)
        match self.chance.randint(0, 2):
            case 0:
                told = f"{ask} {thing}"
            case 1:
                told = f"{ask} {self.chance.choice(QUALIFIERS)} {thing}"
            case _:
                told = f"{ask} {self.chance.choice(QUALIFIERS)} {thing} for {self.chance.choice(domain.settings)}"
        return _with_article(told)

    def _distinct(self, write: Callable[[], str]) -> str:
        while (text := write()) in self.written:
            pass
        self.written.add(text)
        return text


def _with_article(text: str) -> str:
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)


def _snake(words: str) -> str:
    return words.lower().replace("-", "_").replace(" ", "_")


def _kebab(words: str) -> str:
    return words.lower().replace("_", "-").replace(" ", "-")


def _camel(words: str) -> str:
    first, *others = words.replace("-", " ").split()
    return first.lower() + "".join(word.capitalize() for word in others)
