"""docs/cli.md, made from the help pages: `python -m scripts.cli_reference > docs/cli.md`."""

import re
import sys
from collections.abc import Iterable, Iterator

import typer
from typer.core import TyperGroup
from typer.main import get_group
from typer.testing import CliRunner

from waygraph.api.cli.app import app

WIDTH = 80
PREFACE = """\
# The command line

`make docs` generates this page. `waygraph COMMAND --help` describes each option and its default.

On a terminal every command draws tables. In a pipe it prints a header and tab-separated rows without colour. Notes
(`note: …`) and errors (`error: …`) go to stderr, one line each. Control characters, escape sequences, bidi overrides
and invisible characters from sources are escaped (`\\u001b`).

| exit status | meaning |
|---|---|
| 0 | success. Rejected records and servers that do not answer are reported, and do not count |
| 1 | an error, in one line; a source without a valid record; a failed check of `doctor` |
| 2 | wrong usage, such as an invalid limit, query or recipe |
| 130, 141 | ended by Ctrl-C; the pipe was closed |

These may stand before or behind every command:

| option | what it is |
|---|---|
| `--registry PLACE` | a file, a server (`neo4j://…`) or a service (`https://…`). Default: `WAYGRAPH_REGISTRY`, a file |
| `--embedder SPEC` | [which embedder](concepts.md#embedders). Default: `WAYGRAPH_EMBEDDER`, then the registry's own |
| `--json` | print JSON, see [below](#json-output); not of `serve`, `explore`, `mcp` and `logins add` |
| `-h`, `--help` | the command's own page |

`waygraph --version` prints the version. `--install-completion` and `--show-completion` are for the shell.
"""
JSON_PART = """\
## JSON output

With `--json` a command prints one JSON document on stdout: indented on a terminal, on one line in a pipe. `cypher`
prints one line a statement, `watch` one line an event. The exit status is the same. A command that fails prints
no document, except `ingest` and `doctor`.

[json-output.schema.json](json-output.schema.json) is a JSON Schema (2020-12). Its `$defs` have a shape for each command
(`taxonomy build`), each event of `watch` (`watch: listed`) and each noun (`Agent`, `Tool`, `Route`), with what its
fields mean. Answers of [REST](rest.md) hold the same nouns. Every field is always present. Within a major version
fields keep name, type and meaning, and new fields may be added.
"""
_KINDS = {"int": "N", "float": "NUMBER", "str": "TEXT"}
HEADER = "| command | what it does | arguments and options |\n|---|---|---|\n"
_OPTION = re.compile(r"^  (?:(-\w), )?(--[\w-]+)(?:(?: /|,) (--[\w-]+))?(?: (\S+(?: \S+)*))?(?=  |$)", re.M)


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


def reference() -> str:
    names = list(command_names())
    groups = sorted({words[:-1] for words in names if len(words) > 1})
    single = [words for words in names if len(words) == 1 and words not in groups]
    sections = [f"## Commands\n\n{_table(single)}"]
    for group in groups:
        is_command = "--json" in help_page(group)
        members = [words for words in names if words[:-1] == group or (words == group and is_command)]
        sections.append(f"## waygraph {' '.join(group)}\n\n{_table(members)}")
    return "\n".join([PREFACE, *sections, JSON_PART])


def _table(commands: Iterable[tuple[str, ...]]) -> str:
    return HEADER + "".join(_row(words, help_page(words)) for words in commands)


def _row(words: tuple[str, ...], page: str) -> str:
    usage = page.partition("\n\n")[0].replace("\n", " ")
    arguments = "" if usage.endswith("COMMAND [ARGS]...") else usage.partition("[OPTIONS]")[2]
    arguments = re.sub(r"\{(.+?)\}", r"\1", " ".join(arguments.split()))
    options = (_synopsis(*found.groups()) for found in _OPTION.finditer(page.partition("\n\nOptions:\n")[2]))
    synopsis = " ".join(filter(None, [arguments, *options])).replace("|", "\\|")
    [summary, *_] = _paragraphs(page)
    return f"| `{' '.join(words)}` | {summary} | {f'`{synopsis}`' if synopsis else ''} |\n"


def _synopsis(short: str | None, long: str, other: str | None, value: str | None) -> str:
    """`--limit=N`; empty for what the preface says of all commands."""
    if long in ("--json", "--help"):
        return ""
    name = "/".join(filter(None, (short, long, other)))
    if not value:
        return name
    kind = re.sub(r"^list\[(.*)\]$|^<?(.*?)>?$", r"\1\2", value.strip("<>")).removesuffix(" range")
    return f"{name}={_KINDS.get(kind, kind)}"


def _paragraphs(page: str) -> list[str]:
    """Those between usage and arguments, without the space before and the full stop behind."""
    text = re.split(r"\n\n(?:Arguments|Options|Commands):\n", page.partition("\n\n")[2])[0]
    return [" ".join(part.split()).removesuffix(".") for part in text.split("\n\n")]


if __name__ == "__main__":
    sys.stdout.write(reference())
