"""The pipes between a host and `waygraph mcp`: what they carry, how they end, and what is taken in their place."""

import json
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.gateway.hosts import PATIENCE_S, Place, on_stdio

HELLO = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
LONG = "x" * 300_000
"""More than a pipe holds."""


def asked(number: int, request: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, **request}).encode() + b"\n"


def find(number: int, query: str) -> bytes:
    return asked(number, {"method": "tools/call", "params": {"name": "find_tools", "arguments": {"query": query}}})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


type File = int | IO[bytes]


def started(
    place: Place, stdin: File = subprocess.PIPE, stdout: File = subprocess.PIPE, stderr: File = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    launch = on_stdio(place)
    command = [launch.command, *launch.args]
    return subprocess.Popen(command, env=launch.env, stdin=stdin, stdout=stdout, stderr=stderr)


def answers(lines: Iterable[bytes], count: int) -> dict[int | None, dict[str, Any]]:
    """The first so many, by the number of their request."""
    found: dict[int | None, dict[str, Any]] = {}
    for line in lines:
        told = json.loads(line)
        if "id" in told:
            found[told["id"]] = told
        if len(found) == count:
            break
    return found


def test_lines_come_whole_however_they_are_cut(place: Place) -> None:
    """Two in one write, one in two, one longer than a pipe holds, blanks between them, bytes that are no text."""
    long = find(2, LONG)
    with started(place) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for part in (asked(1, HELLO) + b"\n" + long[:1000], long[1000:] + b"{ \xff\n" + find(3, "\xff")):
            process.stdin.write(part)
            process.stdin.flush()
        found = answers(process.stdout, 4)
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert found.keys() == {1, 2, 3, None}
    assert {number for number, told in found.items() if "result" in told} == {1, 2, 3}


def test_a_line_that_is_no_message_is_answered(place: Place) -> None:
    with started(place) as process:
        said = asked(1, HELLO) + b'{\n{"jsonrpc":"2.0","id":7}\n' + asked(2, {"method": "ping"})
        output, _ = process.communicate(said, timeout=PATIENCE_S)
    told = [json.loads(line) for line in output.splitlines()]
    assert [each["error"]["code"] for each in told if "error" in each] == [-32700, -32700]
    assert {each["id"] for each in told if "result" in each} == {1, 2}


def test_a_last_line_without_its_end_is_read(place: Place) -> None:
    with started(place) as process:
        output, _ = process.communicate(asked(1, HELLO) + find(2, "letters").rstrip(b"\n"), timeout=PATIENCE_S)
    assert {json.loads(line)["id"] for line in output.splitlines()} == {1, 2}


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to_though_the_host_is_silent(place: Place, told: signal.Signals) -> None:
    with started(place) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asked(1, HELLO))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(told)
        assert process.wait(PATIENCE_S) == 0


def test_a_host_that_stops_reading_is_gone(place: Place) -> None:
    with started(place) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(asked(1, HELLO) + find(2, "letters"))
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        assert b"Traceback" not in process.stderr.read()


def test_a_file_is_read_where_there_is_no_pipe(place: Place) -> None:
    (place.folder / "asked").write_bytes(asked(1, HELLO))
    with (
        (place.folder / "asked").open("rb") as asking,
        (place.folder / "answers").open("wb") as answering,
        started(place, stdin=asking, stdout=answering) as process,
    ):
        assert process.wait(PATIENCE_S) == 0
    assert answers((place.folder / "answers").read_bytes().splitlines(), 1).keys() == {1}


def test_a_pipe_that_errors_share_is_left_as_it_is(place: Place) -> None:
    """It would be made not to wait for errors either, and some of them be lost."""
    with started(place, stderr=subprocess.STDOUT) as process:
        output, _ = process.communicate(asked(1, HELLO), timeout=PATIENCE_S)
    assert process.returncode == 0
    assert any(json.loads(line).get("id") == 1 for line in output.splitlines() if line.startswith(b'{"jsonrpc'))


def test_a_host_that_reads_nothing_more_and_leaves_is_let_go(place: Place) -> None:
    """Though more than a pipe holds is left to be written to it, also by what is begun meanwhile."""
    with started(place) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(asked(1, HELLO))
        process.stdin.flush()
        assert answers(process.stdout, 1)
        for number in range(2, 200):
            process.stdin.write(asked(number, {"method": "tools/list"}))
        process.stdin.write(asked(200, {"method": "ping"}))
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
