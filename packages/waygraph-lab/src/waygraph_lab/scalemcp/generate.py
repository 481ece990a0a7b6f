"""Writes the benchmark as a dataset folder, which `waygraph eval` reads."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from waygraph.registry.model.errors import InvalidDataset
from waygraph_lab.datasets.conversations import AGENTS, checksum
from waygraph_lab.datasets.folder import QUERIES, SERVERS
from waygraph_lab.datasets.output_folder import own_folder, write_about, write_lines
from waygraph_lab.scalemcp.companies import (
    KINDS,
    MOST_QUESTIONS,
    Company,
    Kind,
    Layout,
    agent_key,
    agents,
    read_yaml,
    tool_key,
)

# Queries over companies: base queries, and as many instances of them as are wanted, the same for the same seed.
#
# A file of base_queries/ is a list of groups: `tools`, and `texts`, one a line. `{1}`, `{2}` … stand for companies,
# `{1-4}` for a list of four. What is right for a query is every tool of its group for every company; where `tools` is a
# mapping from a company's number, those tools for that company.


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

    def fill_names(self, calls: Sequence[str]) -> str:
        """The text with what each company is called, the first as number 1."""

        def name_at(place: re.Match[str]) -> str:
            first, last = int(place[1]), int(place[2] or place[1])
            return join_names(calls[first - 1 : last])

        return _PLACE.sub(name_at, self.text)


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
        yield f"{base.id}.{at + 1}", base.fill_names(calls), gold


def _of_file(kind: Kind) -> Iterator[BaseQuery]:
    number = 0
    for group in read_yaml(f"base_queries/{kind}.yaml"):
        for text in group["texts"].splitlines():
            number += 1
            yield BaseQuery(id=f"{kind}-{number:03}", text=text, tools=_tools(group["tools"], text))


def _tools(told: Mapping[str, Sequence[Kind]] | Sequence[Kind], text: str) -> dict[int, tuple[Kind, ...]]:
    places = [(int(first), int(last or first)) for first, last in _PLACE.findall(text)]
    numbers = sorted({number for first, last in places for number in range(first, last + 1)})
    return {number: tuple(told[str(number)] if isinstance(told, Mapping) else told) for number in numbers}


def join_names(names: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _random(seed: int, what: str) -> Random:
    return Random(f"{seed} {what}")  # noqa: S311 - not a secret


SEED = 20_250_509
DAILY_SPLIT, OTHER_SPLIT = "daily", "rest"
ORIGIN = (
    "Made by `waygraph generate scalemcp`: the tools and the sizes of ScaleMCP (Lumer et al., 2025), with companies of "
    "the user's list, and with queries and questions of this project."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What can be chosen. `questions` a tool, 0 to 10; `daily_only` leaves out all queries but the daily sample."""

    layout: Layout = "tools"
    questions: int = MOST_QUESTIONS
    seed: int = SEED
    instances: int = INSTANCES
    daily_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What was written. `mean_gold_tools` is over the queries written, `daily_mean_gold_tools` over the sample."""

    folder: Path
    companies: int
    agents: int
    tools: int
    queries: int
    daily: int
    mean_gold_tools: float
    daily_mean_gold_tools: float
    checksum: str


def generate(folder: Path, companies: Sequence[Company], choices: Choices) -> Generated:
    """Writes agents.jsonl, queries.jsonl and dataset.json, the same bytes for the same companies and choices.

    Raises InvalidDataset for too few companies, or a folder that holds something else or cannot be written.
    """
    asked = [
        query
        for query in instances(companies, seed=choices.seed, count=choices.instances)
        if query.daily or not choices.daily_only
    ]
    files = (AGENTS, QUERIES, SERVERS)
    with own_folder(folder, files, _about(choices, "")):
        shown = write_lines(folder / AGENTS, agents(companies, choices.layout, choices.questions))
        write_lines(folder / QUERIES, _queries(asked, choices.layout))
        seen = checksum([folder / AGENTS, folder / QUERIES])
        write_about(folder, _about(choices, seen))
    sizes = [len(query.gold) for query in asked]
    daily = [len(query.gold) for query in asked if query.daily]
    return Generated(
        folder=folder,
        companies=len(companies),
        agents=shown,
        tools=len(companies) * len(KINDS),
        queries=len(asked),
        daily=len(daily),
        mean_gold_tools=fmean(sizes),
        daily_mean_gold_tools=fmean(daily),
        checksum=seen,
    )


def _queries(asked: Iterable[Instance], layout: Layout) -> Iterator[dict[str, Any]]:
    for query in asked:
        yield {
            "id": query.id,
            "text": query.text,
            "gold": [[key] for key in dict.fromkeys(agent_key(*right, layout) for right in query.gold)],
            "gold_tools": [[tool_key(*right, layout)] for right in query.gold],
            "split": DAILY_SPLIT if query.daily else OTHER_SPLIT,
        }


def _about(choices: Choices, seen: str) -> dict[str, Any]:
    return {
        "name": "ScaleMCP",
        "origin": ORIGIN,
        "license": "Apache-2.0; the list of companies is the user's",
        "checksum": seen,
        "made_with": {
            "layout": choices.layout,
            "questions": choices.questions,
            "seed": choices.seed,
            "instances": choices.instances,
            "daily_only": choices.daily_only,
        },
    }
