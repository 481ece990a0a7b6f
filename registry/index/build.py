"""Writes the files of a generation. Their reader is `local.py`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from waygraph.registry.changes import SourceSummary
from waygraph.registry.index import layout
from waygraph.registry.index.documents import (
    agent_document,
    agent_names,
    agent_record,
    tool_document,
    tool_names,
    tool_record,
)
from waygraph.registry.index.snapshot import Snapshot
from waygraph.registry.model import Tool

_WRITER_HEAP_BYTES = 64 * 1024 * 1024


def build_generation(folder: Path, snapshot: Snapshot) -> None:
    """Everything but the graph's copy. Raises OSError if it cannot be written."""
    _write_json(folder / layout.STATE, asdict(snapshot.state))
    _write_json(folder / layout.TABLES, _tables(snapshot))
    _write_json(folder / layout.NAMES, _names(snapshot))
    write_sources(folder, snapshot.sources)
    _write_json(folder / layout.KEYS, list(snapshot.vector_keys))
    np.save(folder / layout.VECTORS, snapshot.vectors)
    _write_records(folder, snapshot.tools)
    _write_texts(folder, snapshot)


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


def _names(snapshot: Snapshot) -> dict[str, list[int]]:
    """Folded name → rows of the entities that bear it."""
    names: dict[str, list[int]] = {}
    agents = {agent.id: agent for agent in snapshot.agents}
    for row, agent in enumerate(snapshot.agents):
        for form in agent_names(agent):
            names.setdefault(form, []).append(row)
    for row, tool in enumerate(snapshot.tools, start=len(snapshot.agents)):
        for form in tool_names(agents[tool.agent_id], tool):
            names.setdefault(form, []).append(row)
    return names


def _write_records(folder: Path, tools: Sequence[Tool]) -> None:
    """One JSON line a tool, and where each starts: a reader parses only those it shows."""
    offsets = [0]
    with (folder / layout.RECORDS).open("wb") as file:
        for tool in tools:
            file.write(json.dumps(tool_record(tool), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            offsets.append(file.tell())
    np.save(folder / layout.OFFSETS, np.asarray(offsets, dtype=np.int64))


def _write_texts(folder: Path, snapshot: Snapshot) -> None:
    agents = {agent.id: agent for agent in snapshot.agents}
    owned: dict[str, list[Tool]] = {agent.id: [] for agent in snapshot.agents}
    for tool in snapshot.tools:
        owned[tool.agent_id].append(tool)
    profiles = [(row, agent_document(agent, owned[agent.id])) for row, agent in enumerate(snapshot.agents)]
    capabilities = [(row, words) for row, words in profiles if not owned[snapshot.agents[row].id]]
    first_tool = len(snapshot.agents)
    capabilities += [(first_tool + i, tool_document(agents[t.agent_id], t)) for i, t in enumerate(snapshot.tools)]
    _write_text_index(folder / layout.AGENT_TEXT, profiles)
    _write_text_index(folder / layout.CAPABILITY_TEXT, capabilities)


def _write_text_index(folder: Path, documents: Iterable[tuple[int, list[str]]]) -> None:
    import tantivy

    folder.mkdir()
    schema = layout.text_schema()
    try:
        # One thread, one commit: documents keep the order of rows, in which equal scores are then returned.
        writer = tantivy.Index(schema, path=str(folder)).writer(heap_size=_WRITER_HEAP_BYTES, num_threads=1)
        for row, words in documents:
            writer.add_document(tantivy.Document(**{layout.TEXT_FIELD: " ".join(words), layout.ROW_FIELD: row}))
        writer.commit()
        writer.wait_merging_threads()
    except ValueError as exc:  # tantivy's one error type
        raise OSError(str(exc)) from exc


def _write_json(path: Path, value: object) -> None:
    path.write_text(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8", errors="surrogatepass"
    )
