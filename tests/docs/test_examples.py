"""Every example of the documents exists: its imports resolve, and its commands and options are those of `waygraph`."""

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from tests.docs.pages import PAGES, blocks, name
from waygraph.api.cli.app import app

GENERATED = {"CHANGELOG.md", "cli.md"}
PLACEHOLDER = re.compile(r"…|\bNAME\b|\bSOURCE\b")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_imports_resolve(page: Path) -> None:
    """Each name that a Python block imports from Waygraph is there."""
    imports = [
        (node.module, alias.name)
        for block in blocks(page, "python")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("waygraph")
        for alias in node.names
    ]
    assert [pair for pair in imports if not hasattr(importlib.import_module(pair[0]), pair[1])] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in GENERATED], ids=name)
def test_commands_exist(page: Path) -> None:
    """Each `waygraph` line of a block names a command, and options that it or `waygraph` has."""
    assert [(line, fault) for line in command_lines(page) if (fault := find_fault(line))] == []


def command_lines(page: Path) -> Iterator[str]:
    for kind in ("sh", "text", "console"):
        for block in blocks(page, kind):
            for line in block.replace("\\\n", " ").splitlines():
                if match := re.match(r"(?:\$ )?(waygraph .*)", line):
                    yield match[1]


def find_fault(line: str) -> str:
    """The first word of the line that `waygraph` does not know; empty if there is none."""
    words = shlex.split(PLACEHOLDER.sub("X", line), comments=True)[1:]
    words = words[: words.index("--")] if "--" in words else words
    command, options = get_command(app), set()
    while words:
        options |= {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
        word, *words = words
        if word.startswith("-") and word != "-":
            if word.partition("=")[0] not in options | {"--help", "-h"}:
                return word
            if takes_value(command, word) and "=" not in word:
                words = words[1:]
        elif get := getattr(command, "get_command", None):
            if (found := get(None, word)) is None:
                return "" if "eval" in line else word
            command = found
    return ""


def takes_value(command: object, option: str) -> bool:
    for parameter in getattr(command, "params", []):
        if option in parameter.opts:
            return not getattr(parameter, "is_flag", False)
    return False


def test_a_wrong_command_is_noticed() -> None:
    """The comparison itself can fail."""
    assert find_fault("waygraph rout 'x'") == "rout"
    assert find_fault("waygraph route 'x' --limt 3") == "--limt"
    assert find_fault("waygraph --registry a.grafeo route 'x' --limit 3  # remark") == ""
