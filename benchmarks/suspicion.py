"""How many agents and tools of real catalogues are flagged as suspicious, each of them named, and what looking costs.

None of these catalogues is known to hold an attack, so that a flag is to be taken for a false one until somebody has
read the text.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.record import PROJECT, Measure, Result
from benchmarks.world import World
from waygraph.ingest.manifest.poisoning import agent_flags, tool_flags
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.plan import plan
from waygraph.registry.graph.read import Held
from waygraph.registry.model.changes import AgentEntry, Manifest

NAME = "suspicion"
IN_DATA = (
    "livemcpbench/tools.json", "catalogs/docker_mcp_registry.json", "catalogs/mcp_registry_seed.json",
    "catalogs/awesome_mcp.jsonl",
)  # fmt: skip
OWN = "examples/catalog"
ROUNDS = 5
NOTES = (
    "All catalogues in one registry, so that a tool's name counts wherever some other agent has it.",
    "The rules were written for examples of their own (tests/unit/test_suspicion.py), not for these catalogues.",
    "Processor time of the rules alone, over agents and tools that are all new; the median of five runs.",
)


@dataclass(frozen=True, slots=True)
class Corpus:
    name: str
    entries: tuple[AgentEntry, ...]

    @property
    def tools(self) -> int:
        return sum(len(entry.tools) for entry in self.entries)


def run(world: World) -> Result:
    """Skips the catalogues that are not there, and says so."""
    places = {OWN: PROJECT / OWN, **{name: world.data / name for name in IN_DATA}}
    missing = [name for name, place in places.items() if not place.exists()]
    corpora = [_read(name, place, world) for name, place in places.items() if place.exists()]
    flags = _flags(corpora)
    agents, tools = sum(len(each.entries) for each in corpora), sum(each.tools for each in corpora)
    measures = [
        measure
        for each in corpora
        for measure in (
            Measure(
                name=f"flagged of {len(each.entries)} agents and {each.tools} tools of {each.name}",
                value=len(flags[each.name]),
            ),
        )
    ]
    return Result(
        name=NAME,
        measures=[
            *measures,
            Measure(
                name=f"reading {agents} agents and {tools} tools", value=_seconds(corpora), unit="s of processor time"
            ),
        ],
        notes=(*NOTES, *(f"Not there, and left out: {name}." for name in missing)),
        details={"flagged": flags},
    )


def _read(name: str, place: Path, world: World) -> Corpus:
    manifests = read_path(str(place), world.settings)
    return Corpus(name, tuple(entry for manifest in manifests for entry in manifest.entries))


def _flags(corpora: Iterable[Corpus]) -> Mapping[str, Mapping[str, list[str]]]:
    """Corpus → id of an agent or tool → why it is flagged, all of them in one registry."""
    named = [
        (corpus.name, replace(entry, key=f"{corpus.name} {entry.key}"))
        for corpus in corpora
        for entry in corpus.entries
    ]
    changes = plan(Held(), Manifest(source=NAME, entries=tuple(entry for _, entry in named)))
    of_key = {entry.key: name for name, entry in named}
    found: dict[str, dict[str, list[str]]] = {name: {} for name in of_key.values()}
    for entry in changes.written:
        for each in entry.entities:
            if each.flags:
                found[of_key[entry.key]][each.id] = list(each.flags)
    return found


def _seconds(corpora: Iterable[Corpus]) -> float:
    entries = [entry for corpus in corpora for entry in corpus.entries]
    return median(_once(entries) for _ in range(ROUNDS))


def _of_others(names: Collection[str]) -> dict[str, set[str]]:
    """As if each name were that of another agent's tool."""
    return {name: {"another"} for name in names}


def _once(entries: Iterable[AgentEntry]) -> float:
    started = time.process_time()
    for entry in entries:
        agent_flags(entry.agent, _of_others)
        for tool in entry.tools:
            tool_flags(tool, _of_others)
    return time.process_time() - started
