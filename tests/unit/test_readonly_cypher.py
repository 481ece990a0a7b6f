"""Which statements pass as plain reads, in either dialect: the first of three lines around strangers' Cypher."""

import contextlib
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks import HARMLESS, HIDDEN, PLAIN, REFUSED_ON_A_SERVER
from waygraph.registry.graph.user_cypher.allow_list import GRAFEO, NEO4J, Dialect, check_read_only, tokens_of
from waygraph.registry.graph.user_cypher.neo4j_runner import check_ranges
from waygraph.registry.model.errors import CypherRefused


def spaced_by_comments(statement: str) -> str:
    return statement.replace(" ", "/* a 'read' */")


def spaced_by_lines(statement: str) -> str:
    return statement.replace(" ", " // MATCH (n) RETURN n\r\n")


def alternating(statement: str) -> str:
    return "".join(letter.lower() if i % 2 else letter.upper() for i, letter in enumerate(statement))


DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "lower": str.lower,
    "alternating": alternating,
    "comments": spaced_by_comments,
    "lines": spaced_by_lines,
    "tabs": lambda statement: statement.replace(" ", "\t\n"),
    "semicolons": lambda statement: statement + " ;; // end",
    "after a read": lambda statement: "MATCH (z:Tool) WHERE z.id = 'RETURN' WITH z " + statement,
}

LEGAL = [
    "MATCH (n) RETURN n",
    "MATCH (n) RETURN n;",
    "match (n) return n ; ; // done",
    "/* first */ MATCH (n) // then\r\n RETURN n",
    "MATCH (n) WHERE n.set = 1 RETURN n.create",
    "MATCH (n) WHERE n.load IS NOT NULL RETURN n.delete AS merge",
    "MATCH (n:Load) RETURN n",
    "MATCH (n:Set:Create) RETURN n",
    "MATCH (n:A|Delete&!Merge) RETURN n",
    "MATCH ()-[r:DELETE|:SET*1..3]->() RETURN r",
    "MATCH (n {delete: 1, set: 2}) RETURN n",
    "RETURN {delete: 1, `set`: 2} AS load",
    "MATCH (set:Tool) RETURN set.id",
    "MATCH (load) RETURN load.id",
    "MATCH ()-[merge]->() RETURN merge.w",
    "MATCH (`delete`) RETURN `delete`",
    "MATCH (start)-->(end) RETURN start, end",
    "MATCH (use), (session), (import), (copy), (show) RETURN use, session, import, copy, show",
    "RETURN 'CREATE (n)' AS x",
    'RETURN "it\'s; DELETE n" AS x',
    r"RETURN 'it\'s \\' AS x",
    "MATCH (n) /* DELETE n */ RETURN n // SET n.x = 1",
    "RETURN $set, $`delete`, $1",
    "RETURN '\\u00e9' AS accent",
    "RETURN 'многое, 多い, 👩‍🔧' AS x",
    "MATCH (агент:Агент) RETURN агент.имя",
    "MATCH (n WHERE n.id = 'x') RETURN n",
    "MATCH (a)-[r:OWNS WHERE r.w > 1]->(b) RETURN b",
    "RETURN n.1 AS x",
    "RETURN 0x1F, 0o17, 1e3, .5, 1.5E-3, 5",
    "CALL db.labels() YIELD label RETURN label",
    "CALL GRAFEO.PageRank({damping: 0.85}) YIELD node_id AS n, score RETURN n ORDER BY score DESC",
    "CALL `grafeo`.`louvain`()",
    "CALL (a, b) { RETURN 1 AS x } RETURN x",
    "CALL { CALL { RETURN 1 AS x } RETURN x } RETURN x",
    "RETURN COLLECT { MATCH (n) RETURN n.id } AS ids",
    "RETURN CASE {a: 1}.a WHEN 1 THEN 'SET' ELSE null END AS x",
    "RETURN 1 AS x UNION ALL RETURN 2 AS x UNION DISTINCT RETURN 3 AS x",
    "WITH * MATCH (n) WITH DISTINCT *, 1 AS x RETURN *",
    "RETURN count(*) * 2 AS x, [1, 2][0..1] AS y, -1 AS z",
]  # fmt: skip


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


def refused(statement: str) -> str:
    with pytest.raises(CypherRefused) as caught:
        check_read_only(statement, max_chars=20_000)
    return str(caught.value)


def refused_by(dialect: Dialect, statements: Iterable[str]) -> list[str]:
    """Those of the statements that are refused."""
    found = []
    for statement in statements:
        try:
            check_read_only(statement, max_chars=20_000, dialect=dialect)
        except CypherRefused:
            found.append(statement)
    return found


@pytest.mark.parametrize("dialect", [GRAFEO, NEO4J], ids=["grafeo", "neo4j"])
def test_every_attack_is_refused_in_every_dress(dialect: Dialect) -> None:
    """Writing, reading files and administering, however spelled and spaced; and what is hidden from the eye."""
    attacks = [disguise(attack) for attack in PLAIN.values() for disguise in DISGUISES.values()]
    attacks += HIDDEN.values()
    attacks += REFUSED_ON_A_SERVER.values() if dialect is NEO4J else ()
    assert len(set(attacks)) >= 300
    assert set(attacks) - set(refused_by(dialect, attacks)) == set()


