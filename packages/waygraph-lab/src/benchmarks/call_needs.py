"""Ids that a call requires, and the tool of the same server that gives them: how many such pairs are right.

`evals/call_needs/judged.jsonl` has pairs of public servers, at most two a server, drawn by a seed and judged by eye
from names and descriptions.
"""

import json
from collections.abc import Iterator

from benchmarks.record import IS_CLONE, NEEDS_CLONE, PROJECT, Measure, Result, Target
from benchmarks.world import World
from waygraph.registry.routing.needs import Givers, required_ids
from waygraph_lab.datasets.conversations import read_catalogue

NAME = "call_needs"
JUDGED = PROJECT / "evals" / NAME / "judged.jsonl"
CATALOGUES = ("training/toucan", "livemcpbench/tools.json", "catalogs/docker_mcp_registry.json")
LEAST_RIGHT = 0.9

type Pair = tuple[str, str, str, str]
"""Server, tool, argument, giver."""


def run(world: World) -> Result:
    """Skipped without a clone and the shared data."""
    if not IS_CLONE:
        return Result(name=NAME, skipped=NEEDS_CLONE)
    sources = [str(world.data / name) for name in CATALOGUES if (world.data / name).exists()]
    if not sources:
        return Result(name=NAME, skipped="none of the catalogues is among the shared data")
    pairs = [each for source in sources for each in find_pairs(world, source)]
    found = {pair: pair[-1] for pair in pairs}
    rights = [right for pair, right in read_judged() if pair in found]
    return Result(
        name=NAME,
        measures=[
            Measure(
                name="judged pairs that are right",
                value=sum(rights) / max(1, len(rights)),
                target=Target(bound="at_least", value=LEAST_RIGHT),
            ),
            Measure(name="judged pairs that are still found", value=len(rights)),
            Measure(name="pairs found", value=sum(bool(giver) for giver in found.values())),
            Measure(name="tools that require an id of something they name", value=len(found)),
        ],
        notes=("A pair whose giver is another one than was judged does not count.",),
    )


def find_pairs(world: World, source: str) -> Iterator[Pair]:
    """Each tool that requires an id, with its giver; empty: there is none."""
    for entry in read_catalogue(source, world.settings).entries:
        givers = Givers(entry.tools)
        for tool in entry.tools:
            if ids := required_ids(tool):
                need = givers.need_of(tool)
                yield entry.key, tool.name, need.argument if need else ids[0], need.tool.name if need else ""


def read_judged() -> Iterator[tuple[Pair, bool]]:
    for line in JUDGED.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield (record["agent"], record["tool"], record["argument"], record["giver"]), record["right"]
