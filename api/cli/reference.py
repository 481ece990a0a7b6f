"""docs/cli.md, made from the help pages: `python -m waygraph.api.cli.reference > docs/cli.md`."""

import sys
from collections.abc import Iterator

from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from waygraph.api.cli.app import app

WIDTH = 80
PREFACE = """\
# The command line

Made from `waygraph … --help` by `python -m waygraph.api.cli.reference > docs/cli.md`; a test fails when it is stale.

On a terminal every command draws tables. In a pipe it prints a header and tab-separated rows, whole and without
colour; remarks (`note: …`) and errors (`error: …`) go to stderr, a line each. With `--json` it prints one JSON
document, whose shape [json-output.md](json-output.md) describes. Text from sources is shown with control characters,
escape sequences, bidi overrides and invisible characters spelled out (`\\u001b`).

| exit status | meaning |
|---|---|
| 0 | it went well; what a source got wrong, or a server that does not answer, is reported and does not count |
| 1 | an error, told in one line; a source of which nothing could be taken; a check of `doctor` that failed |
| 2 | wrong usage, such as a limit, a query or a recipe that cannot be |
| 130, 141 | ended by Ctrl-C; nobody read the pipe any more |
"""


def command_names(group: TyperGroup | None = None, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command as its words, such as ("model", "pull"), groups included."""
    held = group or get_command(app)
    for name, command in getattr(held, "commands", {}).items():
        yield (*before, name)
        if isinstance(command, TyperGroup):
            yield from command_names(command, (*before, name))


def help_page(words: tuple[str, ...]) -> str:
    """What `waygraph <words> --help` prints, `WIDTH` characters wide."""
    result = CliRunner().invoke(
        app, [*words, "--help"], prog_name="waygraph", env={"COLUMNS": str(WIDTH), "TERM": "dumb"}
    )
    return "\n".join(line.rstrip() for line in result.output.splitlines()).strip()


def reference() -> str:
    pages = [((), help_page(())), *((words, help_page(words)) for words in command_names())]
    sections = (f"## {' '.join(('waygraph', *words))}\n\n```text\n{page}\n```\n" for words, page in pages)
    return "\n".join([PREFACE, *sections])


if __name__ == "__main__":
    sys.stdout.write(reference())
