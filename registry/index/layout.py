"""The files of a generation: what `build` writes and `local` reads."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
TEXT_FIELD, ROW_FIELD = "text", "row"
PENDING_TOOLS = "pending_tools"
"""In the tables: positions of the tools that wait for approval; absent without any."""


def text_schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field(TEXT_FIELD, tokenizer_name="whitespace", index_option="freq")
    builder.add_integer_field(ROW_FIELD, fast=True)
    return builder.build()


def read_sources(folder: Path) -> "list[SourceSummary]":
    from waygraph.registry.changes import SourceSummary

    rows = json.loads((folder / SOURCES).read_bytes())
    return [
        SourceSummary(**{**row, "claims": tuple((key, agent_id) for key, agent_id in row["claims"])}) for row in rows
    ]
