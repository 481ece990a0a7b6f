"""Queries over companies: base queries, and as many instances of them as are wanted, the same for the same seed.

A file of base_queries/ is a list of groups: `tools`, and `texts`, one a line. `{1}`, `{2}` … stand for companies,
`{1-4}` for a list of four. What is right for a query is every tool of its group for every company; where `tools` is a
mapping from a company's number, those tools for that company.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from waygraph.ingest.datasets.scalemcp.companies import Company
from waygraph.ingest.datasets.scalemcp.data import read_yaml
from waygraph.ingest.datasets.scalemcp.tools import KINDS, Kind
from waygraph.registry.errors import InvalidDataset

INSTANCES = 140_000
DAILY = 2_000
"""Table 1 of the paper; and how many of them are a sample for every day."""
_PLACE = re.compile(r"\{(\d+)(?:-(\d+))?\}")
_CALLS = (0, 0, 1, 2)
"""A company is called by its name twice as often as by its ticker, and as by its alias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseQuery:
    """`tools`: company number → the tools that are right."""

    id: str
    text: str
    tools: Mapping[int, tuple[Kind, ...]]

    def told(self, calls: Sequence[str]) -> str:
        """The text with what each company is called, the first as number 1."""

        def named(place: re.Match[str]) -> str:
            first, last = int(place[1]), int(place[2] or place[1])
            return _listed(calls[first - 1 : last])

        return _PLACE.sub(named, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A query of the benchmark. `daily`: it is in the sample."""

    id: str
    text: str
    gold: tuple[tuple[Company, Kind], ...]
    daily: bool


@cache
def base_queries() -> tuple[BaseQuery, ...]:
    """All of them, by the tool whose file they are in."""
    return tuple(query for kind in KINDS for query in _of_file(kind))


def instances(
    companies: Sequence[Company], *, seed: int, count: int = INSTANCES, daily: int = DAILY
) -> Iterator[Instance]:
    """`count` queries, of each base query as many as of the next (one more of the first ones).

    Each begins with another company until all had their turn. Raises InvalidDataset for too few companies.
    """
    bases = base_queries()
    widest = max(len(base.tools) for base in bases)
    if len(companies) < widest:
        raise InvalidDataset("the list of companies", f"has {len(companies)}, a query may need {widest}")
    sample = set(_random(seed, "daily").sample(range(count), min(daily, count)))
    share, rest = divmod(count, len(bases))
    number = 0
    for at, base in enumerate(bases):
        for each in _instances_of(base, companies, share + (at < rest), seed):
            name, text, gold = each
            yield Instance(id=name, text=text, gold=gold, daily=number in sample)
            number += 1


def _instances_of(
    base: BaseQuery, companies: Sequence[Company], count: int, seed: int
) -> Iterator[tuple[str, str, tuple[tuple[Company, Kind], ...]]]:
    """Id, text and gold of each."""
    chance = _random(seed, base.id)
    leads = chance.sample(companies, len(companies))
    for at in range(count):
        lead = leads[at % len(leads)]
        others = [company for company in chance.sample(companies, len(base.tools)) if company is not lead]
        chosen = [lead, *others][: len(base.tools)]
        calls = [company.calls[chance.choice(_CALLS)] for company in chosen]
        gold = tuple((chosen[number - 1], kind) for number, kinds in base.tools.items() for kind in kinds)
        yield f"{base.id}.{at + 1}", base.told(calls), gold


def _of_file(kind: Kind) -> Iterator[BaseQuery]:
    number = 0
    for group in read_yaml(f"base_queries/{kind}.yaml"):
        for text in group["texts"].splitlines():
            number += 1
            yield BaseQuery(id=f"{kind}-{number:03}", text=text, tools=_tools(group["tools"], text))


def _tools(told: Mapping[int, Sequence[Kind]] | Sequence[Kind], text: str) -> dict[int, tuple[Kind, ...]]:
    places = [(int(first), int(last or first)) for first, last in _PLACE.findall(text)]
    numbers = sorted({number for first, last in places for number in range(first, last + 1)})
    kinds = told if isinstance(told, Mapping) else dict.fromkeys(numbers, told)
    return {number: tuple(kinds[number]) for number in numbers}


def _listed(names: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _random(seed: int, what: str) -> Random:
    return Random(f"{seed} {what}")  # noqa: S311 - not a secret
