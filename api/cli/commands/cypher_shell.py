"""The Cypher shell: reads lines until a statement is whole, asks it, goes on after an error."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from waygraph.api.cli.options import Invocation, Texts, json_or_text
from waygraph.api.cli.render.output import Aside, Block, Cell, Table, complain, note
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherFailed, WaygraphError

_MISSING = re.compile(r"(?:Missing parameter: \$|Expected parameter\(s\): )(\w+)")
"""As Grafeo says it, and as Neo4j does."""


def cypher(
    options: Invocation,
    statement: Annotated[
        str | None, Argument(metavar="STATEMENT", help="Without one: a shell, or statements from standard input.")
    ] = None,
    param: Annotated[Texts, Option(metavar="NAME=VALUE", help="A parameter, as JSON where it is JSON. Repeat.")] = None,
) -> None:
    """Ask the graph in Cypher. Statements only read, with a limit of time and memory.

    waygraph cypher 'MATCH (a:Agent)-[:OWNS]->(t:Tool) RETURN a.id, count(t) AS tools'
    """
    params = parameters(param or ())
    with options.open() as registry:

        def ask(text: str, values: Mapping[str, object]) -> None:
            try:
                result = registry.operator.cypher(text, values)
            except CypherFailed as error:
                if missing := _MISSING.search(str(error)):  # is named as it is given here
                    how = ":param " if statement is None else "--param "
                    raise CypherFailed(f"{error}; give it by {how}{missing[1]}=…") from error
                raise
            options.show(result, _view_rows)
            note(result.notice)
            if result.truncated:
                note(f"only the first {len(result.rows)} rows are shown (WAYGRAPH_CYPHER_MAX_ROWS)")

        if statement is not None:
            ask(statement, params)
            return

        shell = Shell(ask, params)
        if sys.stdin.isatty():  # errors are printed as they come
            with _history(options.settings.data_path / HISTORY):
                shell.run(shell.typed_lines())
        elif shell.run(sys.stdin):
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


HELP = """\
A statement ends with ; or an empty line.
  :param name=value   set a parameter, used as $name; :param alone lists them
  :help               this page
  :quit               leave (also exit, quit, Ctrl-D); Ctrl-C drops what is typed"""
PROMPT, MORE = "waygraph> ", "     ...> "
HISTORY = "cypher_history"
HISTORY_LINES = 1000


class Shell:
    """`ask` answers a statement with its parameters, and prints; `params` can be added to by `:param`."""

    def __init__(self, ask: Callable[[str, Mapping[str, object]], None], params: Mapping[str, object]) -> None:
        self._ask, self._params = ask, dict(params)
        self._lines: list[str] = []
        self._left = self._failed = self._talking = False

    def run(self, lines: Iterable[str]) -> bool:
        """Asks every statement in the lines; says whether any failed."""
        for line in (each.rstrip("\n") for each in lines):
            if not self._lines and line.lstrip().startswith(":"):
                self._obey(line.strip())
            elif not self._lines and line.strip().rstrip(";").lower() in {"exit", "quit"}:
                self._left = True
            else:
                self._lines.append(line)
                if not line.strip() or line.rstrip().endswith(";"):
                    self._finish()
            if self._left:
                break
        self._finish()
        return self._failed

    def typed_lines(self) -> Iterator[str]:
        """What a person types, until they leave."""
        self._talking = True
        while True:
            try:
                yield input(MORE if self._lines else PROMPT)
            except EOFError:
                print()  # noqa: T201 - the shell's own prompt line ends here
                return
            except KeyboardInterrupt:
                print()  # noqa: T201
                self._lines.clear()

    def _finish(self) -> None:
        statement = "\n".join(self._lines).strip().rstrip(";").strip()
        self._lines.clear()
        if not statement:
            return
        try:
            self._ask(statement, self._params)
        except WaygraphError as error:
            self._failed = True
            complain(str(error))
        except KeyboardInterrupt:
            if not self._talking:
                raise
            complain("interrupted")

    def _obey(self, command: str) -> None:
        name, _, rest = command.partition(" ")
        if name in {":quit", ":exit", ":q"}:
            self._left = True
        elif name == ":param" and rest.strip():
            try:
                self._params |= parameters([rest])
            except typer.BadParameter as error:
                complain(str(error))
        elif name == ":param":
            _say("\n".join(f"${name} = {value!r}" for name, value in self._params.items()) or "no parameters")
        else:
            _say(HELP if name == ":help" else f"{name} is not known.\n{HELP}")


def _say(text: str) -> None:
    """What the shell itself says goes to stderr: stdout holds answers."""
    print(text, file=sys.stderr)  # noqa: T201


@contextmanager
def _history(path: Path) -> Iterator[None]:
    """Line editing, with the lines typed in earlier sessions. A history that cannot be kept is no error."""
    import readline

    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LINES)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
            path.chmod(0o600)