def test_reads_pass_even_with_names_that_look_like_clauses() -> None:
    """A property, label, key, alias or quoted name may be called like a clause; parameters are values."""
    harmless = [text for text, _ in HARMLESS.values()]
    assert refused_by(GRAFEO, [*LEGAL, *harmless, *REFUSED_ON_A_SERVER.values()]) == []
    of_both = [legal for legal in LEGAL if EMBEDDED_ONLY not in legal.lower()]
    assert refused_by(NEO4J, [*CALLS, *of_both, *harmless]) == []


def test_a_refusal_says_where_and_what_to_do() -> None:
    assert refused("MATCH (n)\n  SET n.x = 1") == (
        "line 2, column 3: SET is refused: it is a clause that does more than read. "
        "If it is a name, put it in backticks: `SET`."
    )


def test_a_refused_procedure_is_told_with_the_way_to_the_others() -> None:
    message = refused("CALL apoc.load.json('x')")
    assert "CALL of apoc.load.json" in message
    assert "CALL grafeo.procedures()" in message


def test_a_statement_longer_than_the_limit_is_refused() -> None:
    statement = "RETURN " + "1 + " * 30 + "1"
    check_read_only(statement, max_chars=len(statement))
    with pytest.raises(CypherRefused, match=f"has {len(statement)} characters, {len(statement) - 1} are allowed"):
        check_read_only(statement, max_chars=len(statement) - 1)


def test_tokens_are_cut_as_the_engine_cuts_them() -> None:
    """Dots, ranges, escapes and comments end where the engine ends them."""
    statement = "a.b [1..5] .5 'x\\'y' `c``d` $p // e\n/* f */ g<>h"
    assert [token.text for token in tokens_of(statement)] == [
        "a", ".", "b", "[", "1", "..", "5", "]", ".5", "'x\\'y'", "`c`", "`d`", "$p", "g", "<", ">", "h",
    ]  # fmt: skip


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


def check_neo4j(statement: str) -> None:
    check_read_only(statement, max_chars=20_000, dialect=NEO4J)


def test_a_refused_call_is_told_with_those_that_are_allowed() -> None:
    with pytest.raises(CypherRefused) as function:
        check_neo4j("RETURN 1,\n apoc.load.json('x')")
    assert str(function.value).startswith("line 2, column 16: apoc.load.json is not among the functions")
    assert "vector have some" in str(function.value)
    with pytest.raises(CypherRefused, match=r"CALL of apoc\.load\.json is not allowed.* db\.labels, db\.propertyKeys"):
        check_neo4j("CALL apoc.load.json('x')")


@pytest.mark.parametrize("numbers", ["0, 1000000", "1, 1000, 2", "0, size($x) - 1", "0, 1e3", "-5, 0x10"])
def test_a_range_of_moderate_length_passes(numbers: str) -> None:
    check_ranges(list(tokens_of(f"RETURN [x IN range({numbers}) | x]")))


@pytest.mark.parametrize("numbers", ["0, 1000001", "-2000000, 0", "1, 1e9", "0, 0xFFFFFFFFFF", "0, 0o77777777"])
def test_a_long_range_may_only_come_as_rows(numbers: str) -> None:
    for spelled in ("range", "RANGE", "`range`"):
        with pytest.raises(CypherRefused, match="behind UNWIND"):
            check_ranges(list(tokens_of(f"RETURN [x IN {spelled}({numbers}) | x]")))
        check_ranges(list(tokens_of(f"UNWIND {spelled}({numbers}) AS x RETURN x")))


LURES = sorted(
    {"CREATE", "SET", "DELETE", "LOAD CSV FROM '", "; DROP", "*/", "//", "/*", "}", "{", ")", "|", "FOREACH ("}
)
plain_text = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\\'\"`"), max_size=20
)
lure = st.lists(st.one_of(st.sampled_from(LURES), plain_text), max_size=6).map(" ".join)


@given(lure)
def test_text_in_a_string_never_changes_the_decision(text: str) -> None:
    quoted = text.replace("'", "\\'")
    check_read_only(f"MATCH (n) WHERE n.id = '{quoted}' RETURN n", max_chars=20_000)
    check_read_only(f'MATCH (n) WHERE n.id = "{quoted}" RETURN n', max_chars=20_000)
    check_read_only(f"MATCH (n) RETURN n.`{text}` AS `{text}`", max_chars=20_000)
    check_read_only(f"MATCH (n) // {text}\nRETURN n", max_chars=20_000)
    check_read_only(f"MATCH (n) /* {text.replace('*/', '')} */ RETURN n", max_chars=20_000)


@given(lure)
def test_text_around_a_write_never_lets_it_pass(text: str) -> None:
    quoted = text.replace("'", "\\'")
    refused(f"MATCH (n) WHERE n.id = '{quoted}' DELETE n")
    refused(f"MATCH (n) // {text}\nSET n.x = 1")
    refused(f"/* {text.replace('*/', '')} */ LOAD CSV FROM 'x' AS y RETURN y")


@given(st.text(max_size=200))
def test_any_text_gets_a_decision(text: str) -> None:
    with contextlib.suppress(CypherRefused):
        check_read_only(text, max_chars=20_000)
