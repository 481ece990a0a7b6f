"""What an evaluation found and what was generated or learned, laid out for people."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.api.cli.render.output import Block, Cell, Fields, Lines, Table
from waygraph.registry.model import shapes

if TYPE_CHECKING:
    from waygraph_lab.evaluation import compare as evaluation
    from waygraph_lab.evaluation.compare import Changed, Difference, Side
    from waygraph_lab.evaluation.estimate import CostEstimate
    from waygraph_lab.evaluation.record import Record
    from waygraph_lab.scalemcp.generate import Generated


def view_card(card: "Record") -> Iterator[Block]:
    """What became better and worse on the sets that the model was chosen by."""
    yield Fields((("pairs", card["pairs"]), ("strength", f"{card['strength']:g}")))
    yield _figures(card["figures"], ("strength",))


def view_ranker_card(card: "Record") -> Iterator[Block]:
    """What became better and worse on what the trees did not learn from."""
    told = ", ".join(f"{level} {strength:g}" for level, strength in card["strengths"].items())
    yield Fields((("version", card["version"] or "none"), ("lists", card["lists"]), ("strength", told)))
    yield _figures(card["figures"], ())


def view_layer_card(card: "Record") -> Iterator[Block]:
    """For which embedder a layer was learnt, from how many sentences, and from which score on it speaks."""
    yield Fields(tuple((name, str(value)) for name, value in card.items()))


def _figures(rows: Sequence["Record"], first: Sequence[str]) -> Table:
    return Table(
        columns=(*first, "data set", "by", "level", "metric", "queries", "base", "tuned", "gain", "95 % interval"),
        rows=[
            (
                *(f"{row[name]:g}" for name in first),
                *(row[name] for name in ("dataset", "by", "level", "metric", "queries")),
                *(f"{row[name]:.4f}" for name in ("base", "tuned")),
                f"{row['tuned'] - row['base']:+.4f}",
                f"{row['low']:+.4f} to {row['high']:+.4f}",
            )
            for row in rows
        ],
    )


def view_generation(made: "Generated") -> Iterator[Block]:
    yield Fields(
        (
            ("folder", str(made.folder)),
            ("companies", made.companies),
            ("agents", made.agents),
            ("tools", made.tools),
            ("queries", made.queries),
            ("daily sample", made.daily),
            ("tools a query", f"{made.mean_gold_tools:.2f}"),
            ("in the sample", f"{made.daily_mean_gold_tools:.2f}"),
            ("checksum", made.checksum),
        )
    )


SHOWN_METRICS = ("Recall@1", "Recall@5", "Recall@10", "nDCG@5", "mAP@5", "MRR@5", "Hit@5")


def view_evaluation(record: "Record") -> Iterator[Block]:
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
    if sets := [_set_row(outcome) for outcome in record["outcomes"] if outcome["sets"]]:
        yield Table(title="sets", columns=("recipe", "asked by", "failed", *SET_METRICS, *COSTS), rows=sets)


def view_estimates(estimates: "Sequence[CostEstimate]") -> Iterator[Block]:
    from waygraph_lab.evaluation.estimate import HOW

    names = [each.name for each in fields(estimates[0])]
    yield Table(
        columns=[name.replace("_", " ") for name in names],
        rows=[[getattr(each, name) for name in names] for each in estimates],
    )
    yield Lines(HOW)


SET_METRICS, COSTS = ("Hit", "Recall", "Precision"), ("Size", "Calls", "Tokens")


def _set_row(outcome: "Record") -> list[Cell]:
    values = [f"{outcome['sets'][name][0]:.3f}" for name in SET_METRICS]
    costs = [f"{outcome['sets'][name][0]:,.1f}" for name in COSTS]
    return [outcome["name"], outcome["by"], sum(outcome["failures"].values()), *values, *costs]


def agents_evaluated(record: "Record") -> Iterator[Block]:
    """Tool Correctness and Task Completion with what they cost, each model by each way of finding tools."""
    held = record["dataset"]
    yield Fields((("dataset", held["name"]), ("agents", held["agents"]), ("tools", held["tools"])))
    columns = (
        "row",
        "model",
        "retrieval",
        "surface",
        "noise",
        "tasks",
        "tool correctness",
        "gold coverage",
        "task completion",
    )
    costs = ("calls", "searches", "turns", "prompt_tokens", "completion_tokens", "seconds")
    endings = ("out of turns", "failed")
    rows: list[list[Cell]] = [
        [
            outcome["row"],
            outcome["model"],
            outcome["retrieval"],
            outcome["surface"],
            outcome["noise"],
            outcome["asked"],
            *(_score(outcome, name) for name in ("tool_correctness", "gold_coverage", "task_completion")),
            *(f"{outcome['costs'][name]:.1f}" for name in costs),
            *(outcome["endings"][name] for name in endings),
        ]
        for outcome in record["outcomes"]
    ]
    headings = (name.replace("_", " ") for name in costs)
    yield Table(columns=(*columns, *headings, *endings), rows=rows)


def _score(outcome: "Record", name: str) -> str:
    """The mean and its interval, and of several runs the standard deviation between them."""
    if name not in outcome["scores"]:
        return "not judged"
    mean, low, high = outcome["scores"][name]
    spread = f" ± {outcome['spread'][name]:.3f}" if name in outcome["spread"] else ""
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]{spread}"


def _outcome_row(outcome: "Record", level: str) -> list[Cell]:
    values = [f"{outcome[level][name][0]:.3f}" for name in SHOWN_METRICS]
    counts = [outcome["judged"], outcome["withheld"]] if level == "agents" else [outcome["judged_tools"]]
    return [outcome["name"], outcome["by"], *counts, *values, f"{outcome['p50_ms']:.2f}"]


def tables(found: "Iterable[evaluation.Table]") -> Iterator[Block]:
    """Markdown, whatever reads it."""
    from waygraph_lab.evaluation.compare import markdown

    yield Lines(markdown(found))


def view_plots(paths: "Iterable[Path]") -> Iterator[Block]:
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
                ("won", each.wins),
                ("lost", each.losses),
            )
        )
        lost = [query for query in each.changed if query.gain < 0][:limit]
        won = [query for query in reversed(each.changed) if query.gain > 0][:limit]
        for query in (*lost, *won):
            yield from _view_changes(query)


def _view_changes(query: "Changed") -> Iterator[Block]:
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


def numbers(noun: object) -> Iterator[Block]:
    """A noun of names and numbers; what it counts by names is in one line."""

    def cell(value: object) -> Cell:
        if isinstance(value, dict):
            return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in value.items())
        return f"{value:.3g}" if isinstance(value, float) else None if value is None else str(value)

    yield Fields([(name.replace("_", " "), cell(value)) for name, value in shapes.shape(noun).items()])
