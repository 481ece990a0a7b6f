"""Statement files: what the loader takes, and what it refuses."""

import pytest

from waygraph.cypher import BadStatement, load, names
from waygraph.cypher.loader import TYPES, parse
from waygraph.registry.graph.engine import check_params

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
