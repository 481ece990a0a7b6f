"""Whether a statement that a stranger typed only reads: decided from its words, before any engine sees it.

The statement is cut into tokens the way the engine cuts it, then read from left to right. At every word it is
known whether a clause may begin there (`Place`), and each place has a list of the words that may stand in it.
What is not on the list is refused, so a clause that a later engine invents is refused too. A word that
looks like a clause passes where the grammar allows nothing but a name (`n.set`, `:Load`, `{delete: 1}`),
and in backticks; where that is in doubt it is refused, and the message says to use backticks.

Engines differ in what may be called (`Dialect`): a procedure is on the list of its engine, and where functions may do
more than compute, so is a function whose name has a dot.

This is the first of three lines. `grafeo_worker` holds the others for Grafeo: the plan, and a process that can neither
write nor open a file. `neo4j_runner` and its worker hold those for Neo4j.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from waygraph.registry.model.errors import CypherRefused

MAX_CHARS = 20_000
"""Of a typed statement."""
OPENERS = frozenset({"MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "CALL"})
"""Words that begin a statement, a subquery or a branch of a UNION."""

VALUE_ENDS = frozenset({"END", "ASC", "ASCENDING", "DESC", "DESCENDING"})
"""Words with nothing but a clause, a comma or an operator behind them, be they keywords or names."""

FOLLOWERS = OPENERS | VALUE_ENDS | {
    "WHERE", "ORDER", "SKIP", "LIMIT", "UNION", "YIELD", "AS",
    "AND", "OR", "XOR", "IN", "IS", "STARTS", "ENDS", "CONTAINS",
    "WHEN", "THEN", "ELSE",
}  # fmt: skip
"""Words that may come after a value, a pattern or a name."""

PREFIXES = frozenset({"NOT", "CASE", "DISTINCT"})
"""Words that may come before a value."""

PAIRS = frozenset({("OPTIONAL", "MATCH"), ("ORDER", "BY"), ("STARTS", "WITH"), ("ENDS", "WITH"), ("CASE", "WHEN")})
"""Keywords of two words."""

WRITES = frozenset({
    "CREATE", "MERGE", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE", "DROP", "ALTER", "INSERT",
    "LOAD", "FOREACH", "TRANSACTIONS",
})  # fmt: skip
"""Words that change the graph or reach outside it: no unquoted name in a value's place either."""

KEYWORDS = FOLLOWERS | PREFIXES | WRITES | {"BY", "ALL"}

SUBQUERIES = frozenset({"CALL", "EXISTS", "COUNT", "COLLECT"})
"""Names whose `{` opens a subquery. The engine takes them in backticks as well."""

PROCEDURES = frozenset(
    {(first, name) for first in ("grafeo", "db") for name in ("labels", "propertykeys", "relationshiptypes")}
    | {("grafeo", "search", name) for name in ("mmr", "text", "vector")}
    | {
        ("grafeo", name)
        for name in (
            "articulation_points bellman_ford betweenness_centrality bfs bridges closeness_centrality "
            "clustering_coefficient connected_components degree_centrality dfs dijkstra floyd_warshall "
            "kcore kruskal label_propagation louvain max_flow min_cost_max_flow pagerank prim procedures "
            "sssp strongly_connected_components topological_sort"
        ).split()
    }
)
"""The engine's procedures that compute over the graph and change nothing: `CALL grafeo.procedures()`."""


