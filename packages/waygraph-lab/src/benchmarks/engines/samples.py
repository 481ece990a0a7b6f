"""A small graph that every statement runs over, and a value for each of a statement's parameters."""

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphEngine
from waygraph.registry.graph.schema import migrate

VECTOR = [0.6] + [0.0] * 22 + [0.8]
ROW = {
    "id": "a",
    "agent_id": "a",
    "key": "a",
    "hash": "h",
    "since": "2026-01-01T00:00:00+00:00",
    "props": {"id": "a", "name": "a", "tags": ["x"], "names": ["a"], "embedding": VECTOR},
}
COUNT = {"first": "a", "next": "a", "before": "", "count": 1.5, "last_at": "2026-01-01T00:00:00+00:00"}
CHANGE = {
    "id": "Z",
    "at": "a",
    "revision": 1,
    "source": "a",
    "agent_id": "a",
    "tool": "",
    "what": "changed",
    "fields": ["name"],
    "before_hash": "h",
    "after_hash": "h",
    "before": "{}",
    "after": "{}",
    "flags": [],
    "covered": [],
}
SAMPLES: dict[str, object] = {
    "string": "a",
    "integer": 1,
    "float": 0.5,
    "boolean": True,
    "map": {"revision": 1, "embedder": "", "embedder_spec": "none", "texts": "plain", "schema_version": 1},
    "list<string>": ["a"],
    "list<float>": VECTOR,
    "list<map>": [ROW],
}
CATEGORY = {
    "name": "a",
    "description": "",
    "boundary": "",
    "axis": "",
    "depth": 0,
    "examples": ["a"],
    "embedding": VECTOR,
}
TAXONOMY = {
    "of": "agents",
    "built_by": "vectors",
    "built_at": "",
    "revision": 1,
    "calls": 0,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "settings": "{}",
    "current": True,
    "private": [],
    "shown_to_all": False,
}
ORPHANS = ["b"]
UNDO = {"sync/create_tools": "sync/remove_tools"}
"""What the engine holds already, and must not for this statement."""


def fill(engine: GraphEngine) -> None:
    """Writes what the statements are run over."""
    migrate(engine, ":memory:", "2026-01-01T00:00:00+00:00")
    for name in ("state/create", "sync/put_source", "sync/put_agents", "sync/create_tools", "sync/put_claims"):
        engine.run(load(name), **sample(name))
    orphans = [{"id": agent_id, "props": {"id": agent_id, "name": agent_id, "transport": "a"}} for agent_id in ORPHANS]
    engine.run(load("sync/put_agents"), rows=orphans)
    twin = {"agent_id": ORPHANS[0], "props": {"id": "twin", "name": "twin", "pending": True}}
    engine.run(load("sync/create_tools"), rows=[twin])
    engine.run(load("learning/put_agent_transitions"), rows=[COUNT])
    engine.run(load("learning/put_similar"), revision=1, rows=[{"one": "a", "other": "twin", "cosine": 0.9}])
    engine.run(load("node/put", "Setting"), **sample("node/put"))
    arrival = CHANGE | {"id": "Y", "what": "added"}
    engine.run(load("sync/put_changes"), rows=[{"props": change} for change in (CHANGE, arrival)])
    engine.run(load("taxonomy/put_categories"), rows=[{"id": each, "props": CATEGORY} for each in ("a", "b")])
    engine.run(load("node/put", "Taxonomy"), id="a", props=TAXONOMY)
    engine.run(load("taxonomy/put_root"), id="a", root="a")
    engine.run(load("taxonomy/put_children"), rows=[{"parent": "a", "child": "b", "position": 0}])
    engine.run(load("taxonomy/hold_agents"), rows=[{"category": "a", "entity": "a", "by": "vectors"}])
    rule = {"description": "", "tools": ["a"], "agents": [], "tags": [], "callers": []}
    engine.run(load("node/put", "Toolset"), id="a", props=rule)
    engine.run(load("node/put"), id="a", props={"name": "a"})
    engine.run(load("toolset/include"), rows=[{"toolset": "a", "tool": "a"}])
    engine.run(load("skill/teach"), rows=[{"skill": "a", "other": "a"}])
    engine.run(load("skill/need"), rows=[{"skill": "a", "other": ORPHANS[0]}])


def sample(name: str) -> dict[str, object]:
    """A value of the declared type for each parameter."""
    return {parameter: SAMPLES[kind] for parameter, kind in load(name).params.items()}
