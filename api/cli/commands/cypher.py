"""`cypher`: asks the graph statements, one of an argument or several of standard input."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Invocation, Texts, json_or_text
from waygraph.api.cli.render.output import Aside, Block, Cell, Table, complain, note
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import WaygraphError


def cypher(
    options: Invocation,
    statement: Annotated[
        str | None,
        Argument(metavar="STATEMENT", help="Without one: those of standard input, each ended by ; or an empty line."),
    ] = None,
    param: Annotated[Texts, Option(metavar="NAME=VALUE", help="A parameter, as JSON where it is JSON. Repeat.")] = None,
) -> None:
    """Ask the graph in Cypher. Statements only read, with a limit of time and memory.

    waygraph cypher 'MATCH (a:Agent)-[:OWNS]->(t:Tool) RETURN a.id, count(t) AS tools'
    """
    params = parameters(param or ())
    with options.open() as registry:

        def ask(text: str) -> None:
            result = registry.operator.cypher(text, params)
            options.show(result, _view_rows)
            note(result.notice)
            if result.truncated:
                note(f"only the first {len(result.rows)} rows are shown (WAYGRAPH_CYPHER_MAX_ROWS)")

        if statement is not None:
            ask(statement)
            return

        is_failed = False
        for text in statements(sys.stdin):
            try:
                ask(text)
            except WaygraphError as error:
                is_failed = True
                complain(str(error))
        if is_failed:
            raise typer.Exit(1)


def _view_rows(result: CypherResult) -> Iterator[Block]:
    yield Table(columns=result.columns, rows=[[_cell(value) for value in row] for row in result.rows])
    yield Aside(f"{len(result.rows)} row{'s' * (len(result.rows) != 1)} in {result.elapsed_ms:.1f} ms")


def _cell(value: object) -> Cell:
    """Texts and numbers as they are, the rest as JSON."""
    return value if value is None or isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)


def parameters(texts: Sequence[str]) -> dict[str, object]:
    """Each `name=value`; a value that is no JSON is a text. Raises BadParameter."""
    params: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--param'")
        params[name.strip().removeprefix("$")] = json_or_text(value)
    return params


def statements(lines: Iterable[str]) -> Iterator[str]:
    """Each as soon as it is whole."""
    statement: list[str] = []
    for line in chain(lines, [""]):
        statement.append(line)
        if not line.strip() or line.rstrip().endswith(";"):
            if text := "".join(statement).strip().rstrip(";").strip():
                yield text
            statement.clear()
