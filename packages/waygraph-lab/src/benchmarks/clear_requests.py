"""How often a request is clear enough that use_tool runs a tool for it, and how often that is a right one."""

from collections.abc import Mapping
from typing import Any

from benchmarks.record import Measure, Result
from benchmarks.world import EXAMPLES, NATURAL, World, show_progress
from waygraph.registry.catalog.resolve import CLEAR_LEAD, tool_meant
from waygraph.registry.model.errors import AmbiguousTool, UnknownName
from waygraph.registry.registry import Registry
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, By

NAME = "clear_requests"
ASKED: tuple[tuple[str, By], ...] = ((EXAMPLES, "questions"), ("livemcpbench", "steps"), (NATURAL, "questions"))
NOTES = (
    "A request is clear if one tool is first by meaning and first by words and its score leads by "
    f"{CLEAR_LEAD:.0%}. The rule was chosen on the examples alone; the other sets had no part in it.",
    "Right: the tool is one of those that the data set names for the request. `first is right` is how often the best "
    "match of find_tools is, whether or not it is clear: what a gateway that always runs the best would do.",
    "Whether a policy lets the tool run is not asked: what may destroy never runs for a request.",
)


def run(world: World) -> Result:
    """Skips the data sets that are not there."""
    rows = [row(world, name, by) for name, by in ASKED if world.has(name)]
    fingerprint = world.embedder(world.spec).fingerprint
    return Result(
        name=world.record_name(NAME, fingerprint),
        embedder=fingerprint,
        measures=[measure for each in rows for measure in _measures(each)],
        notes=NOTES,
        details={"rows": rows},
    )


def row(world: World, name: str, by: By) -> dict[str, Any]:
    dataset = world.dataset(name)
    asked = [each for each in dataset.queries(by) if each.gold_tools]
    told = show_progress(f"{name}, {by}")
    clear = right = first = 0
    with world.registry_of([dataset.catalogue], texts="contextual", embedder=world.spec) as registry:
        for done, each in enumerate(asked, start=1):
            meant = clearly_meant(registry, each)
            clear += bool(meant)
            right += meant in right_tools(each)
            first += best(registry, each) in right_tools(each)
            told(done, len(asked))
    return {
        "data": name,
        "by": by,
        "requests": len(asked),
        "clear": round(clear / len(asked), 4),
        "right of the clear": round(right / clear, 4) if clear else None,
        "first is right": round(first / len(asked), 4),
    }


def clearly_meant(registry: Registry, asked: Asked) -> str:
    """The tool's id; empty: the request is not clear."""
    try:
        return tool_meant(registry, query=asked.texts[0]).id
    except (AmbiguousTool, UnknownName):
        return ""


def best(registry: Registry, asked: Asked) -> str:
    matches = registry.find_tools(asked.texts[0], limit=1).matches
    return matches[0].tool.id if matches else ""


def right_tools(asked: Asked) -> frozenset[str]:
    return frozenset().union(*asked.gold_tools)


def tables_of(details: Mapping[str, Any]) -> str:
    rows = details["rows"]
    return f"Requests that mean one tool:\n\n{markdown_table(tuple(rows[0]), [tuple(row.values()) for row in rows])}"


def _measures(told: Mapping[str, Any]) -> list[Measure]:
    name = f"{told['data']}, {told['by']}"
    right = told["right of the clear"]
    clear = [Measure(name=f"{name}: requests that are clear", value=told["clear"])]
    return clear if right is None else [*clear, Measure(name=f"{name}: right of the clear", value=right)]
