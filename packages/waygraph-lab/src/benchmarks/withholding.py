"""How often a strict answer is right to withhold: every request with all its right agents there, without one of them,
and without all of them; in the whole catalogue and in one of few agents.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

from benchmarks.abstention import MOST, SEED
from benchmarks.families import FAMILIES
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World, show_progress
from waygraph.registry.model.nouns import Filters, Query
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import HYBRID
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, By

NAME = "withholding"
LEAST_RIGHT = 0.9
FEW = 13
"""Agents of a small registry."""
ALL = "all"
NOTES = (
    "Each request is asked strictly by the default recipe three times: with all its right agents there, without the "
    "one that comes first, and without any. Of large datasets 300 requests are drawn, as in `abstention`.",
    f"`agents`: the whole catalogue, or {FEW} agents: the right ones and others drawn by a seed.",
    "Withholding is right if no right agent is left. `right`: the share of right ones among all withheld answers; "
    "`at least`: the lower end of its 95 % interval (Wilson). `answerable lost`: the share withheld of the answers "
    "that have a right agent among the first 5. `unanswerable withheld`: of the requests without a right agent.",
    f"A default may withhold only if it is right in {LEAST_RIGHT:.0%} of the cases, at the lower end. The recipe was "
    "calibrated on these very datasets: on others it errs more often.",
)


def run(world: World) -> Result:
    asked = [each for of_family in FAMILIES.values() for each in of_family if world.has(each[0])]
    rows = [each for name, by in asked for each in rows_of(world, name, by)]
    rows += [_total([each for each in rows if each["agents"] == size]) for size in (ALL, FEW)]
    rows.append(_total(rows[-2:]))
    fingerprint = world.embedder().fingerprint
    calibration = HYBRID.calibration(fingerprint)
    target = Target(bound="at_least", value=LEAST_RIGHT)
    measures = [
        Measure(
            name=f"withholding among {each['agents']} agents: right at least",
            value=value,
            target=target,
        )
        for each in rows[-3:]
        if (value := each["at least"]) is not None
    ]
    return Result(
        name=NAME,
        embedder=fingerprint,
        measures=measures,
        notes=NOTES,
        details={"rows": rows, "least": calibration and calibration.least},
    )


def rows_of(world: World, name: str, by: By) -> Iterator[dict[str, Any]]:
    """Counts of one dataset and the shares made of them: of the whole catalogue, and of few agents."""
    dataset = world.dataset(name)
    asked = dataset.queries(by)
    chosen = random.Random(SEED).sample(asked, min(MOST, len(asked)))  # noqa: S311 - no secret
    progress = show_progress(f"{name}, {by}")
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        agents = [agent.id for agent in registry.agents()]
        for size in (ALL, FEW):
            counts = dict.fromkeys(("right withheld", "wrong withheld", "answerable", "lost", "unanswerable"), 0)
            for done, need in enumerate(chosen, start=1):
                among = agents if size == ALL else few_agents(agents, need)
                for withheld, is_answerable, is_right in answers(registry, among, need):
                    counts["answerable" if is_answerable else "unanswerable"] += 1
                    counts["lost"] += withheld and is_right
                    counts["wrong withheld" if is_answerable else "right withheld"] += withheld
                progress(done, len(chosen))
            yield _shares({"data": name, "by": by, "agents": size, "requests": len(chosen), **counts})


def few_agents(agents: Sequence[str], need: Asked) -> Sequence[str]:
    """The right ones, and others drawn by a seed."""
    right = frozenset().union(*need.gold)
    others = [agent for agent in agents if agent not in right]
    drawn = random.Random(f"{SEED} {need.texts[0]}").sample(others, max(0, FEW - len(right)))  # noqa: S311 - no secret
    return [agent for agent in agents if agent in right or agent in set(drawn)]


def answers(registry: Registry, agents: Sequence[str], need: Asked) -> Iterator[tuple[bool, bool, bool]]:
    """Whether it was withheld, whether a right agent was there, and whether the answer would have named one."""
    right = frozenset().union(*need.gold)
    first = next((agent for agent in _find(registry, need, tuple(agents)) if agent in right), min(right))
    for left_out in dict.fromkeys((frozenset(), frozenset({first}), right)):
        there = right - left_out
        allowed = tuple(agent for agent in agents if agent not in left_out)
        found = _find(registry, need, allowed)
        strict = registry.route(Query(text=need.texts[0], filters=Filters(agent_ids=allowed), strict=True))
        yield not strict.matches, bool(there.intersection(agents)), not there.isdisjoint(found)


def _find(registry: Registry, need: Asked, allowed: tuple[str, ...]) -> list[str]:
    query = Query(text=need.texts[0], filters=Filters(agent_ids=allowed))
    return [match.agent.id for match in registry.route(query).matches]


def _total(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over all datasets, each request as much as the next."""
    names = ("requests", "right withheld", "wrong withheld", "answerable", "lost", "unanswerable")
    sizes = {row["agents"] for row in rows}
    size = sizes.pop() if len(sizes) == 1 else "both"
    return _shares(
        {"data": "all", "by": "", "agents": size, **{name: sum(row[name] for row in rows) for name in names}}
    )


def _shares(counts: dict[str, Any]) -> dict[str, Any]:
    withheld = counts["right withheld"] + counts["wrong withheld"]
    return counts | {
        "right": round(counts["right withheld"] / withheld, 4) if withheld else None,
        "at least": round(wilson_bound(counts["right withheld"], withheld), 4) if withheld else None,
        "answerable lost": round(counts["lost"] / counts["answerable"], 4),
        "unanswerable withheld": round(counts["right withheld"] / counts["unanswerable"], 4),
    }


def wilson_bound(right: int, of: int, z: float = 1.96) -> float:
    """The lower end of the 95 % interval of a share. Source: Wilson (1927)."""
    share = right / of
    middle = share + z * z / (2 * of)
    return (middle - z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))) / (1 + z * z / of)


def tables_of(details: Mapping[str, Any]) -> str:
    columns = ("data", "by", "agents", "requests", "right", "at least", "answerable lost", "unanswerable withheld")
    rows = [tuple(row[name] for name in columns) for row in details["rows"]]
    return f"Strict answers that were withheld:\n\n{markdown_table(columns, rows)}"
