"""Many servers into a new registry, beside the bare embedding of their texts; and again, unchanged."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.ingest_speed import Took, took
from benchmarks.live.scene import Scene, tools_in, watched_once
from benchmarks.processes import run_process, waygraph_command
from benchmarks.record import Measure, Target
from waygraph.registry.embedding.entities import TextForms
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.registry import Registry

MOST_TO_BARE, MORE_S = 1.3, 3.0
UNCHANGED = Target(bound="at_most", value=3.0)
UNCHANGED_RUNS = 3


def measured(made: Scene, *, rounds: int) -> tuple[list[Measure], dict[str, Any]]:
    config = made.config("many", made.names)
    firsts, bares, unchanged = [], [], []
    place, texts = made.folder, list[str]()
    for number in range(rounds):
        folder = made.folder / f"first-{number}"
        place, settings = folder / "r.grafeo", made.settings(folder / "cache")
        firsts.append(took(partial(watched_once, made, config, place, settings)))
        texts = _texts(made, place)
        bares.append(took(partial(made.embedder.embed, texts, "document")))
        unchanged.append(took(partial(watched_once, made, config, place, settings)))
    command = waygraph_command("--registry", str(place), "watch", str(config), "--once")
    processes = [run_process(command, made.world).seconds for _ in range(UNCHANGED_RUNS)]
    details = {"texts": len(texts), "tools": _tools(made, place), "first": _told(firsts), "bare": _told(bares)}
    return _measures(len(made.names), firsts, bares, unchanged, processes), {**details, "unchanged": _told(unchanged)}


def _measures(
    servers: int, firsts: list[Took], bares: list[Took], unchanged: list[Took], processes: list[float]
) -> list[Measure]:
    bare = median(each.seconds for each in bares)
    allowed = Target(bound="at_most", value=round(MOST_TO_BARE * bare + MORE_S, 2))
    name = f"first sync of {servers} servers"
    return [
        Measure(name=name, value=median(each.seconds for each in firsts), unit="s", target=allowed),
        Measure(name="bare embedding of the texts of their tools", value=bare, unit="s"),
        Measure(
            name=f"`waygraph watch --once` of {servers} servers, unchanged, whole process",
            value=median(processes),
            unit="s",
            target=UNCHANGED,
        ),
        Measure(
            name=f"{servers} servers, unchanged, in a running process",
            value=median(each.seconds for each in unchanged),
            unit="s",
            target=UNCHANGED,
        ),
    ]


def _texts(made: Scene, place: Path) -> list[str]:
    """What the registry's vectors were made of."""
    forms = TextForms(form="contextual", max_chars=made.world.settings.max_embedded_chars)
    with made.open(place, made.world.settings) as registry:
        entries = _entries(registry)
    return list(dict.fromkeys(text for parts in forms.of_entries(entries).values() for text in parts.texts))


def _entries(registry: Registry) -> list[AgentEntry]:
    return [AgentEntry(key=agent.id, agent=agent, tools=tuple(registry.tools(agent.id))) for agent in registry.agents()]


def _tools(made: Scene, place: Path) -> int:
    with made.open(place, made.world.settings) as registry:
        return tools_in(registry)


def _told(taken: list[Took]) -> list[dict[str, Any]]:
    return [asdict(each) for each in taken]
