"""What the commands of the lab print as JSON. Each function is one shape of docs/json-output.schema.json."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.shapes import Shape

if TYPE_CHECKING:
    from waygraph_lab.evaluation import compare as evaluation
    from waygraph_lab.evaluation.compare import Changed, Difference, Side
    from waygraph_lab.evaluation.estimate import CostEstimate
    from waygraph_lab.evaluation.record import Record
    from waygraph_lab.scalemcp.generate import Generated


def card_json(card: Mapping[str, Any]) -> Shape:
    return dict(card)


def generation_json(made: "Generated") -> Shape:
    return {
        "folder": str(made.folder),
        "companies": made.companies,
        "agents": made.agents,
        "tools": made.tools,
        "queries": made.queries,
        "daily": made.daily,
        "mean_gold_tools": made.mean_gold_tools,
        "daily_mean_gold_tools": made.daily_mean_gold_tools,
        "checksum": made.checksum,
    }


def evaluation_json(record: "Record") -> Shape:
    """As the record has it, without its queries."""
    return dict(record)


def estimates_json(estimates: "Iterable[CostEstimate]") -> Shape:
    from waygraph_lab.evaluation.estimate import HOW

    return {"estimates": [asdict(each) for each in estimates], "how": HOW}


def tables(found: "Iterable[evaluation.Table]") -> Shape:
    return {"tables": [asdict(each) for each in found]}


def plots_json(paths: "Iterable[Path]") -> Shape:
    return {"drawn": [str(path) for path in paths]}


def differences(found: "Iterable[Difference]") -> Shape:
    return {"differences": [_difference(each) for each in found]}


def _difference(found: "Difference") -> Shape:
    return {
        "name": found.name,
        "metric": found.metric,
        "queries": found.queries,
        "a": found.one,
        "b": found.other,
        "p": found.p,
        "won": found.wins,
        "lost": found.losses,
        "changed": [_changed_query(each) for each in found.changed],
    }


def _changed_query(query: "Changed") -> Shape:
    return {
        "id": query.id,
        "text": query.text,
        "gold": [sorted(item) for item in query.gold],
        "a": _side(query.one),
        "b": _side(query.other),
    }


def _side(side: "Side") -> Shape:
    return {"value": side.value, "agents": list(side.agents), "votes": dict(side.votes)}
