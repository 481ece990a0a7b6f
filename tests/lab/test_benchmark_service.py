"""The benchmark of the service: what its load generator counts, and that a small run leaves every measure."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.processes import ServerFailed, free_port, python_module, run_server
from benchmarks.service.benchmark import Timing, measure
from benchmarks.service.endpoints import open_endpoints
from benchmarks.service.load import HEAD_END, Job, Tally, content_length, generate, request_bytes
from benchmarks.world import World
from waygraph.registry.model.settings import load_settings

type Replies = Callable[[int], bytes | None]
"""Number of the request → the bytes of its answer; None: the connection is cut."""


def reply(status: int, body: bytes = b"{}") -> bytes:
    return f"HTTP/1.1 {status} Reason\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def answering(replies: Replies) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on a free port of loopback, and the bodies that it was sent."""
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(HEAD_END)
                bodies.append(await reader.readexactly(content_length(head)))
                answer = replies(len(bodies))
                if answer is None:
                    return
                # In two parts: an answer need not come whole.
                writer.write(answer[:20])
                await writer.drain()
                await asyncio.sleep(0)
                writer.write(answer[20:])
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], bodies


def job(port: int, bodies: int) -> Job:
    return Job(
        port=port,
        path="/v1/route",
        headers={"Authorization": "Bearer x"},
        bodies=[f'{{"text": "{number}"}}' for number in range(bodies)],
        clients=3,
        warm_up_s=0.0,
        seconds=30.0,
    )


def load(replies: Replies) -> tuple[Tally, list[bytes]]:
    async def run() -> tuple[Tally, list[bytes]]:
        async with answering(replies) as (port, bodies):
            return await generate(job(port, 12)), bodies

    return asyncio.run(run())


def test_every_body_is_sent_once_and_every_answer_is_counted() -> None:
    """Answers that are no success and connections that are cut are errors; a connection is opened again."""
    tally, bodies = load(lambda _: reply(200))
    assert sorted(bodies) == sorted(f'{{"text": "{number}"}}'.encode() for number in range(12))
    assert (tally.statuses, tally.errors, tally.used_up) == ({"200": 12}, 0, True)
    assert len(tally.latency_ms) == 12
    assert all(latency > 0 for latency in tally.latency_ms)

    tally, _ = load(lambda number: reply(503 if number % 3 == 0 else 200))
    assert (tally.statuses, tally.errors) == ({"200": 8, "503": 4}, 4)
    assert tally.a_second == pytest.approx(8 / 30.0)

    tally, bodies = load(lambda number: None if number == 5 else reply(200))
    assert (tally.lost, tally.errors, tally.statuses, len(bodies)) == (1, 1, {"200": 11}, 12)


def test_an_answer_without_a_length_is_refused() -> None:
    assert content_length(b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 12\r\nX: y") == 12
    with pytest.raises(ValueError, match="without content-length"):
        content_length(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")


def test_a_request_is_one_of_http() -> None:
    head, _, body = request_bytes(job(80, 0), "\N{LATIN SMALL LETTER E WITH ACUTE}").partition(HEAD_END)
    assert head.split(b"\r\n")[0] == b"POST /v1/route HTTP/1.1"
    assert b"Authorization: Bearer x" in head
    assert content_length(head) == len(body) == 2


def test_a_server_that_does_not_start_is_reported_with_its_output(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    files = (str(tmp_path), str(port), "no-graph", "no-tokenizer")
    command = python_module("benchmarks.service.bare_endpoint", *files)
    with pytest.raises(ServerFailed, match="no-graph"), run_server(command, port, os.environ, log):
        raise AssertionError("it has nothing to serve")


@pytest.mark.slow
def test_a_small_run_measures_both_endpoints(tmp_path: Path) -> None:
    world = World(settings=load_settings(), environ=os.environ, data=tmp_path / "none", cache=tmp_path / "cache")
    with open_endpoints(world, 14) as endpoints:
        measures, details = measure(endpoints, Timing(rounds=1, alone_s=0.5, crowd_s=0.5))
    values = {each.name: each.value for each in measures}
    assert len(values) == len(measures)
    assert [value for name, value in values.items() if name.endswith(", errors")] == [0, 0]
    assert all(value > 0 for name, value in values.items() if not name.endswith(", errors"))
    assert details.keys() == {"starts_s", "alone", "stepwise", "crowd", "writing", "written_s"}
