"""Anybody's own dataset: `queries.jsonl`, the agents that they are asked of, and what `dataset.json` tells of it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from waygraph.registry.model.errors import InvalidDataset
from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.conversations import (
    CatalogueNames,
    id_of,
    lines,
    name_in,
    read_data_folder,
    refuse_misspelt,
)
from waygraph_lab.evaluation.dataset import Dataset, Need, Question
from waygraph_lab.evaluation.metrics import Gold, gold_items

QUERIES = "queries.jsonl"
SERVERS = "mcp.json"
"""Beside the catalogue where the agents are served: how each is reached, by its id."""
FILES = (QUERIES,)
_OF_QUERY = ("id", "text", "gold", "gold_tools", "steps", "split")


def read_folder(path: Path, settings: Settings) -> Dataset:
    """Raises InvalidDataset, with file and line, and SourceError for a catalogue that cannot be read."""
    return read_questions(path, settings, QUERIES, read_queries)


def read_questions(
    path: Path, settings: Settings, file: str, questions: Callable[[Path, CatalogueNames], Iterable[Question]]
) -> Dataset:
    """A folder whose questions are read from its file `file`. Raises as `read_folder`."""
    data = read_data_folder(path, settings, file)
    return Dataset(
        name=data.name,
        origin=data.origin,
        license=data.license,
        checksum=data.checksum,
        catalogue=data.catalogue,
        questions=tuple(questions(path / file, CatalogueNames.of(data.catalogue))),
    )


def gold_agents(known: CatalogueNames, items: Iterable[Iterable[str]], where: str) -> Gold:
    """Raises InvalidDataset for an agent that is not in the catalogue."""
    return gold_items([_agent(known, key, where) for key in item] for item in items)


def gold_tools(known: CatalogueNames, items: Iterable[Iterable[str]], where: str) -> Gold:
    """Tools are written `agent/tool`. Raises InvalidDataset for one that is not in the catalogue."""
    return gold_items([_tool(known, name, where) for name in item] for item in items)


def _agent(known: CatalogueNames, key: str, where: str) -> str:
    if key not in known.agents and not known.partial:
        raise InvalidDataset(where, f"gold agent {key!r} is not in the catalogue")
    return known.agents.get(key, key)


def _tool(known: CatalogueNames, name: str, where: str) -> str:
    # An agent's key may hold a slash itself, and so may a tool's name.
    parts = name.split("/")
    for at in range(1, len(parts)):
        agent = known.agents.get("/".join(parts[:at]))
        if agent is not None and (found := f"{agent}/{'/'.join(parts[at:])}") in known.tools:
            return found
    if known.partial:
        return name
    raise InvalidDataset(where, f"gold tool {name!r} is not in the catalogue; tools are written agent/tool")


def server_config(folder: Path) -> Path:
    """Raises InvalidDataset if the agents of the dataset are not served."""
    path = folder / SERVERS
    if not path.is_file():
        raise InvalidDataset(str(path), "is not there; `waygraph generate scalemcp CSV DIR --serve` writes it")
    return path


def write_server_config(folder: Path, urls: Mapping[str, str]) -> Path:
    """Agent → URL of its MCP server, as `waygraph ingest` and MCP hosts read it. Raises InvalidDataset."""
    path = folder / SERVERS
    servers = {name: {"type": "http", "url": url} for name, url in urls.items()}
    try:
        path.write_text(json.dumps({"mcpServers": servers}, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidDataset(str(path), f"cannot be written: {error.strerror}") from error
    return path


def read_queries(path: Path, known: CatalogueNames) -> Iterator[Question]:
    """Those of a file of queries. Raises InvalidDataset, with file and line."""
    ids: set[str] = set()
    for where, record in lines(path):
        question = _question(record, known, where)
        if question.id in ids:
            raise InvalidDataset(where, f"a second query {question.id!r}")
        ids.add(question.id)
        yield question


def _question(record: Mapping[str, Any], known: CatalogueNames, where: str) -> Question:
    name = id_of(record, "query", where)
    steps = [] if record.get("steps") is None else record["steps"]
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise InvalidDataset(where, "steps: expected a list of objects")
    return Question(
        id=name,
        need=_need(record, known, where),
        steps=tuple(_need(step, known, f"{where}, step {number}") for number, step in enumerate(steps, start=1)),
        split=name_in(record, "split", where),
    )


def _need(record: Mapping[str, Any], known: CatalogueNames, where: str) -> Need:
    refuse_misspelt(record, _OF_QUERY, where)
    text = record.get("text")
    if not isinstance(text, str) or not text.strip():
        raise InvalidDataset(where, "a query needs a text")
    gold = gold_agents(known, _without_empty(_items(record, "gold", where), where), where)
    tools = gold_tools(known, filter(None, _items(record, "gold_tools", where)), where)
    if tools and not gold:
        raise InvalidDataset(where, "gold_tools without gold: name the agents that are right, too")
    return Need(text=text, gold=gold, gold_tools=tools)


def _items(record: Mapping[str, Any], name: str, where: str) -> list[list[str]]:
    items = [] if record.get(name) is None else record[name]
    whole = isinstance(items, list) and all(isinstance(item, list) for item in items)
    if not whole or not all(isinstance(choice, str) for item in items for choice in item):
        raise InvalidDataset(where, f"{name}: expected a list of lists of ids")
    return items


def _without_empty(items: list[list[str]], where: str) -> list[list[str]]:
    """Raises InvalidDataset for an item that nothing could satisfy."""
    if not all(items):
        raise InvalidDataset(where, "gold: an item names no agent; leave it out if none is right")
    return items
