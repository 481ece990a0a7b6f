"""The indexes and constraints that a registry on Neo4j needs: in what those there differ, and making them anew."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphEngine, GraphSession
from waygraph.registry.graph.schema import LABELS, MIGRATIONS
from waygraph.registry.index.neo4j.neo4j_upkeep import (
    SCHEMA,
    VECTORS,
    make_text_indexes,
    make_vector_indexes,
    vector_index,
)

UNIQUE = frozenset({*LABELS, *(name.rpartition("unique_")[2].capitalize() for name in SCHEMA if "unique_" in name)})
"""The labels whose ids are unique."""
BEING_MADE = "is still being made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """As `SHOW INDEXES` tells it; of `config` what matters here."""

    name: str
    kind: str
    labels: tuple[str, ...]
    properties: tuple[str, ...]
    config: Mapping[str, object] = field(default_factory=dict)


def text_indexes() -> tuple[Index, ...]:
    return (
        _text_index("agent_text", ("Agent",), "index_terms"),
        _text_index("capability_text", ("Capability",), "index_terms"),
        _text_index("name", ("Agent", "Tool"), "index_names"),
    )


def vector_indexes(dimension: int, *, by_owner: bool) -> tuple[Index, ...]:
    """None without vectors, dimension 0."""
    config = {"vector.dimensions": dimension, "vector.similarity_function": "COSINE", "quantized": False}
    properties = ("embedding", "index_owner") if by_owner else ("embedding",)
    return tuple(
        Index(
            name=vector_index(label, dimension),
            kind="VECTOR",
            labels=(label.capitalize(),),
            properties=properties,
            config=config,
        )
        for label in (VECTORS if dimension else ())
    )


def faults(session: GraphSession, wanted: tuple[Index, ...]) -> dict[str, str]:
    """Name of an index → what is wrong with it; nothing of one that is as it should be."""
    held = {row["name"]: row for row in session.run(load("neo4j/check/indexes"))}
    found = {index.name: _fault(index, held.get(index.name)) for index in wanted}
    return {name: fault for name, fault in found.items() if fault}


def labels_not_unique(session: GraphSession) -> list[str]:
    return sorted(UNIQUE - {row["label"] for row in session.run(load("neo4j/check/unique_ids"))})


def renew_schema(engine: GraphEngine, dimension: int, *, by_owner: bool) -> None:
    """Makes what is missing, and anew what is not as it should be. Safe to repeat."""
    found = faults(engine, (*text_indexes(), *vector_indexes(dimension, by_owner=by_owner)))
    for name, fault in found.items():
        if fault != BEING_MADE:
            engine.run(load("neo4j/schema/drop_index"), name=name)
    if found or labels_not_unique(engine):
        _define(engine, dimension, by_owner=by_owner)


def _define(engine: GraphEngine, dimension: int, *, by_owner: bool) -> None:
    for migration in MIGRATIONS:
        for statement in migration.statements:
            engine.define(load(statement))
    make_text_indexes(engine)
    if dimension:
        make_vector_indexes(engine, dimension, by_owner=by_owner)


def _text_index(name: str, labels: tuple[str, ...], indexed: str) -> Index:
    return Index(
        name=name, kind="FULLTEXT", labels=labels, properties=(indexed,), config={"fulltext.analyzer": "whitespace"}
    )


def _fault(wanted: Index, held: Mapping[str, Any] | None) -> str:
    if held is None:
        return "is missing"
    if held["state"] == "POPULATING":
        return BEING_MADE
    if held["state"] != "ONLINE":
        return f"is {held['state']}: {held['failure']}".partition("\n")[0]
    return ", ".join(_differences(wanted, held))


def _differences(wanted: Index, held: Mapping[str, Any]) -> Iterator[str]:
    for what, expected, found in (
        ("kind", wanted.kind, held["kind"]),
        ("labels", sorted(wanted.labels), sorted(held["labels"])),
        ("properties", list(wanted.properties), held["properties"]),
    ):
        if expected != found:
            yield f"has the {what} {found}, not {expected}"
    config = {**held["config"], "quantized": _is_quantized(held["config"])}
    for name, value in wanted.config.items():
        if config.get(name) != value:
            yield f"has {name} {config.get(name)}, not {value}"


def _is_quantized(config: Mapping[str, object]) -> bool:
    """Releases before 2026.06 know but one kind of it, and tell whether it is on."""
    if "vector.quantization.type" in config:
        return config["vector.quantization.type"] != "NONE"
    return bool(config.get("vector.quantization.enabled", True))
