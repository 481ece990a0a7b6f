"""Writes the benchmark as a dataset folder, which `waygraph eval` reads."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from waygraph.ingest.datasets.folder import ABOUT, AGENTS, QUERIES
from waygraph.ingest.datasets.gold import checksum
from waygraph.ingest.datasets.scalemcp.companies import Company
from waygraph.ingest.datasets.scalemcp.queries import INSTANCES, Instance, instances
from waygraph.ingest.datasets.scalemcp.tools import KINDS, MOST_QUESTIONS, Layout, agent_key, agents, tool_key
from waygraph.registry.errors import InvalidDataset

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
    try:
        _refuse_other_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _write_about(folder, choices, "")  # first, so that what is cut short is known for ours
        shown = _write_lines(folder / AGENTS, agents(companies, choices.layout, choices.questions))
        _write_lines(folder / QUERIES, _queries(asked, choices.layout))
        seen = checksum([folder / AGENTS, folder / QUERIES])
        _write_about(folder, choices, seen)
    except OSError as error:
        raise InvalidDataset(str(folder), f"cannot be written: {error}") from error
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


def _refuse_other_folder(folder: Path) -> None:
    strange = {path.name for path in folder.iterdir()} - {AGENTS, QUERIES, ABOUT} if folder.is_dir() else set()
    if strange:
        raise InvalidDataset(str(folder), f"holds {', '.join(sorted(strange)[:3])}: give a folder of its own")
    if folder.is_dir() and any(folder.iterdir()) and not _is_ours(folder / ABOUT):
        raise InvalidDataset(str(folder), "holds a dataset that was not made here: give a folder of its own")


def _is_ours(about: Path) -> bool:
    try:
        told = json.loads(about.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return False
    return isinstance(told, Mapping) and told.get("origin") == ORIGIN


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """How many there were."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def _queries(asked: Iterable[Instance], layout: Layout) -> Iterator[dict[str, Any]]:
    for query in asked:
        yield {
            "id": query.id,
            "text": query.text,
            "gold": [[key] for key in dict.fromkeys(agent_key(*right, layout) for right in query.gold)],
            "gold_tools": [[tool_key(*right, layout)] for right in query.gold],
            "split": DAILY_SPLIT if query.daily else OTHER_SPLIT,
        }


def _write_about(folder: Path, choices: Choices, seen: str) -> None:
    (folder / ABOUT).write_text(json.dumps(_about(choices, seen), indent=1) + "\n", encoding="utf-8")


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
