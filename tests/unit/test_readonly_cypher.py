"""Which statements pass as plain reads: the first of the three lines around Cypher that strangers type."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.attacks import HARMLESS, HIDDEN, PLAIN, REFUSED_ON_A_SERVER
from waygraph.registry.graph.user_cypher.allow_list import check_read_only, tokens_of
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


def refused(statement: str) -> str:
    with pytest.raises(CypherRefused) as caught:
        check_read_only(statement, max_chars=20_000)
    return str(caught.value)


@pytest.mark.parametrize("attack", PLAIN.values(), ids=PLAIN)
def test_what_is_more_than_a_read_is_refused_in_every_dress(attack: str) -> None:
    """A statement that writes, reads files or administers is refused, however it is spelled and spaced."""
    for disguise in DISGUISES.values():
        refused(disguise(attack))


@pytest.mark.parametrize("attack", HIDDEN.values(), ids=HIDDEN)
def test_what_is_hidden_from_the_eye_is_refused(attack: str) -> None:
    """Escapes, odd characters and unfinished strings and comments are refused: engines differ about them."""
    refused(attack)


def test_what_passes_is_left_to_the_worker() -> None:
    """A file's functions reach nothing, and what only looks like an attack is a read."""
    for statement in (*REFUSED_ON_A_SERVER.values(), *(text for text, _ in HARMLESS.values())):
        check_read_only(statement, max_chars=20_000)


@pytest.mark.parametrize("statement", LEGAL)
def test_reads_pass_even_with_names_that_look_like_clauses(statement: str) -> None:
    """A read passes; a property, label, key, alias or quoted name may be called like a clause."""
    check_read_only(statement, max_chars=20_000)


def test_a_refusal_says_where_and_what_to_do() -> None:
    """The message names the line, the column and the word, and how to write it if it is a name."""
    assert refused("MATCH (n)\n  SET n.x = 1") == (
        "line 2, column 3: SET is refused: it is a clause that does more than read. "
        "If it is a name, put it in backticks: `SET`."
    )


def test_a_refused_procedure_is_told_with_the_way_to_the_others() -> None:
    """A procedure that is not on the list is named, with the call that lists those that are."""
    message = refused("CALL apoc.load.json('x')")
    assert "CALL of apoc.load.json" in message
    assert "CALL grafeo.procedures()" in message


def test_a_statement_longer_than_the_limit_is_refused() -> None:
    """The message names the setting that raises the limit on a statement's length."""
    statement = "RETURN " + "1 + " * 30 + "1"
    check_read_only(statement, max_chars=len(statement))
    with pytest.raises(CypherRefused, match="WAYGRAPH_CYPHER_MAX_CHARS"):
        check_read_only(statement, max_chars=len(statement) - 1)


def test_tokens_are_cut_as_the_engine_cuts_them() -> None:
    """Dots, ranges, escapes and comments end where the engine ends them."""
    statement = "a.b [1..5] .5 'x\\'y' `c``d` $p // e\n/* f */ g<>h"
    assert [token.text for token in tokens_of(statement)] == [
        "a", ".", "b", "[", "1", "..", "5", "]", ".5", "'x\\'y'", "`c`", "`d`", "$p", "g", "<", ">", "h",
    ]  # fmt: skip


LURES = sorted(
    {"CREATE", "SET", "DELETE", "LOAD CSV FROM '", "; DROP", "*/", "//", "/*", "}", "{", ")", "|", "FOREACH ("}
)
plain_text = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\\'\"`"), max_size=20
)
lure = st.lists(st.one_of(st.sampled_from(LURES), plain_text), max_size=6).map(" ".join)


@given(lure)
def test_text_in_a_string_never_changes_the_decision(text: str) -> None:
    """Whatever stands in a string, a name in backticks or a comment, a read stays a read."""
    quoted = text.replace("'", "\\'")
    check_read_only(f"MATCH (n) WHERE n.id = '{quoted}' RETURN n", max_chars=20_000)
    check_read_only(f'MATCH (n) WHERE n.id = "{quoted}" RETURN n', max_chars=20_000)
    check_read_only(f"MATCH (n) RETURN n.`{text}` AS `{text}`", max_chars=20_000)
    check_read_only(f"MATCH (n) // {text}\nRETURN n", max_chars=20_000)
    check_read_only(f"MATCH (n) /* {text.replace('*/', '')} */ RETURN n", max_chars=20_000)


@given(lure)
def test_text_around_a_write_never_lets_it_pass(text: str) -> None:
    """Whatever stands in a string or a comment beside it, a write stays refused."""
    quoted = text.replace("'", "\\'")
    refused(f"MATCH (n) WHERE n.id = '{quoted}' DELETE n")
    refused(f"MATCH (n) // {text}\nSET n.x = 1")
    refused(f"/* {text.replace('*/', '')} */ LOAD CSV FROM 'x' AS y RETURN y")


@given(st.text(max_size=200))
def test_any_text_gets_a_decision(text: str) -> None:
    """No text makes the check fail in another way than by refusing."""
    with contextlib.suppress(CypherRefused):
        check_read_only(text, max_chars=20_000)
