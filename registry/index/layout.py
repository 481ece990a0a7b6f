"""The files of a generation: what `build` writes and `local` reads."""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.registry.errors import RegistryError
from waygraph.registry.index.generation import current_name

if TYPE_CHECKING:
    from waygraph.registry.changes import SourceSummary

STATE, TABLES, NAMES, RECORDS, OFFSETS = "state.json", "tables.json", "names.json", "tools.jsonl", "offsets.npy"
SOURCES = "sources.json"
VECTORS, KEYS, CAPABILITY_TEXT, AGENT_TEXT, GRAPH = (
    "vectors.npy",
    "keys.json",
    "capability_text",
    "agent_text",
    "graph.grafeo",
)
_OF_TANTIVY = "meta.json"
PENDING_TOOLS = "pending_tools"
"""In the tables: positions of the tools that wait for approval; absent without any."""


def is_of_before(generation: Path) -> bool:
    """Whether its texts were written by tantivy, which nothing reads any more."""
    return (generation / CAPABILITY_TEXT / _OF_TANTIVY).exists()


def is_outdated(folder: Path) -> bool:
    """Whether the current generation of this folder is one of before."""
    with suppress(RegistryError):
        return is_of_before(folder / current_name(folder))
    return False


def read_sources(folder: Path) -> "list[SourceSummary]":
    from waygraph.registry.changes import SourceSummary

    rows = json.loads((folder / SOURCES).read_bytes())
    return [
        SourceSummary(**{**row, "claims": tuple((key, agent_id) for key, agent_id in row["claims"])}) for row in rows
    ]
