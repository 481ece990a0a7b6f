"""What an evaluation found, laid out for people."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.blocks import Block, Cell, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.registry.evaluation import tables as evaluation
    from waygraph.registry.evaluation.difference import Changed, Difference, Side
    from waygraph.registry.evaluation.record import Record

SHOWN_METRICS = ("Recall@1", "Recall@5", "Recall@10", "nDCG@5", "mAP@5", "MRR@5", "Hit@5")


def evaluated(record: "Record") -> Iterator[Block]:
    held = record["dataset"]
    yield Fields(
        (
            ("dataset", held["name"]),
            ("agents", held["agents"]),
            ("tools", held["tools"]),
            ("embedder", ", ".join(dict.fromkeys(outcome["embedder"] or "none" for outcome in record["outcomes"]))),
        )
    )
    for level in ("agents", "tools"):
        rows = [_outcome_row(outcome, level) for outcome in record["outcomes"] if outcome[level]]
        counts = ("judged", "withheld") if level == "agents" else ("judged",)
        if rows:
            yield Table(title=level, columns=("recipe", "asked by", *counts, *SHOWN_METRICS, "p50 ms"), rows=rows)


def _outcome_row(outcome: "Record", level: str) -> list[Cell]:
    values = [f"{outcome[level][name][0]:.3f}" for name in SHOWN_METRICS]
    counts = [outcome["judged"], outcome["withheld"]] if level == "agents" else [outcome["judged_tools"]]
    return [outcome["name"], outcome["by"], *counts, *values, f"{outcome['p50_ms']:.2f}"]


def tables(found: "Iterable[evaluation.Table]") -> Iterator[Block]:
    """Markdown, whatever reads it."""
    from waygraph.registry.evaluation.tables import markdown

    yield Lines(markdown(found))


def drawn(paths: "Iterable[Path]") -> Iterator[Block]:
    yield Lines("\n".join(map(str, paths)))


def differences(found: "Iterable[Difference]", limit: int) -> Iterator[Block]:
    """Of each pair the sums, then the queries that changed most: lost ones first."""
    for each in found:
        yield Fields(
            (
                ("of", each.name),
                ("queries", each.queries),
                (f"{each.metric} of A", each.one),
                (f"{each.metric} of B", each.other),
                ("p", each.p),
                ("won", each.won),
                ("lost", each.lost),
            )
        )
        lost = [query for query in each.changed if query.gain < 0][:limit]
        won = [query for query in reversed(each.changed) if query.gain > 0][:limit]
        for query in (*lost, *won):
            yield from _changed(query)


def _changed(query: "Changed") -> Iterator[Block]:
    right = {agent for item in query.gold for agent in item}
    yield Lines(query.text, title=f"{query.id}: {query.one.value:.3f} to {query.other.value:.3f}")
    rows = [row for told, side in (("A", query.one), ("B", query.other)) for row in _side_rows(told, side, right)]
    yield Table(columns=("of", "rank", "agent", "right", "votes"), rows=rows)


def _side_rows(told: str, side: "Side", right: set[str]) -> Iterator[list[Cell]]:
    """The agents whose votes are kept."""
    for place, agent in enumerate(side.agents, start=1):
        if agent in side.votes:
            votes = [f"{leg} {rank} {part:.4f} {entity}" for leg, entity, rank, part in side.votes[agent]]
            yield [told, place, agent, agent in right, "; ".join(votes)]
