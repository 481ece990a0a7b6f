"""Requests that need several tools: whether the first five or ten of an answer hold all of them.

The right tools are those that a task's author called. Two folds over groups of near copies: the calls of one are
counted, the requests of the other judged, and the other way round. Nobody publishes this table without a language
model.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.history.conversations import conversations, learn, read_whole
from benchmarks.peers.adapters import Bm25sPeer, GraphToolCallPeer
from benchmarks.peers.vectors import Vectors
from benchmarks.record import Measure, Result
from benchmarks.world import QUICK_QUESTIONS, World, show_progress
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.nouns import Query
from waygraph.registry.routing.recipes import HYBRID, LEXICAL, TOOLS, Recipe
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.metrics import paired_p

NAME = "tool_sets"
FOLDS = 2
PLACES = (5, 10)
CHOSEN_ON = ("apibank", "toollinkos", "nestools")
"""The share and the least count of a pair were chosen on these; others were seen after that."""
CONVERSATIONS = ("traject-dev",)
"""Sets of conversations whose first request tells all of the task."""
LOGIN = "account/GetUserToken"
"""Of API-Bank, whose tasks nearly all need it: reported with and without."""
UNCOUNTED = {"BM25": LEXICAL, "vectors": TOOLS, "hybrid": HYBRID}
assert HYBRID.history is not None
ALONE, TOGETHER = "hybrid, what follows alone", "hybrid, calls counted"
COUNTED = {ALONE: replace(HYBRID, history=replace(HYBRID.history, together=0.0)), TOGETHER: HYBRID}
LIVE = "livemcpbench"
STEPS = "hybrid, asked in written steps"
COLUMNS = (*(f"complete@{places}" for places in PLACES), "first tool")
NOTES = (
    "Complete: all tools of the task, or one of each that would do as well, are among the first five or ten. First "
    "tool: the first one is one of them.",
    "Calls counted: as `learn transitions` counts them, of the other fold; what was called beside one of the first "
    "three tools speaks (`together`). 'What follows alone' has its share at 0.",
    f"{STEPS.capitalize()}: `find_tools` with the steps that LiveMCPBench's annotators wrote.",
    "bm25s and graph-tool-call: where they are installed (`make bench-peers` does so), by their own calls, with this "
    "project's vectors where they take any.",
    f"Shares were chosen on {', '.join(CHOSEN_ON)}.",
    "Pooled: the tools of all sets in one registry, the calls of all sets counted.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`needs`: of each tool those that would do. `calls`: in order. `steps`: the task in steps that people wrote."""

    text: str
    group: str
    needs: tuple[frozenset[str], ...]
    calls: tuple[str, ...]
    steps: tuple[str, ...] = ()

    @property
    def fold(self) -> int:
        return int(sha256(self.group.encode()).hexdigest(), 16) % FOLDS

    def judge(self, found: Sequence[str]) -> dict[str, float]:
        complete = [all(need.intersection(found[:places]) for need in self.needs) for places in PLACES]
        return dict(
            zip(COLUMNS, map(float, (*complete, any(need.issuperset(found[:1]) for need in self.needs))), strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    name: str
    catalogue: Manifest
    tasks: tuple[Task, ...]

    def without(self, tool: str) -> "ToolSet":
        """Where one tool is needed by no task; tasks of one tool are left out."""
        needs = [(task, tuple(need for need in task.needs if tool not in need)) for task in self.tasks]
        tasks = tuple(replace(task, needs=rest) for task, rest in needs if len(rest) > 1)
        return replace(self, name=f"{self.name} without {tool}", tasks=tasks)


def run(world: World) -> Result:
    """Skipped without the shared data."""
    sets = list(read_sets(world))
    if not sets:
        return Result(name=NAME, skipped="no tool_sets among the shared data")
    rows = [row for each in sets for row in _rows(world, [each])]
    if len(sets) > 1:
        rows += _rows(world, sets)
    return Result(
        name=NAME,
        embedder=world.embedder(world.spec).fingerprint,
        measures=[
            Measure(name=f"{row['set']}, {row['method']}: {column}", value=row[column])
            for row in rows
            for column in COLUMNS
        ],
        notes=NOTES,
        details={"rows": rows},
    )


def read_sets(world: World) -> Iterator[ToolSet]:
    """Those that are there, and of API-Bank also one without its login."""
    for name in CHOSEN_ON:
        if (path := world.data / NAME / f"{name}.json").is_file():
            each = read_set(world, path)
            yield each
            if any(LOGIN in need for task in each.tasks for need in task.needs):
                yield each.without(LOGIN)
    for name in CONVERSATIONS:
        if world.has(f"trajectories/{name}"):
            yield _of_conversations(world, name)
    if world.has(LIVE):
        yield _of_annotations(world)


def read_set(world: World, path: Path) -> ToolSet:
    document = json.loads(path.read_bytes())
    with_ids = {"waygraph": 1, "agents": [_agent(agent) for agent in document["agents"]]}
    folder = world.cache / NAME
    folder.mkdir(parents=True, exist_ok=True)
    catalogue = folder / path.name
    catalogue.write_text(json.dumps(with_ids), encoding="utf-8")
    (manifest,) = read_path(str(catalogue), world.settings)
    tasks = [
        Task(
            text=task["text"],
            group=task["group"],
            needs=tuple(map(frozenset, task["need"])),
            calls=tuple(task["calls"] or [need[0] for need in task["need"]]),
        )
        for task in document["tasks"]
    ]
    return ToolSet(name=path.stem, catalogue=manifest, tasks=tuple(tasks[: QUICK_QUESTIONS if world.quick else None]))


def _agent(agent: Mapping[str, Any]) -> dict[str, Any]:
    names = ("name", "description", "inputSchema")
    tools = [{name: tool[name] for name in names if name in tool} for tool in agent["tools"]]
    return {name: agent[name] for name in ("id", "name", "description")} | {"tools": tools}


def _of_conversations(world: World, name: str) -> ToolSet:
    dataset = read_whole(world, name)
    tasks = []
    for last, calls in conversations(dataset):
        request = next((turn.text for turn in last.need.history if turn.role == "user"), last.need.text)
        if len(needed := dict.fromkeys(calls)) > 1:
            needs = tuple(frozenset({tool}) for tool in needed)
            tasks.append(Task(text=request, group=last.group or last.id, needs=needs, calls=tuple(calls)))
    some = tasks[: QUICK_QUESTIONS if world.quick else None]
    return ToolSet(name=name, catalogue=dataset.catalogue, tasks=tuple(some))


def _of_annotations(world: World) -> ToolSet:
    """LiveMCPBench's questions that need several tools, with the steps of its annotators."""
    questions = json.loads((world.data / LIVE / "steps_aligned.json").read_bytes())
    tasks = []
    for question in questions:
        needs = dict.fromkeys(
            frozenset(f"{agent}/{tool['tool']}" for agent in tool["agents_any_of"]) for tool in question["tools"]
        )
        if len(needs) > 1 and all(needs):
            tasks.append(
                Task(
                    text=question["question"],
                    group=question["task_id"],
                    needs=tuple(needs),
                    calls=tuple(min(need) for need in needs),
                    steps=tuple(step["text"] for step in question["steps"]),
                )
            )
    some = tasks[: QUICK_QUESTIONS if world.quick else None]
    return ToolSet(name=LIVE, catalogue=world.dataset(LIVE).catalogue, tasks=tuple(some))


def _peers(world: World, sets: Sequence[ToolSet]) -> dict[str, Bm25sPeer | GraphToolCallPeer]:
    """Libraries that are installed here, each with the tools of all sets."""
    catalogues = {each.catalogue.source: each.catalogue for each in sets}.values()
    whole = Manifest(source=NAME, entries=tuple(entry for each in catalogues for entry in each.entries))
    vectors = Vectors(world.settings)
    peers: dict[str, Bm25sPeer | GraphToolCallPeer] = {}
    if find_spec("bm25s"):
        peers["bm25s"] = Bm25sPeer(vectors, stemmed=True)
    if find_spec("graph_tool_call"):
        peers["graph-tool-call"] = GraphToolCallPeer(vectors, embedded=True, top_k=max(PLACES))
    for each in peers.values():
        each.ingest(whole)
    return peers


def _rows(world: World, sets: Sequence[ToolSet]) -> list[dict[str, Any]]:
    """A row a method; of several sets together."""
    catalogues = {each.catalogue.source: each.catalogue for each in sets}
    tasks = [task for each in sets if " without " not in each.name or len(sets) == 1 for task in each.tasks]
    values: dict[str, list[dict[str, float]]] = {}
    with world.registry_of(catalogues.values(), texts="contextual", embedder=world.spec) as registry:
        ids = _ids(registry, sets)
        for name, recipe in UNCOUNTED.items():
            values[name] = [task.judge(_find(registry, task, recipe, ids)) for task in tasks]
        if any(task.steps for task in tasks) and len(sets) == 1:
            values[STEPS] = [task.judge(_find(registry, task, HYBRID, ids, task.steps)) for task in tasks]
        keys = {entry.agent.id: entry.key for each in sets for entry in each.catalogue.entries}
        for name, peer in _peers(world, sets).items() if len(sets) == 1 else ():
            answers = [[_name_by_key(tool, keys) for tool in peer.ask_tools(task.text)] for task in tasks]
            values[name] = [task.judge(answer) for task, answer in zip(tasks, answers, strict=True)]
        judged: dict[str, dict[int, dict[str, float]]] = {name: {} for name in COUNTED}
        progress = show_progress(sets[0].name if len(sets) == 1 else "pooled")
        for fold in range(FOLDS):
            learn(registry, [[ids.get(call, call) for call in task.calls] for task in tasks if task.fold != fold])
            for at, task in enumerate(tasks):
                if task.fold == fold:
                    for name, recipe in COUNTED.items():
                        judged[name][at] = task.judge(_find(registry, task, recipe, ids))
                    progress(at, len(tasks))
        values |= {name: [by_task[at] for at in range(len(tasks))] for name, by_task in judged.items()}
    label = sets[0].name if len(sets) == 1 else "pooled"
    return [_row(label, name, of_tasks, values["hybrid"]) for name, of_tasks in values.items()]


def _row(
    label: str, method: str, values: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    """`p`: of complete@5 beside `hybrid`, by a paired randomisation test; `gained` and `lost` are tasks there."""
    ones, others = ([each[COLUMNS[0]] for each in of] for of in (values, base))
    changes = [one - other for one, other in zip(ones, others, strict=True)]
    return {
        "set": label,
        "method": method,
        "tasks": len(values),
        **{column: round(fmean(each[column] for each in values), 4) for column in COLUMNS},
        "gained": sum(change > 0 for change in changes),
        "lost": sum(change < 0 for change in changes),
        "p": round(paired_p(ones, others), 4),
    }


def _ids(registry: LocalRegistry, sets: Iterable[ToolSet]) -> dict[str, str]:
    """A tool as its set names it → its id in the registry."""
    keys = {entry.key: entry.agent.id for each in sets for entry in each.catalogue.entries}
    known = {tool.id for tool in registry.tools()}
    names = {
        call
        for each in sets
        for task in each.tasks
        for call in (*task.calls, *(n for need in task.needs for n in need))
    }
    ids = {name: f"{keys.get(name.partition('/')[0], '')}/{name.partition('/')[2]}" for name in names}
    return {name: tool for name, tool in ids.items() if tool in known}


def _name_by_key(tool: str, keys: Mapping[str, str]) -> str:
    agent, _, name = tool.partition("/")
    return f"{keys.get(agent, agent)}/{name}"


def _find(
    registry: LocalRegistry, task: Task, recipe: Recipe, ids: Mapping[str, str], steps: tuple[str, ...] = ()
) -> list[str]:
    """As the set names them."""
    names = {tool: name for name, tool in ids.items()}
    matches = registry.find_tools(Query(text=task.text, steps=steps, limit=max(PLACES)), recipe=recipe).matches
    return [names.get(match.tool.id, match.tool.id) for match in matches]


def tables_of(details: Mapping[str, Any]) -> str:
    columns = ("set", "method", "tasks", *COLUMNS, "gained", "lost", "p")
    return markdown_table(columns, [[row[column] for column in columns] for row in details["rows"]])
