"""What a peer is: something that takes a catalogue in and answers a text with agents."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent, Tool

if TYPE_CHECKING:
    from waygraph.registry.model.settings import Settings

READ_TOOLS = 100
"""Tools read where a peer lets it be chosen: enough that five agents own them, and the depth that Waygraph reads."""


class Peer(Protocol):
    """A library behind its own public calls, with one choice of settings.

    Made by `Adapter(vectors, **options)`; importing the adapter imports nothing of the library.
    """

    def ingest(self, catalogue: Manifest) -> None:
        """Takes everything in, whatever `ask` would otherwise put off to its first call included."""
        ...

    def ask(self, text: str, limit: int) -> list[str]:
        """Ids of at most `limit` agents, best first and without repeats; fewer where the peer gives no more."""
        ...


def owners_of(catalogue: Manifest) -> dict[str, str]:
    """Tool id → id of the agent that owns it."""
    return {tool.id: entry.agent.id for entry in catalogue.entries for tool in entry.tools}


def distinct_owners(tools: Iterable[str], owners: Mapping[str, str], limit: int) -> list[str]:
    """The first `limit` agents in the order in which their best tools come."""
    return list(dict.fromkeys(owners[tool] for tool in tools))[:limit]


def called_names(catalogue: Manifest, *, always_prefixed: bool) -> dict[str, str]:
    """Tool id → a name that no other tool has.

    That is `agent__tool`, or the tool's own name where no other has it and it need not be `always_prefixed`.
    """
    tools = [tool for entry in catalogue.entries for tool in entry.tools]
    counts: dict[str, int] = {}
    for tool in tools:
        counts[tool.name] = counts.get(tool.name, 0) + 1
    prefixed = {tool.id: always_prefixed or counts[tool.name] > 1 for tool in tools}
    return {tool.id: tool.call_name if prefixed[tool.id] else tool.name for tool in tools}


def described_tools(catalogue: Manifest, *, prefixed: bool = False) -> dict[str, str]:
    """Tool id → `name: description`, the text of most examples; `prefixed`: `agent__tool: description`."""
    return {
        tool.id: f"{tool.call_name if prefixed else tool.name}: {tool.description}"
        for entry in catalogue.entries
        for tool in entry.tools
    }


# -- a catalogue on its way to a peer's process: plain JSON, so that reading it imports next to nothing ----


def pad_catalogue(catalogue: Manifest, tools: int, settings: "Settings") -> Manifest:
    """The catalogue with invented agents after its own, `tools` tools in all. It must leave room for 7 or more."""
    from benchmarks.world import scratch_folder, write_catalogue
    from waygraph.ingest.sources.read import read_path

    have = sum(len(entry.tools) for entry in catalogue.entries)
    with scratch_folder() as folder:
        (more,) = read_path(str(write_catalogue(folder, tools - have)), settings)
    return replace(catalogue, entries=(*catalogue.entries, *more.entries))


def write_catalogue_file(catalogue: Manifest, path: Path) -> None:
    path.write_text(json.dumps([asdict(entry) for entry in catalogue.entries]), encoding="utf-8")


def read_catalogue_file(path: Path) -> Manifest:
    entries = json.loads(path.read_bytes())
    return Manifest(source=path.stem, entries=tuple(map(_entry, entries)))


def _entry(raw: Mapping[str, Any]) -> AgentEntry:
    tools = tuple(Tool(**_frozen(tool)) for tool in raw["tools"])
    return AgentEntry(key=raw["key"], agent=Agent(**_frozen(raw["agent"])), tools=tools)


def _frozen(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
