"""`cypher`: a read-only statement over the graph, or a shell for many."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from waygraph.api.cli.invocation import invocation
from waygraph.api.cli.options import AsJson
from waygraph.api.cli.shown.output import note, show

_MISSING = re.compile(r"(?:Missing parameter: \$|Expected parameter\(s\): )(\w+)")
"""As Grafeo says it, and as Neo4j does."""


def cypher(
    context: typer.Context,
    statement: Annotated[
        str | None, typer.Argument(metavar="STATEMENT", help="Without one: a shell, or statements from standard input.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="A parameter, as JSON where it is JSON. Repeat."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ask the graph in Cypher. Statements only read, with a limit of time and memory.

    waygraph cypher 'MATCH (a:Agent)-[:OWNS]->(t:Tool) RETURN a.id, count(t) AS tools'
    """
    from waygraph.api.cli.shown import operating_views
    from waygraph.registry.wire import shapes as wire

    params = parameters(param or ())
    told = invocation(context)
    with told.open() as registry:

        def ask(asked: str, given: Mapping[str, object]) -> None:
            with _naming_parameters(":param " if statement is None else "--param "):
                result = registry.cypher(asked, given)
            show(result, wire.cypher, operating_views.cypher, as_json)
            if result.truncated:
                note(f"only the first {len(result.rows)} rows are shown (WAYGRAPH_CYPHER_MAX_ROWS)")

        if statement is not None:
            ask(statement, params)
            return
        from waygraph.api.cli.commands.shell import Shell

        shell = Shell(ask, params)
        failed = shell.converse(told.settings().data_path) if sys.stdin.isatty() else shell.run(sys.stdin)
    if failed:
        raise typer.Exit(1)


@contextmanager
def _naming_parameters(how: str) -> Iterator[None]:
    """A parameter that a statement misses is named as it is given here."""
    from waygraph.registry.errors import CypherFailed

    try:
        yield
    except CypherFailed as error:
        if missing := _MISSING.search(str(error)):
            raise CypherFailed(f"{error}; give it by {how}{missing[1]}=…") from error
        raise


def parameters(given: Sequence[str]) -> dict[str, object]:
    """Each `name=value`; a value that is no JSON is a text. Raises BadParameter."""
    params: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="'--param'")
        params[name.strip().removeprefix("$")] = _value(value)
    return params


def _value(text: str) -> object:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
