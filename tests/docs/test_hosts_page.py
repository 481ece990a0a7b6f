"""docs/hosts.md is true: each of its commands does what the page says, in a home that has the hosts' configs."""

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks, rows
from tests.hosts.conftest import Home, home
from waygraph.ingest.hosts.config import read_config
from waygraph.ingest.hosts.hosts import HOSTS, Places

__all__ = ["home"]
PAGE = DOCS / "hosts.md"


def commands() -> list[list[str]]:
    """Of all blocks, in order, without remarks."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_every_command_of_the_page_runs_and_all_of_it_is_undone(home: Home) -> None:
    """In order, beside servers that the hosts have; in the end every file is as it was."""
    places = Places(home=Path.home(), environ={}, platform="linux", cwd=Path.cwd())
    files = {host: home.put(host) for host in HOSTS}
    before = {host: file.read_bytes() for host, file in files.items()}
    for words in commands():
        answer = home.run(*words)
        assert answer.status == 0, (words, answer.err)
        host = HOSTS[words[words.index("connect") + 1]]
        file = host.file(places, project="--project" in words)
        if {"--write", "--import"} & set(words) and "--dry-run" not in words:
            assert "waygraph" in read_config(host, file).servers, words
    assert {host: file.read_bytes() for host, file in files.items()} == before
    assert home.told_a_secret() == []


def test_every_host_has_its_quickstart_and_how_to_undo_it() -> None:
    shown = {words[1] for words in commands() if words[0] == "connect"}
    written = {words[1] for words in commands() if "--write" in words}
    removed = {words[1] for words in commands() if "--remove" in words}
    assert written == removed
    assert set(HOSTS) - {"vscode-insiders"} == shown  # it is as VS Code is
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {HOSTS[name].name for name in shown} <= set(headings)


@pytest.mark.parametrize("name", HOSTS)
def test_the_places_are_those_that_are_used(name: str) -> None:
    """As the table has them: the user's file ends so, and a project's is this one."""
    [_, place, project] = next(cells for cells in rows(PAGE) if cells[0] == f"`{name}`")
    host = HOSTS[name]
    around = Places(home=Path("/home/me"), environ={}, platform="linux", cwd=Path("/project"))
    assert host.file(around).name in place or name == "vscode-insiders"
    told = project.strip("`")
    assert (host.project_file(around) == Path("/project", told)) if told else host.project == ""
