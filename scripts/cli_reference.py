"""docs/cli.md, made from the help pages: `python -m scripts.cli_reference > docs/cli.md`."""

import re
import sys
from collections.abc import Iterator

import typer
from typer.core import TyperGroup
from typer.main import get_group
from typer.testing import CliRunner

from waygraph.api.cli.app import app

WIDTH = 80
PREFACE = """\
# The command line

`make docs` generates this page from `waygraph … --help`, and a test fails when it is stale.

On a terminal every command draws tables. In a pipe it prints a header and tab-separated rows without colour. Notes
(`note: …`) and errors (`error: …`) go to stderr, one line each. `--json` prints one JSON document, which
[JSON output](json-output.md) describes. Control characters, escape sequences, bidi overrides and invisible characters
from sources are escaped (`\\u001b`). Two options stand here alone: each command takes `-h, --help`, and each that has a
shape in JSON output takes `--json`.

| exit status | meaning |
|---|---|
| 0 | success. Rejected records and servers that do not answer are reported, and do not count |
| 1 | an error, in one line; a source without a valid record; a failed check of `doctor` |
| 2 | wrong usage, such as an invalid limit, query or recipe |
| 130, 141 | ended by Ctrl-C; the pipe was closed |
"""


def command_names(group: TyperGroup | None = None, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command as its words, such as ("model", "pull"), groups included."""
    group = group or get_group(app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        yield (*before, name)
        if isinstance(command := group.get_command(context, name), TyperGroup):
            yield from command_names(command, (*before, name))


def help_page(words: tuple[str, ...]) -> str:
    """What `waygraph <words> --help` prints, `WIDTH` characters wide."""
    result = CliRunner().invoke(
        app, [*words, "--help"], prog_name="waygraph", env={"COLUMNS": str(WIDTH), "TERM": "dumb"}
    )
    return "\n".join(line.rstrip() for line in result.output.splitlines()).strip()


def own_part(page: str) -> str:
    """A help page without the options that the preface tells of all commands, and of a group without its commands."""
    page = page.partition("\n\nCommands:")[0]
    page = re.sub(r"\n  (?:--json|-h, --help) .*(?:\n {8,}\S.*)*", "", page)
    return page.replace("\n\nOptions:\n\n", "\n\n").removesuffix("\n\nOptions:")


def reference() -> str:
    pages = [((), help_page(())), *((words, own_part(help_page(words))) for words in command_names())]
    sections = (f"## {' '.join(('waygraph', *words))}\n\n```text\n{page}\n```\n" for words, page in pages)
    return "\n".join([PREFACE, *sections])


if __name__ == "__main__":
    sys.stdout.write(reference())
