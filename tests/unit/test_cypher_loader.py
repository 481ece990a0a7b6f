"""Statement files: what the loader takes and refuses, and which names statements may use."""

import json
import re
from pathlib import Path

import pytest

from waygraph.cypher import BadStatement, load, names
from waygraph.cypher.loader import TYPES, parse
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.engine import check_params
from waygraph.registry.graph.user_cypher.sandbox import NAMES, unknown_names
from waygraph.registry.model.changes import Document
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

GOOD = """// Agents by id.
// params: ids list<string>, limit integer
// returns: id string
MATCH (agent:Agent) WHERE agent.id IN $ids
RETURN agent.id AS id LIMIT $limit"""


@pytest.mark.parametrize("name", names())
def test_every_statement_of_ours_can_be_loaded(name: str) -> None:
    statement = load(name)
    assert statement.name == name
    assert statement.purpose.endswith(".")
    assert {*statement.params.values(), *statement.returns.values()} <= TYPES.keys()


def test_a_statement_of_any_label_is_made_for_one() -> None:
    """The label stands in place of `Node`, in the name of a constraint too; the rest is the file's."""
    whole = load("schema/unique_id", "Toolset")
    assert whole.text == "CREATE CONSTRAINT toolset_id IF NOT EXISTS FOR (node:Toolset) REQUIRE node.id IS UNIQUE"
    assert whole.neo4j_text == whole.text
    assert load("node/put", "Setting").text == "MERGE (node:Setting {id: $id}) SET node += $props"
    assert load("node/put", "Setting").params == load("node/put").params


def test_a_statement_tells_its_header() -> None:
    """Purpose, parameters and columns come from the header, the text has none of it."""
    statement = parse("test/agents", GOOD)
    assert statement.purpose == "Agents by id."
    assert statement.params == {"ids": "list<string>", "limit": "integer"}
    assert statement.returns == {"id": "string"}
    assert statement.text.startswith("MATCH")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("// params: ids list<string>, limit integer", "// params: ids list<string>"), "declares"),
        (("LIMIT $limit", ""), "declares"),
        (("list<string>", "list<date>"), "not `name type`"),
        (("ids list<string>", "ids"), "not `name type`"),
        (("// returns: id string\n", ""), "the header is a purpose"),
        (("LIMIT $limit", "LIMIT $limit; MATCH (n) DETACH DELETE n"), "without a semicolon"),
    ],
)
def test_a_file_that_disagrees_with_its_header_is_refused(change: tuple[str, str], reason: str) -> None:
    """Undeclared and unused parameters, unknown types, a missing line, a second statement."""
    with pytest.raises(BadStatement, match=reason):
        parse("test/agents", GOOD.replace(*change))


def test_what_stands_in_quotes_is_no_parameter() -> None:
    """`$name` and `;` inside a string, a name in backticks or a comment are text."""
    source = "// Quoted.\n// params: none\n// returns: none\nMATCH (n {a: '$x;', `$y`: \"$z\"}) RETURN n // $w;"
    assert parse("test/quoted", source).params == {}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"ids": []},
        {"ids": [], "limit": 1, "more": 1},
        {"ids": "a", "limit": 1},
        {"ids": [], "limit": "1"},
        {"ids": [], "limit": True},
        {"ids": [], "limit": None},
    ],
)
def test_parameters_must_be_the_declared_ones(given: dict[str, object]) -> None:
    """Missing, unknown or of another type: refused before any engine sees them. A boolean is no number."""
    with pytest.raises(BadStatement):
        check_params(parse("test/agents", GOOD), given)


def test_who_may_see_what_is_asked_in_the_same_words_everywhere() -> None:
    """Every statement that searches a server leaves out the same agents: five lines, whatever their indent."""
    begin, end = "(NOT owner:Apart OR", "($ask.agent_ids = [] OR owner.id IN $ask.agent_ids)"
    texts = [load(name).text for name in names() if name.startswith("neo4j/search/")]
    searching = [text for text in texts if begin in text and end in text]
    parts = [part for text in searching for part in text.split(begin)[1:]]
    assert len(searching) == 3
    assert len(parts) == 4
    assert len({" ".join(part[: part.index(end)].split()) for part in parts}) == 1


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
    texts = [load(name, "Agent").text for name in names() if not name.startswith(("neo4j/", "schema/drop"))]
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
