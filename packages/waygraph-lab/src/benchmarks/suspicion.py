"""How many attacks of a public corpus are found, and how many agents and tools of real catalogues are flagged.

None of the catalogues is known to hold an attack, so that a flag is to be taken for a false one until somebody has
read the text.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import IS_CLONE, NEEDS_CLONE, PROJECT, Measure, Result, Target
from benchmarks.suspicion_scores import NOTES as NOTES_ON_SCORES
from benchmarks.suspicion_scores import measure_scores
from benchmarks.world import World
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.manifest.suspicion.findings import examine
from waygraph.ingest.sync.plan import plan
from waygraph.registry.access.visibility import NEAR_COPY
from waygraph.registry.graph.read import GraphView, NamedTools, StoredAgent, StoredTool
from waygraph.registry.model.changes import AgentEntry, SourceSummary
from waygraph.registry.model.identity import sealed_agent, sealed_tool, tool_id
from waygraph.registry.model.nouns import NOTICE, Agent, Tool, canonical_json, suspicions
from waygraph_lab.datasets.conversations import read_catalogue

NAME = "suspicion"
IN_DATA = (
    "livemcpbench/tools.json", "catalogs/docker_mcp_registry.json", "catalogs/mcp_registry_seed.json",
    "catalogs/awesome_mcp.jsonl",
)  # fmt: skip
CORPUS = "suspicion/dev.jsonl"
PARAPHRASES = PROJECT / "evals" / "suspicion" / "paraphrases.jsonl"
"""Orders in other words and harmless look-alikes of our own; while the rules were chosen only misses of
one part were listed."""
OWN = "examples/catalog"
DOCUMENTS = ("docs/openapi.json", "examples/sources", "examples/natural_requests")
"""Documents and lists of servers that the tests read."""
SERVERS = "training/toucan"
"""Real MCP servers with tools, forks and the like among them."""
FOUND, FALSE = Target(bound="at_least", value=70.0), Target(bound="at_most", value=3.0)
ROUNDS = 5
NOTES = (
    "All catalogues in one registry, so that a tool's name counts wherever some other agent has it.",
    "The rules were written with all of the corpus's development part in sight, so that neither half of it is unseen. "
    "The two halves, split by a hash of the id, show how far chance goes; a part kept aside was never seen.",
    "Of the corpus, `frank` tools say what harm they do and give no order (a notice, no flag); `code` tools hide it "
    "in code that no description shows; neither counts among the attacks.",
    "Two texts of the catalogues that were flagged wrongly led to narrower rules; their figures are after that.",
    "Copies: 1,663 real MCP servers (Toucan), each a source of its own after those before it, under addresses made up. "
    "Near copies there are forks and double entries, no attacks; that a copy is suspected only if it takes free text "
    "that the original does not was decided on them, as 3.2 % of all tools are near copies.",
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
    if not IS_CLONE:
        return Result(name=NAME, skipped=NEEDS_CLONE)
    in_data = {name: world.data / name for name in (*IN_DATA, SERVERS)}
    places = {**{name: PROJECT / name for name in (OWN, *DOCUMENTS)}, **in_data}
    missing = [name for name, place in {**places, CORPUS: world.data / CORPUS}.items() if not place.exists()]
    corpora = {name: _read(name, place, world) for name, place in places.items() if place.exists()}
    marks = _flags(corpora.values())
    real = [each for name, each in corpora.items() if name in in_data]
    documents = [each for name, each in corpora.items() if name in DOCUMENTS]
    timed = [each for name, each in corpora.items() if name in (OWN, *IN_DATA)]
    agents, tools = sum(len(each.entries) for each in timed), sum(each.tools for each in timed)
    return Result(
        name=NAME,
        measures=[
            *_of_corpus(world.data / CORPUS),
            *_of_paraphrases(),
            *measure_scores(world, world.data / CORPUS),
            *_denials("real tools", real, marks),
            *_denials("tools of documents in the tests", documents, marks),
            *_of_copies(world.data / SERVERS / "agents.jsonl"),
            Measure(
                name=f"reading {agents} agents and {tools} tools", value=_seconds(timed), unit="s of processor time"
            ),
        ],
        notes=(*NOTES, *NOTES_ON_SCORES, *(f"Not there, and left out: {name}." for name in missing)),
        details={
            "denied": {
                name: {each: reasons for each, flags in of.items() if (reasons := suspicions(flags))}
                for name, of in marks.items()
            }
        },
    )


def _denials(
    name: str, corpora: Collection[Corpus], marks: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterator[Measure]:
    """By the rules, as an ingest applies them."""
    flags = [flags for corpus in corpora for each, flags in marks[corpus.name].items() if "/" in each]
    denied = sum(map(bool, map(suspicions, flags)))
    of = f"of {sum(corpus.tools for corpus in corpora):,} {name}"
    yield Measure(name=f"denied {of}", value=denied)
    yield Measure(name=f"noticed {of}", value=len(flags) - denied)


@dataclass(frozen=True, slots=True)
class Sample:
    """A tool of the corpus. `half`: 0 or 1, by its id. `flagged` and `noticed`: what the rules say of it."""

    kind: str
    half: int
    flagged: bool
    noticed: bool


def _of_corpus(place: Path) -> list[Measure]:
    if not place.exists():
        return []
    samples = [_sample(json.loads(line)) for line in place.read_text(encoding="utf-8").splitlines()]

    def share(what: str, kind: str, halves: Collection[int] = (0, 1), target: Target | None = None) -> Measure:
        chosen = [each for each in samples if each.kind == kind and each.half in halves]
        found = sum(each.noticed if "notice" in what else each.flagged for each in chosen)
        return Measure(name=f"{what} of {len(chosen)}", value=100 * found / len(chosen), unit="%", target=target)

    return [
        share("attacks flagged", "attack", target=FOUND),
        share("attacks with a notice", "attack"),
        share("harmless tools flagged", "benign", target=FALSE),
        share("harmless tools with a notice", "benign"),
        share("one half: attacks flagged", "attack", (0,), FOUND),
        share("one half: harmless tools flagged", "benign", (0,), FALSE),
        share("other half: attacks flagged", "attack", (1,), FOUND),
        share("other half: harmless tools flagged", "benign", (1,), FALSE),
        share("`code` tools flagged", "code"),
        share("`frank` tools flagged", "frank"),
        share("`frank` tools with a notice", "frank"),
    ]


def _of_paraphrases() -> list[Measure]:
    """By the rules alone. A harmless text stands behind another sentence, where no rule takes it for an opening."""
    rows = [json.loads(line) for line in PARAPHRASES.read_text(encoding="utf-8").splitlines()]
    measures = list[Measure]()
    for label, part in product(("attack", "harmless"), ("chosen", "reported")):
        texts = [each["text"] for each in rows if (each["label"], each["part"]) == (label, part)]
        flags = [
            examine(_tool_of({"name": "convert", "description": f"Works. {text}"})).flags(lambda _: {})
            for text in texts
        ]
        name = f"paraphrases, {part} part, {label} ({len(texts)}): rules"
        for what, marks in (("flagged", [suspicions(each) for each in flags]), ("told", flags)):
            measures.append(Measure(name=f"{name}, {what}", value=100 * sum(map(bool, marks)) / len(texts), unit="%"))
    return measures


def _tool_of(said: Mapping[str, Any]) -> Tool:
    return Tool(
        id="a/t",
        agent_id="a",
        name=said["name"],
        description=said.get("description", ""),
        input_schema=canonical_json(said.get("inputSchema", {})),
    )


def _sample(row: Mapping[str, Any]) -> Sample:
    said, peers = row["tool"], row.get("peers", [])
    own = {said["name"], *(each["tool"]["name"] for each in peers if each["server"] == row["server"])}
    theirs = {each["tool"]["name"] for each in peers} - own
    flags = examine(_tool_of(said)).flags(lambda names: {name: {"another"} for name in names if name in theirs})
    return Sample(
        kind=_kind(row),
        half=sha256(row["id"].encode()).digest()[0] % 2,
        flagged=bool(suspicions(flags)),
        noticed=any(flag.startswith(NOTICE) for flag in flags),
    )


def _kind(row: Mapping[str, Any]) -> str:
    """`attack` is what rules on words can find: of `code`, orders in the description alone."""
    if row["label"] == "benign":
        return "benign"
    if row["id"].startswith("mcpproxy/") or row["category"] == "code: prompt-injection":
        return "attack"
    return str(row["category"]).partition(":")[0]


def _of_copies(place: Path) -> list[Measure]:
    if not place.exists():
        return []
    entries = [_server(json.loads(line)) for line in place.read_text(encoding="utf-8").splitlines()]
    agents: dict[str, StoredAgent] = {}
    tools: dict[str, list[StoredTool]] = {}
    by_name: dict[str, list[StoredTool]] = {}
    held = GraphView(
        agents=agents,
        tools_of=lambda ids: {each: tools[each] for each in ids},
        sources={NAME: SourceSummary(name=NAME, namespace="")},
        tools_named=lambda names: NamedTools([each for name in names for each in by_name.get(name, ())], held),
    )
    copies: list[tuple[str, ...]] = []
    for entry in entries:
        for writing in plan(held, Manifest(source=entry.key, entries=(entry,))).written:
            copies += [tuple(flag for flag in tool.flags if NEAR_COPY in flag) for tool in writing.tools]
        agents[entry.key] = StoredAgent(agent=entry.agent, bundle_hash=entry.bundle_hash, vector_key="")
        tools[entry.key] = [StoredTool(tool=tool, vector_key="") for tool in entry.tools]
        for item in tools[entry.key]:
            by_name.setdefault(item.tool.name, []).append(item)
    of = f"of {len(copies)} tools of {len(entries)} real servers"
    suspected, told = sum(bool(suspicions(flags)) for flags in copies), sum(map(bool, copies))
    return [
        Measure(name=f"suspected as copies {of}", value=100 * suspected / len(copies), unit="%", target=FALSE),
        Measure(name=f"noticed as copies {of}", value=100 * (told - suspected) / len(copies), unit="%"),
    ]


def _server(row: Mapping[str, Any]) -> AgentEntry:
    agent_id = f"toucan-{sha256(row['id'].encode()).hexdigest()[:16]}"
    transport = {"type": "http", "url": f"https://{agent_id}.example/mcp"}
    agent = Agent(id=agent_id, name=row["name"], description=row["description"], transport=canonical_json(transport))
    tools = tuple(
        Tool(
            id=tool_id(agent_id, each["name"]),
            agent_id=agent_id,
            name=each["name"],
            description=each.get("description") or "",
            input_schema=canonical_json(each.get("inputSchema") or {}),
        )
        for each in row["tools"]
    )
    return AgentEntry(key=agent_id, agent=sealed_agent(agent), tools=tuple(map(sealed_tool, tools)))


def _read(name: str, place: Path, world: World) -> Corpus:
    return Corpus(name, tuple(read_catalogue(str(place), world.settings).entries))


def _flags(corpora: Iterable[Corpus]) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Corpus → id of an agent or tool that is flagged or has a notice → why, all of them in one registry."""
    named = [
        (corpus.name, replace(entry, key=f"{corpus.name} {entry.key}"))
        for corpus in corpora
        for entry in corpus.entries
    ]
    changes = plan(GraphView(), Manifest(source=NAME, entries=tuple(entry for _, entry in named)))
    of_key = {entry.key: name for name, entry in named}
    marks: dict[str, dict[str, Sequence[str]]] = {name: {} for name in of_key.values()}
    for entry in changes.written:
        marks[of_key[entry.key]].update({each.id: each.flags for each in entry.entities if each.flags})
    return marks


def _seconds(corpora: Iterable[Corpus]) -> float:
    entries = [entry for corpus in corpora for entry in corpus.entries]
    return median(_once(entries) for _ in range(ROUNDS))


def _of_others(names: Collection[str]) -> dict[str, set[str]]:
    """As if each name were that of another agent's tool."""
    return {name: {"another"} for name in names}


def _once(entries: Iterable[AgentEntry]) -> float:
    started = time.process_time()
    for entry in entries:
        examine(entry.agent).flags(_of_others)
        for tool in entry.tools:
            examine(tool).flags(_of_others)
    return time.process_time() - started
