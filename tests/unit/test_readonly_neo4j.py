"""Which statements pass as plain reads in Neo4j's dialect: where it differs from the embedded one's, and where not."""

import pytest

from tests.attacks import HARMLESS, HIDDEN, PLAIN, REFUSED_ON_A_SERVER
from tests.unit.test_readonly_cypher import DISGUISES, LEGAL
from waygraph.registry.graph.user_cypher.allow_list import GRAFEO, NEO4J, check_read_only, tokens_of
from waygraph.registry.graph.user_cypher.neo4j_runner import check_ranges
from waygraph.registry.model.errors import CypherRefused

EMBEDDED_ONLY = "grafeo"

CALLS = [
    "CALL db.labels()",
    "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey",
    "CALL `db`.`relationshipTypes`() YIELD relationshipType RETURN relationshipType",
    "CALL db /* . */ . schema . visualization() YIELD nodes RETURN nodes",
    "CALL db.index.vector.queryNodes('agent_vector_384', 5, $vector) YIELD node, score RETURN node.id, score",
    "CALL (q) { CALL db.index.fulltext.queryNodes('name', q) YIELD node RETURN node } RETURN node",
    "RETURN date.truncate('month', date()), datetime . fromEpoch(1, 2), DURATION.inDays(date(), date())",
    "RETURN `vector`.similarity.`cosine`([1.0], [1.0])",
    "RETURN point.distance(point({x: 1, y: 2}), point({x: 1, y: 3}))",
    "RETURN toLower(n.name), n.name, n.load, size(n.tags), (n.x) + (n.y)",
    "MATCH (n) WHERE n.kind IN ('a' + 'b') AND (n.x) = 1 RETURN count(n.x)",
    "RETURN [x IN range(0, size($list) - 1) | $list[x]]",
]


def check(statement: str) -> None:
    check_read_only(statement, max_chars=20_000, dialect=NEO4J)


@pytest.mark.parametrize("attack", PLAIN.values(), ids=PLAIN)
def test_what_the_embedded_engine_refuses_is_refused(attack: str) -> None:
    """Whatever writes, reads files or administers is refused on a server too, in every dress."""
    for disguise in DISGUISES.values():
        with pytest.raises(CypherRefused):
            check(disguise(attack))


@pytest.mark.parametrize("attack", HIDDEN.values(), ids=HIDDEN)
def test_what_is_hidden_from_the_eye_is_refused(attack: str) -> None:
    """Escapes, odd characters and unfinished texts are refused on a server too."""
    with pytest.raises(CypherRefused):
        check(attack)


@pytest.mark.parametrize("statement", [text for text, _ in HARMLESS.values()], ids=HARMLESS)
def test_what_only_looks_like_an_attack_passes(statement: str) -> None:
    """Parameters are values, whatever they say."""
    check(statement)


@pytest.mark.parametrize("statement", [*CALLS, *(legal for legal in LEGAL if EMBEDDED_ONLY not in legal.lower())])
def test_reads_pass(statement: str) -> None:
    """Harmless procedures and functions may be called, and all that passes on the embedded engine passes."""
    check(statement)


@pytest.mark.parametrize("attack", REFUSED_ON_A_SERVER.values(), ids=REFUSED_ON_A_SERVER)
def test_what_reaches_further_is_refused(attack: str) -> None:
    """Dotted functions that are not known to be harmless."""
    with pytest.raises(CypherRefused):
        check(attack)


def test_a_dialect_takes_nothing_from_the_other() -> None:
    """Neo4j's procedures are not allowed on Grafeo, nor Grafeo's on Neo4j; without a dialect it is Grafeo's."""
    for statement, dialect in (
        ("CALL db.index.vector.queryNodes('x', 1, [1.0])", GRAFEO),
        ("CALL db.schema.visualization()", GRAFEO),
        ("CALL grafeo.louvain()", NEO4J),
    ):
        with pytest.raises(CypherRefused, match="is not allowed"):
            check_read_only(statement, max_chars=1_000, dialect=dialect)
    check_read_only("CALL grafeo.louvain()", max_chars=1_000)


def test_a_refused_call_is_told_with_those_that_are_allowed() -> None:
    """The message names what was called, where it stands, and what may be called."""
    with pytest.raises(CypherRefused) as function:
        check("RETURN 1,\n apoc.load.json('x')")
    assert str(function.value).startswith("line 2, column 16: apoc.load.json is not among the functions")
    assert "vector have some" in str(function.value)
    with pytest.raises(CypherRefused, match=r"CALL of apoc\.load\.json is not allowed.* db\.labels, db\.propertyKeys"):
        check("CALL apoc.load.json('x')")


@pytest.mark.parametrize("numbers", ["0, 1000000", "1, 1000, 2", "0, size($x) - 1", "0, 1e3", "-5, 0x10"])
def test_a_range_of_moderate_length_passes(numbers: str) -> None:
    """Up to a million, or up to what is only known when it runs."""
    check_ranges(list(tokens_of(f"RETURN [x IN range({numbers}) | x]")))


@pytest.mark.parametrize("numbers", ["0, 1000001", "-2000000, 0", "1, 1e9", "0, 0xFFFFFFFFFF", "0, 0o77777777"])
def test_a_long_range_may_only_come_as_rows(numbers: str) -> None:
    """Behind UNWIND it may be as long as it will."""
    for spelled in ("range", "RANGE", "`range`"):
        with pytest.raises(CypherRefused, match="behind UNWIND"):
            check_ranges(list(tokens_of(f"RETURN [x IN {spelled}({numbers}) | x]")))
        check_ranges(list(tokens_of(f"UNWIND {spelled}({numbers}) AS x RETURN x")))
