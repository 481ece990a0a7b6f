"""Writes the files of a generation. Their reader is `local.py`."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from waygraph.registry.changes import SourceSummary
from waygraph.registry.index import layout
from waygraph.registry.index.documents import agent_record
from waygraph.registry.index.made import Made, MadeOfTool, made_of
from waygraph.registry.index.names import write_names
from waygraph.registry.index.snapshot import Snapshot

_WRITER_HEAP_BYTES = 64 * 1024 * 1024


def build_generation(folder: Path, snapshot: Snapshot, made: Made | None = None) -> None:
    """Everything but the graph's copy. `made`: of this snapshot, if it was. Raises OSError if it cannot be written."""
    made = made or made_of(snapshot, Made())
    with _texts_written(folder, made):
        _write_json(folder / layout.STATE, asdict(snapshot.state))
        _write_json(folder / layout.TABLES, _tables(snapshot))
        write_names(folder / layout.NAMES, _names(made))
        write_sources(folder, snapshot.sources)
        _write_json(folder / layout.KEYS, list(snapshot.vector_keys))
        np.save(folder / layout.VECTORS, snapshot.vectors)
        _write_records(folder, made.tools.values())


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


@contextmanager
def _texts_written(folder: Path, made: Made) -> Iterator[None]:
    """The text indexes are written beside the block: tantivy holds no lock of Python while it works."""
    profiles = [(row, agent.words) for row, agent in enumerate(made.agents.values())]
    capabilities = [(row, agent.words) for row, agent in enumerate(made.agents.values()) if not agent.tools]
    capabilities += [(row, tool.words) for row, tool in enumerate(made.tools.values(), start=len(made.agents))]
    with ThreadPoolExecutor(2, "texts") as pool:
        writing = [
            pool.submit(_write_text_index, folder / layout.AGENT_TEXT, profiles),
            pool.submit(_write_text_index, folder / layout.CAPABILITY_TEXT, capabilities),
        ]
        yield
        for each in writing:
            each.result()


def _write_text_index(folder: Path, documents: Iterable[tuple[int, str]]) -> None:
    import tantivy

    folder.mkdir()
    schema = layout.text_schema()
    try:
        # One thread, one commit: documents keep the order of rows, in which equal scores are then returned.
        writer = tantivy.Index(schema, path=str(folder)).writer(heap_size=_WRITER_HEAP_BYTES, num_threads=1)
        for row, words in documents:
            writer.add_document(tantivy.Document(**{layout.TEXT_FIELD: words, layout.ROW_FIELD: row}))
        writer.commit()
        writer.wait_merging_threads()
    except ValueError as exc:  # tantivy's one error type
        raise OSError(str(exc)) from exc


def _write_json(path: Path, value: object) -> None:
    path.write_text(
        json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8", errors="surrogatepass"
    )
