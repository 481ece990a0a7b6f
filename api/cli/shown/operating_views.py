"""What the other commands tell, laid out for people: rows of Cypher, models, keys, copies, findings."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.blocks import Aside, Block, Cell, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.api.cli.shown.pages import Exported
    from waygraph.ingest.datasets.scalemcp.generate import Generated
    from waygraph.registry.authentication.keys import ApiKey, KeyState
    from waygraph.registry.doctor.findings import Finding
    from waygraph.registry.embedding.weights import InstalledModel
    from waygraph.registry.graph.sandbox import CypherResult
    from waygraph.registry.migration.migrate import Migrated


def cypher(result: "CypherResult") -> Iterator[Block]:
    yield Table(columns=result.columns, rows=[[_value(value) for value in row] for row in result.rows])
    yield Aside(f"{len(result.rows)} row{'s' * (len(result.rows) != 1)} in {result.elapsed_ms:.1f} ms")


def _value(value: object) -> Cell:
    """A value of the graph as it is read best: texts and numbers as they are, the rest as JSON."""
    if value is None or isinstance(value, (str, int)):
        return value
    return json.dumps(value, ensure_ascii=False)


def models(held: "Iterable[InstalledModel]") -> Iterator[Block]:
    yield Table(
        columns=("model", "where", "folder", "sha256"),
        rows=[(each.spec, each.where, str(each.path), each.sha256) for each in held],
    )


def model_place(place: tuple[str, Path]) -> Iterator[Block]:
    """The folder alone, for `cd "$(waygraph model path)"`."""
    yield Lines(str(place[1]))


def created_key(made: "tuple[ApiKey, str]") -> Iterator[Block]:
    key, text = made
    yield Fields((("key", text), *_of_key(key)))


def api_key(held: "tuple[ApiKey, KeyState]") -> Iterator[Block]:
    key, state = held
    yield Fields((*_of_key(key), ("state", state), ("revoked", key.revoked_at)))


def api_keys(held: "Iterable[tuple[ApiKey, KeyState]]") -> Iterator[Block]:
    yield Table(
        columns=("id", "name", "state", "scopes", "sees", "created", "expires"),
        rows=[(key.id, key.name, state, key.scopes, _sees(key), key.created_at, key.expires_at) for key, state in held],
    )


def _of_key(key: "ApiKey") -> tuple[tuple[str, Cell], ...]:
    return (
        ("id", key.id),
        ("name", key.name),
        ("scopes", key.scopes),
        ("sees", _sees(key)),
        ("created", key.created_at),
        ("expires", key.expires_at),
    )


def _sees(key: "ApiKey") -> Cell:
    return "everything" if key.everything else key.groups or "what is public"


def exported(done: "Exported") -> Iterator[Block]:
    yield Fields((("written", done.path), ("format", done.form), ("size in bytes", done.size_bytes)))


def migrated(done: "Migrated") -> Iterator[Block]:
    yield Fields(
        (
            ("from", done.source),
            ("to", done.target),
            ("revision", done.revision),
            ("agents", done.agents),
            ("tools", done.tools),
            ("sources", done.sources),
            ("claims", done.claims),
            ("operators' words", done.settings),
            ("vectors", done.vectors),
            ("rows copied", done.copied),
            ("sha256", done.sha256),
            ("seconds", f"{done.seconds:.2f}"),
        )
    )


def generated(made: "Generated") -> Iterator[Block]:
    yield Fields(
        (
            ("folder", str(made.folder)),
            ("companies", made.companies),
            ("agents", made.agents),
            ("tools", made.tools),
            ("queries", made.queries),
            ("daily sample", made.daily),
            ("tools a query", f"{made.mean_gold_tools:.2f}"),
            ("in the sample", f"{made.daily_mean_gold_tools:.2f}"),
            ("checksum", made.checksum),
        )
    )


def findings(found: "Iterable[Finding]") -> Iterator[Block]:
    yield Table(
        columns=("check", "ok", "detail", "advice"),
        rows=[(each.check, each.ok, each.detail, each.advice) for each in found],
    )
