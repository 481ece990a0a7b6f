"""Many `waygraph connect` at the same moment, as processes of their own: each gets its turn, and nothing is lost."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.hosts.conftest import Home
from waygraph.ingest.hosts.config import read_config
from waygraph.ingest.hosts.hosts import HOSTS

PROGRAM = Path(sys.executable).with_name("waygraph")
EIGHT = [f"gate-{number}" for number in range(8)]


def ended(commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Status and errors of each; all run at once, each with a data folder of its own or the same."""
    running = [
        subprocess.Popen(
            [PROGRAM, *words], env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for words in commands
    ]
    return [(process.returncode, errors) for process in running for _, errors in [process.communicate(timeout=120)]]


@pytest.mark.parametrize("host", ["cursor", "codex"])
@pytest.mark.parametrize("is_there", [False, True])
def test_eight_writes_at_once_all_end_well(home: Home, host: str, *, is_there: bool) -> None:
    """Whether or not there is a file yet; what it had is still there, and it is whole."""
    file = home.put(host) if is_there else home.file(host)
    before = read_config(HOSTS[host], file).servers
    results = ended([["connect", host, "--write", "--name", name] for name in EIGHT])
    assert [status for status, _ in results] == [0] * 8, results
    assert not any("Traceback" in errors for _, errors in results)
    assert read_config(HOSTS[host], file).servers.keys() == {*before, *EIGHT}
    text = file.read_text()
    assert tomllib.loads(text) if host == "codex" else text.startswith("{")
    kept = [path.name for path in file.parent.iterdir() if path != file]
    assert all(".before-waygraph" in name for name in kept)
    assert len(kept) == (8 if is_there else 7)


def test_writes_and_removals_at_once_do_not_undo_each_other(home: Home) -> None:
    file = home.put("cursor", json.dumps({"mcpServers": {"mine": {"command": "x"}}}))
    assert ended([["connect", "cursor", "--write", "--name", name] for name in EIGHT[:4]]) is not None
    removals = [["connect", "cursor", "--remove", "--name", name] for name in EIGHT[:4]]
    writes = [["connect", "cursor", "--write", "--name", name] for name in EIGHT[4:]]
    assert [status for status, _ in ended([*removals, *writes])] == [0] * 8
    assert read_config(HOSTS["cursor"], file).servers.keys() == {"mine", *EIGHT[4:]}


def test_takeovers_at_once_end_well_and_can_be_undone(home: Home) -> None:
    file = home.put("cursor")
    before = file.read_bytes()
    results = ended([["connect", "cursor", "--import"]] * 3)
    assert [status for status, _ in results] == [0] * 3, results
    assert [*read_config(HOSTS["cursor"], file).servers] == ["off", "waygraph"]
    assert home.run("connect", "cursor", "--restore").status == 0
    assert file.read_bytes() == before
