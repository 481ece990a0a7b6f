"""Whether a registry is to the last bit what it was: taken before an attack, and compared after it."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from waygraph.cypher import Statement, load
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import is_server

_EVERY_NODE = "MATCH (n) RETURN labels(n) AS labels, properties(n) AS properties"
_EVERY_EDGE = """
MATCH (a)-[r]->(b) RETURN type(r) AS type, properties(r) AS properties, a.id AS source, b.id AS target
"""
_COLUMNS = {"labels": "list", "properties": "map", "type": "string", "source": "string", "target": "string"}
_LOCKS = ("lease", ".lock")


def fingerprint(registry: LocalRegistry) -> dict[str, str]:
    """Part → hash: every node and edge with its properties; of a file every byte, of a server its indexes too.

    What readers leave, which is locks, does not count. Two that differ tell by their keys where.
    """
    told = registry.read(_of_graph)
    place = registry.store.place
    return told | (registry.read(_of_indexes) if is_server(place) else _of_files(Path(place)))


def _of_graph(session: GraphSession) -> dict[str, str]:
    return {"nodes": _hash(session.run(_reading(_EVERY_NODE))), "edges": _hash(session.run(_reading(_EVERY_EDGE)))}


def _of_indexes(session: GraphSession) -> dict[str, str]:
    return {"indexes": _hash(session.run(load("neo4j/check/indexes")))}


def _of_files(path: Path) -> dict[str, str]:
    """Nothing for a registry in memory."""
    files = [path, *path.with_name(path.name + ".index").rglob("*")]
    kept = [file for file in files if file.is_file() and not file.name.endswith(_LOCKS)]
    return {str(file.relative_to(path.parent)): sha256(file.read_bytes()).hexdigest() for file in kept}


def _reading(text: str) -> Statement:
    columns = {name: kind for name, kind in _COLUMNS.items() if f"AS {name}" in text}
    return Statement(
        name="fingerprint", purpose="", text=text, params={}, returns=columns, writes=False, neo4j_text=text
    )


def _hash(rows: object) -> str:
    """The same for the same rows in any order."""
    assert isinstance(rows, list)
    texts = sorted(json.dumps(row, sort_keys=True, default=_plain) for row in rows)
    return sha256("\n".join(texts).encode()).hexdigest()


def _plain(value: Any) -> object:
    """Of a vector its numbers."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
