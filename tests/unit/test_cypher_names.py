"""Names in a statement that no registry has."""

import json
import re
from pathlib import Path

from waygraph.cypher import load, names
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.user_cypher.sandbox import NAMES, unknown_names
from waygraph.registry.model.changes import Document
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry


def test_unknown_names_are_told_with_the_nearest() -> None:
    """Labels, types and properties of patterns and of what they bind; other names are nobody's slip."""
    cases = {
        "MATCH (a:Agnet) RETURN a.id": "'Agnet'; did you mean Agent?",
        "MATCH (a:Agent)-[:OWN]->(t:Tool) RETURN t.id": "'OWN'; did you mean OWNS?",
        "MATCH (a:Agent) WHERE a.descripton = 'x' RETURN a.id": "'descripton'; did you mean description?",
        "MATCH (a:Agent {nmae: 'x'}) RETURN a": "'nmae'; did you mean name?",
        "MATCH (a)-[c:CLAIMS|OWNED]->(b) RETURN c.since": "'OWNED'; did you mean OWNS?",
        "MATCH (a:`Agent`)-[:OWNS]->(t) RETURN a.name, count(t) AS n, {x: 1} AS m ORDER BY n": "",
        "UNWIND [{p: 1}] AS r WITH r WHERE r.p = 1 RETURN r.p, date('2026-01-01').year": "",
        "MATCH (a:Agent) /* (b:Nobody) */ RETURN '(c:Nobody)', a.id // (d:Nobody)": "",
        "no Cypher (:": "",
    }
    assert {text for text, part in cases.items() if part not in unknown_names(text)} == set()
    assert {text for text, part in cases.items() if not part and unknown_names(text)} == set()


def test_all_names_of_our_own_statements_are_known() -> None:
    """What a statement reads or writes in a file, a typed one may name without a notice."""
    texts = [load(name, "Agent").text for name in names() if not name.startswith("neo4j/")]
    assert [notice for text in texts if (notice := unknown_names(text))] == []
    types = {name for text in texts for name in re.findall(r"\[\w*:(\w+)", text)}
    assert types == NAMES["relationship type"], "no type of the table is one that nothing writes"


def test_a_file_tells_of_a_slip(tmp_path: Path) -> None:
    """Beside the answer, which is as it was; and all names that it holds are known."""
    entries = [{"id": "a", "transport": {"command": "x"}, "tools": [{"name": "t"}]}]
    registry = Registry.open(tmp_path / "r.grafeo", embedder="none")
    with registry:
        documents = [Document("c.json", json.dumps({"waygraph": 1, "agents": entries}))]
        for manifest in read_documents(documents, Settings(), source="s", namespace="", kind=""):
            sync(registry, manifest)
        slip = registry.operator.cypher("MATCH (a:Agnet) RETURN count(a)")
        assert (slip.rows, "did you mean Agent?" in slip.notice) == (((0,),), True)
        assert registry.operator.cypher("MATCH (a:Agent) RETURN count(a)").notice == ""
        assert_known(registry)


def assert_known(registry: Registry) -> None:
    for call, kind in (("labels", "label"), ("relationshipTypes", "relationship type"), ("propertyKeys", "property")):
        names = {row[0] for row in registry.operator.cypher(f"CALL db.{call}()").rows}
        assert names
        assert names <= NAMES[kind]
