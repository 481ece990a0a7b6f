"""evals/papers.md: each row names a paper, its state, and a command that exists."""

import re
import shlex

import pytest

from benchmarks.__main__ import NAMES, options_parser
from scripts.cli_reference import command_names, help_page
from tests.docs.pages import ROOT, rows

HEAD = ["row", "paper", "state", "command"]
PAPERS = {"Agent-as-a-Graph", "ScaleMCP", "A2X", "ToolACE-MCP", "RFC 0001"}
STATES = ("measured", "estimated", "needs", "works")
"""How a state begins."""
TABLE = rows(ROOT / "evals" / "papers.md")


def test_the_table_has_its_columns() -> None:
    assert TABLE[0] == HEAD
    assert len(TABLE) > 1
    assert {paper for _, paper, _, _ in TABLE[1:]} <= PAPERS
    assert [state for _, _, state, _ in TABLE[1:] if not state.startswith(STATES)] == []


@pytest.mark.parametrize("row", TABLE[1:], ids=[f"{row[1]}: {row[0]}" for row in TABLE[1:]])
def test_the_command_of_a_row_exists(row: list[str]) -> None:
    commands = re.findall(r"`([^`]+)`", row[3])
    assert commands
    for command in commands:
        check_command(command)


def check_command(command: str) -> None:
    """Fails for one that neither `python -m benchmarks` nor `waygraph` knows, with all its options."""
    words = [word for word in shlex.split(command) if not re.fullmatch(r"WAYGRAPH_\w+=\S+", word)]
    if words[:3] == ["python", "-m", "benchmarks"]:
        options = options_parser().parse_args(words[3:])
        assert options.names
        assert set(options.names) <= set(NAMES)
    else:
        assert words[0] == "waygraph", command
        parse_waygraph(words[1:])


def parse_waygraph(words: list[str]) -> None:
    """Fails for a command or an option that there is not. `waygraph eval DIR` is short for `eval run DIR`."""
    known = set(command_names())
    spellings = (tuple(words[:2]), (words[0], "run"), tuple(words[:1]))
    name = next((each for each in spellings if each in known), ())
    assert name, words
    told = help_page(name)
    assert [word for word in words if word.startswith("-") and f"{word} " not in told] == []


@pytest.mark.parametrize("command", ["python -m benchmarks no_such", "waygraph evil DIR", "waygraph eval D --no-such"])
def test_a_command_that_is_not_there_is_noticed(command: str) -> None:
    with pytest.raises((SystemExit, AssertionError)):
        check_command(command)