def _split_names(names: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(name.lower().split(".")) for name in names.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What may be called on an engine, by the parts of its name in lower case. Functions None: all of them."""

    procedures: frozenset[tuple[str, ...]]
    dotted_functions: frozenset[tuple[str, ...]] | None
    advice: str
    """How to learn which procedures are allowed."""


GRAFEO = Dialect(
    procedures=PROCEDURES, dotted_functions=None, advice="CALL grafeo.procedures() lists the procedures that are"
)
"""Its functions reach nothing: the worker's process has no file, no network and nothing to write to."""

_NEO4J_PROCEDURES = """
    db.index.fulltext.queryNodes db.index.vector.queryNodes db.labels db.propertyKeys db.relationshipTypes
    db.schema.nodeTypeProperties db.schema.relTypeProperties db.schema.visualization
"""
_NEO4J_FUNCTIONS = """
    date.realtime date.statement date.transaction date.truncate
    datetime.fromepoch datetime.fromepochmillis datetime.realtime datetime.statement datetime.transaction
    datetime.truncate duration.between duration.inDays duration.inMonths duration.inSeconds
    localdatetime.realtime localdatetime.statement localdatetime.transaction localdatetime.truncate
    localtime.realtime localtime.statement localtime.transaction localtime.truncate
    point.distance point.withinBBox
    time.realtime time.statement time.transaction time.truncate
    vector.similarity.cosine vector.similarity.euclidean
"""
NEO4J = Dialect(
    procedures=_split_names(_NEO4J_PROCEDURES),
    # Plugins bring functions that read files and ask the network (apoc.load, genai): theirs have a dot in their names.
    dotted_functions=_split_names(_NEO4J_FUNCTIONS),
    advice=f"Those that are: {', '.join(_NEO4J_PROCEDURES.split())}",
)

NAME_BEFORE = frozenset(":|&!")
"""Behind these stands a label, a type or a value, never a clause."""

INVISIBLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
ESCAPE = re.compile(r"\\u+([0-9A-Fa-f]{4})")

TOKEN = re.compile(
    r"""
      (?P<space>     [ \t\r\n]+ )
    | (?P<comment>   //[^\n]* | /\*.*?\*/ )
    | (?P<string>    '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<quoted>    `[^`]*` )
    | (?P<parameter> \$(?: [^\W\d]\w* | [0-9]+ | `[^`]*` ) )
    | (?P<number>    (?: 0[xX][0-9a-fA-F]+ | 0[oO][0-7]+ | (?:[0-9]+(?:\.[0-9]+)? | \.[0-9]+)(?:[eE][+-]?[0-9]+)? )
                     (?!\w) )
    | (?P<word>      [^\W\d]\w* )
    | (?P<mark>      \.\. | /(?!\*) | [-+*%^=<>~(),.:;|&!\[\]{}] )
    """,
    re.VERBOSE | re.DOTALL,
)


class Place(Enum):
    """What the grammar expects next."""

    CLAUSE = "a clause"
    VALUE = "a value, a name or a pattern"
    FOLLOWER = "an operator or the next clause"


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is a group of `TOKEN`, or `end`; `text` is as typed; `start` counts characters from 0."""

    kind: str
    text: str
    start: int

    @property
    def keyword(self) -> str:
        """The word as the engine compares it; empty if this is no bare word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The word or the quoted name in lower case; empty for anything else."""
        return self.text.strip("`").lower() if self.kind in ("word", "quoted") else ""

    def is_mark(self, *texts: str) -> bool:
        return self.kind == "mark" and self.text in texts


def check_read_only(statement: str, *, max_chars: int = MAX_CHARS, dialect: Dialect = GRAFEO) -> None:
    """Raises CypherRefused, with the reason and the place, unless `statement` can do nothing but read."""
    if len(statement) > max_chars:
        raise CypherRefused(f"the statement has {len(statement):,} characters, {max_chars:,} are allowed")
    _check_characters(statement)
    tokens = list(tokens_of(statement))
    while tokens and tokens[-1].is_mark(";"):
        tokens.pop()
    _Reading(statement, tokens, dialect).check()


def tokens_of(statement: str) -> Iterator[Token]:
    """The tokens that mean something, in order. Raises CypherRefused where none can begin."""
    at = 0
    while at < len(statement):
        match = TOKEN.match(statement, at)
        if match is None or match.lastgroup is None:
            _refuse(statement, at, _why_no_token(statement[at:]))
        token = Token(match.lastgroup, match.group(), at)
        _check_quiet_parts(statement, token)
        if token.kind not in ("space", "comment"):
            yield token
        at = match.end()


def _check_characters(statement: str) -> None:
    if match := INVISIBLE.search(statement):
        _refuse(statement, match.start(), f"the invisible character U+{ord(match[0]):04X} is not allowed")
    for escape in ESCAPE.finditer(statement):
        # Some engines put the character in place before they cut the text into tokens.
        if not chr(int(escape[1], 16)).isalnum():
            _refuse(statement, escape.start(), f"{escape[0]} could end a string; write the character itself")


def _check_quiet_parts(statement: str, token: Token) -> None:
    """Where engines differ about the end of a comment or a name, the text after it is not what it seems."""
    if token.kind == "comment" and "\r" in token.text.rstrip("\r\n") and token.text.startswith("//"):
        _refuse(statement, token.start, "a comment may not hold a carriage return")
    if token.kind in ("quoted", "parameter") and re.search(r"[\r\n]", token.text):
        _refuse(statement, token.start, "a name in backticks may not go over a line's end")


def _why_no_token(rest: str) -> str:
    if rest.startswith("/*"):
        return "this comment has no end"
    if rest[0] in "'\"`":
        return f"the text after this {rest[0]} has no end"
    if rest[0].isdigit():
        return "a number may not run into a word; put a space between them"
    return f"the character {rest[0]!r} cannot stand here. If it belongs to a name, put the name in backticks"


def _refuse(statement: str, at: int, reason: str) -> NoReturn:
    line = statement.count("\n", 0, at) + 1
    column = at - (statement.rfind("\n", 0, at) + 1) + 1
    raise CypherRefused(f"line {line}, column {column}: {reason}.")


class _Reading:
    """One pass over the tokens: `at` is the current one, `place` what the grammar expects of it."""

    def __init__(self, statement: str, tokens: list[Token], dialect: Dialect) -> None:
        self.statement = statement
        self.tokens = tokens
        self.dialect = dialect
        self.at = 0
        self.place = Place.CLAUSE
        self.depth = 0
        self.scoped_subquery_at = -1
        self.procedure_at = -1

    def check(self) -> None:
        if not self.tokens:
            raise CypherRefused("the statement is empty. A statement begins with MATCH, CALL or RETURN.")
        while self.at < len(self.tokens):
            self._read()
            self.at += 1

    def _token(self, offset: int = 0) -> Token:
        index = self.at + offset
        return self.tokens[index] if 0 <= index < len(self.tokens) else Token("end", "", len(self.statement))

    def _read(self) -> None:
        match self._token().kind:
            case "word":
                self._word()
            case "mark":
                self._mark()
            case "quoted":
                # The engine takes `FOREACH` for the clause, in backticks too.
                is_foreach = self._token().name == "foreach" and self._token(1).is_mark("(")
                if self.place is Place.FOLLOWER or is_foreach:
                    self._refuse(
                        f"{self._token().text} cannot stand here: an operator or a clause is missing before it"
                    )
                self._value()
            case _:
                self._value()

    def _value(self) -> None:
        if self.place is Place.CLAUSE:
            self._refuse_opening()
        self.place = Place.FOLLOWER

    def _mark(self) -> None:
        mark = self._token().text
        if mark == ";":
            self._refuse("only one statement at a time is allowed")
        if self.place is Place.CLAUSE and not (mark == "(" and self.depth):
            self._refuse_opening()
        if mark == "(":
            self._check_function()
        if mark == "{":
            self._brace()
        elif mark in ")]}" or (mark == "*" and self.place is Place.VALUE):
            self.depth -= mark == "}"
            self.place = Place.FOLLOWER
        else:
            self.place = Place.VALUE

    def _check_function(self) -> None:
        """Before a parenthesis: is this the call of a function with a dot in its name that not every one may call?"""
        has_namespace = self._token(-2).is_mark(".") or "." in self._token(-1).name
        if self.dialect.dotted_functions is None or not has_namespace or self.at - 1 == self.procedure_at:
            return
        parts = self._name_before()
        if parts not in self.dialect.dotted_functions:
            self._refuse(
                f"{'.'.join(parts)} is not among the functions that are known to do nothing but compute: "
                f"{', '.join(sorted({parts[0] for parts in self.dialect.dotted_functions}))} have some"
            )

    def _name_before(self) -> tuple[str, ...]:
        """The dotted name that ends before this token, in its parts."""
        parts: list[str] = []
        offset = -1
        while self._token(offset).name:
            parts.insert(0, self._token(offset).name)
            offset -= 2 if self._token(offset - 1).is_mark(".") else len(self.tokens)
        return tuple(parts)

    def _brace(self) -> None:
        self.depth += 1
        if self._token(-1).name.upper() in SUBQUERIES or self.at == self.scoped_subquery_at:
            self.place = Place.CLAUSE
            return
        self.place = Place.VALUE
        key, after = self._token(1), self._token(2)
        if key.name and not after.is_mark(":", ",", "}"):
            self._refuse(f"after {{ a map's key and a colon must follow, not {key.text} {after.text}".rstrip())

    def _word(self) -> None:
        word = self._token().keyword
        if word in KEYWORDS and not self._token().text.isascii():
            self._refuse(f"{self._token().text} reads as {word}; write it in plain letters, or in backticks")
        match self.place:
            case Place.CLAUSE if self._token(-1).keyword == "UNION" and word in ("ALL", "DISTINCT"):
                pass
            case Place.CLAUSE:
                if word not in OPENERS:
                    self._refuse_opening()
                self._keyword(word)
            case Place.FOLLOWER:
                if word not in FOLLOWERS:
                    self._refuse_word("it is no operator, and no clause that only reads")
                self._keyword(word)
            case Place.VALUE:
                self._word_in_a_values_place(word)

    def _keyword(self, word: str) -> None:
        if word == "CALL":
            self._call()
        elif word == "UNION":
            self.place = Place.CLAUSE
        else:
            self.place = Place.FOLLOWER if word in VALUE_ENDS else Place.VALUE

    def _word_in_a_values_place(self, word: str) -> None:
        if self._must_be_a_name():
            self.place = Place.FOLLOWER
        elif word in PREFIXES or (self._token(-1).keyword, word) in PAIRS:
            self.place = Place.VALUE
        elif word in (FOLLOWERS | WRITES) - VALUE_ENDS and not self._may_be_a_name():
            self._refuse_word("a keyword cannot stand here")
        else:
            self.place = Place.FOLLOWER

    def _must_be_a_name(self) -> bool:
        """A property, an alias or a map's key."""
        before = self._token(-1)
        if before.is_mark("."):
            # `1.SET` is a number with a point to some, and a property of 1 to others.
            return self._token(-2).kind != "number"
        return before.keyword == "AS" or (before.is_mark("{", ",") and self._token(1).is_mark(":"))

    def _may_be_a_name(self) -> bool:
        """A label, a type, the variable of a pattern, or a variable whose property is read."""
        before, after = self._token(-1), self._token(1)
        in_pattern = before.is_mark("(", "[") and after.is_mark(")", "]", ":", "{", "*")
        behind_a_mark = before.is_mark(*NAME_BEFORE) and not after.is_mark("(")
        return behind_a_mark or in_pattern or after.is_mark(".")

    def _call(self) -> None:
        self.place = Place.VALUE
        if self._token(1).is_mark("("):
            self._scope()
        elif not self._token(1).is_mark("{"):
            self._procedure()

    def _scope(self) -> None:
        """`CALL (a, b) {`: the variables that the subquery sees."""
        self.at += 1
        while self._token(1).name or self._token(1).is_mark(",", "*"):
            self.at += 1
        if not (self._token(1).is_mark(")") and self._token(2).is_mark("{")):
            self._refuse("after CALL a subquery in braces or a procedure's name must follow")
        self.at += 1
        self.scoped_subquery_at = self.at + 1

    def _procedure(self) -> None:
        parts = [self._token(1).name]
        self.at += 1
        while self._token(1).is_mark(".") and self._token(2).name:
            parts.append(self._token(2).name)
            self.at += 2
        if tuple(parts) not in self.dialect.procedures:
            self._refuse(f"CALL of {'.'.join(parts) or 'nothing'} is not allowed. {self.dialect.advice}")
        self.procedure_at = self.at
        self.place = Place.FOLLOWER

    def _refuse_opening(self) -> NoReturn:
        self._refuse(
            f"{self._token().text} cannot begin a statement or subquery here: only reading is allowed, "
            f"with one of {', '.join(sorted(OPENERS))}"
        )

    def _refuse_word(self, reason: str) -> NoReturn:
        text = self._token().text
        why = "it is a clause that does more than read" if text.upper() in WRITES else reason
        self._refuse(f"{text} is refused: {why}. If it is a name, put it in backticks: `{text}`")

    def _refuse(self, reason: str) -> NoReturn:
        _refuse(self.statement, self._token().start, reason)
