"""A catalogue on its way to a peer's process: plain JSON, so that reading it imports next to nothing there."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.changes import AgentEntry, Manifest
from waygraph.registry.model.nouns import Agent, Tool

if TYPE_CHECKING:
    from waygraph.registry.model.settings import Settings


def padded(catalogue: Manifest, tools: int, settings: "Settings") -> Manifest:
    """The catalogue with invented agents after its own, `tools` tools in all. It must leave room for 7 or more."""
    from benchmarks.world import scratch_folder, write_catalogue
    from waygraph.ingest.sources.read import read_path

    have = sum(len(entry.tools) for entry in catalogue.entries)
    with scratch_folder() as folder:
        (more,) = read_path(str(write_catalogue(folder, tools - have)), settings)
    return replace(catalogue, entries=(*catalogue.entries, *more.entries))


def write(catalogue: Manifest, path: Path) -> None:
    path.write_text(json.dumps([asdict(entry) for entry in catalogue.entries]), encoding="utf-8")


def read(path: Path) -> Manifest:
    entries = json.loads(path.read_bytes())
    return Manifest(source=path.stem, entries=tuple(map(_entry, entries)))


def _entry(raw: Mapping[str, Any]) -> AgentEntry:
    tools = tuple(Tool(**_frozen(tool)) for tool in raw["tools"])
    return AgentEntry(key=raw["key"], agent=Agent(**_frozen(raw["agent"])), tools=tools)


def _frozen(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
