"""Writes the files of a generation. Their reader is `local.py`."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from waygraph.registry.changes import SourceSummary
from waygraph.registry.index import layout
from waygraph.registry.index.documents import agent_record
from waygraph.registry.index.made import Made, MadeOfTool, made_of
from waygraph.registry.index.names import write_names
from waygraph.registry.index.postings import write_postings
from waygraph.registry.index.snapshot import Snapshot


def build_generation(folder: Path, snapshot: Snapshot, made: Made | None = None) -> None:
    """Everything but the graph's copy. `made`: of this snapshot, if it was. Raises OSError if it cannot be written."""
    made = made or made_of(snapshot, Made())
    _write_json(folder / layout.STATE, asdict(snapshot.state))
    _write_json(folder / layout.TABLES, _tables(snapshot))
    write_names(folder / layout.NAMES, _names(made))
    write_sources(folder, snapshot.sources)
    _write_json(folder / layout.KEYS, list(snapshot.vector_keys))
    np.save(folder / layout.VECTORS, snapshot.vectors)
    _write_records(folder, made.tools.values())
    _write_texts(folder, made)


def write_sources(folder: Path, sources: Iterable[SourceSummary]) -> None:
    """Apart from the rest, since a sync that changes nothing else still confirms its claims."""
    _write_json(folder / layout.SOURCES, [asdict(source) for source in sources])


def _tables(snapshot: Snapshot) -> dict[str, Any]:
    position = {agent.id: row for row, agent in enumerate(snapshot.agents)}
    pending = [row for row, tool in enumerate(snapshot.tools) if tool.pending]
    return {
        "agents": [agent_record(agent) for agent in snapshot.agents],
        "tool_ids": [tool.id for tool in snapshot.tools],
        "owners": [position[tool.agent_id] for tool in snapshot.tools],
        **({layout.PENDING_TOOLS: pending} if pending else {}),
    }


def _names(made: Made) -> dict[str, list[int]]:
    """Folded name → rows of the entities that bear it."""
    names: dict[str, list[int]] = {}
    of_entities = [*(agent.names for agent in made.agents.values()), *(tool.names for tool in made.tools.values())]
    for row, forms in enumerate(of_entities):
        for form in forms:
            names.setdefault(form, []).append(row)
    return names


def _write_records(folder: Path, tools: Iterable[MadeOfTool]) -> None:
    """One JSON line a tool, and where each starts: a reader parses only those it shows."""
    offsets = [0]
    with (folder / layout.RECORDS).open("wb") as file:
        for made in tools:
            file.write(made.record)
            offsets.append(offsets[-1] + len(made.record))
    np.save(folder / layout.OFFSETS, np.asarray(offsets, dtype=np.int64))


def _write_texts(folder: Path, made: Made) -> None:
    agents, tools = list(made.agents.values()), list(made.tools.values())
    profiles = [(row, agent.words) for row, agent in enumerate(agents)]
    capabilities = [(row, agent.words) for row, agent in enumerate(agents) if not agent.tools]
    capabilities += [(row, tool.words) for row, tool in enumerate(tools, start=len(agents))]
    write_postings(folder / layout.AGENT_TEXT, profiles)
    write_postings(folder / layout.CAPABILITY_TEXT, capabilities)


def _write_json(path: Path, value: object) -> None:
    path.write_text(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8", errors="surrogatepass"
    )
