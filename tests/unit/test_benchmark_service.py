"""The benchmark of the service: what its load counts, how it tells a mixed answer and a leak. Never a time."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.catalogue import all_requests, all_steps, catalogue
from benchmarks.service.arena import Queries
from benchmarks.service.crowd import Outcomes, Wire
from benchmarks.service.load import HEAD_END, Job, Tally, content_length, found_in, generate, request_bytes
from benchmarks.service.mixed import growth
from benchmarks.service.servers import ServerFailed, free_port, python_module, serving
from benchmarks.service.syncing import EDITION, REVISION, Consistency, edition

type Replies = Callable[[int], bytes | None]
"""Number of the request → the bytes of its answer; None: the connection is cut."""


def reply(status: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} Told\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def answering(replies: Replies) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on a free port of loopback, and the bodies that it was sent."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(HEAD_END)
                seen.append(await reader.readexactly(content_length(head)))
                answer = replies(len(seen))
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
        yield server.sockets[0].getsockname()[1], seen


def job(port: int, bodies: int, *, seconds: float = 30.0, clients: int = 3, patterns: tuple[str, ...] = ()) -> Job:
    return Job(
        port=port,
        path="/v1/route",
        headers={"Authorization": "Bearer x"},
        bodies=[f'{{"text": "{number}"}}' for number in range(bodies)],
        clients=clients,
        warm_up_s=0.0,
        seconds=seconds,
        patterns=patterns,
    )


async def loaded(replies: Replies, bodies: int = 12, patterns: tuple[str, ...] = ()) -> tuple[Tally, list[bytes]]:
    async with answering(replies) as (port, seen):
        return await generate(job(port, bodies, patterns=patterns)), seen


# -- the load generator ------------------------------------------------------------------------------


def test_every_body_is_sent_once_and_every_answer_is_counted() -> None:
    tally, seen = asyncio.run(loaded(lambda _: reply(200, b"{}")))
    assert sorted(seen) == sorted(f'{{"text": "{number}"}}'.encode() for number in range(12))
    assert tally.statuses == {"200": 12}
    assert len(tally.latency_ms) == len(tally.ended_s) == 12
    assert all(latency > 0 for latency in tally.latency_ms)
    assert (tally.errors, tally.used_up) == (0, True)


def test_an_answer_that_is_no_success_is_an_error_and_no_answer_a_second() -> None:
    tally, _ = asyncio.run(loaded(lambda number: reply(503 if number % 3 == 0 else 200, b"{}")))
    assert tally.statuses == {"200": 8, "503": 4}
    assert tally.errors == 4
    assert tally.a_second == pytest.approx(8 / 30.0)


def test_a_connection_that_is_cut_is_an_error_and_opened_again() -> None:
    tally, seen = asyncio.run(loaded(lambda number: None if number == 5 else reply(200, b"{}")))
    assert (tally.lost, tally.errors) == (1, 1)
    assert tally.statuses == {"200": 11}
    assert len(seen) == 12


def test_what_is_looked_for_is_found_in_every_answer() -> None:
    body = b'{"revision": 7, "matches": ["a Edition 2.", "b Edition 3.", "c Edition 2."]}'
    tally, _ = asyncio.run(loaded(lambda _: reply(200, body), bodies=2, patterns=(REVISION, EDITION)))
    assert tally.found == [[["7"], ["2", "3"]]] * 2
    assert found_in(b"{}", (REVISION,)) == [[]]


def test_a_load_can_be_ended_before_its_time() -> None:
    """SIGTERM: requests under way are answered, and the seconds are those that were."""

    async def stopped() -> Tally:
        def reply_and_stop(number: int) -> bytes:
            if number == 6:
                os.kill(os.getpid(), signal.SIGTERM)
            return reply(200, b"{}")

        async with answering(reply_and_stop) as (port, _):
            return await generate(job(port, 1_000_000, seconds=600.0))

    tally = asyncio.run(stopped())
    assert 0 < tally.seconds < 600
    assert not tally.used_up
    assert tally.lost == 0


def test_an_answer_without_a_length_is_refused() -> None:
    assert content_length(b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 12\r\nX: y") == 12
    with pytest.raises(ValueError, match="without content-length"):
        content_length(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")


def test_a_request_is_one_of_http() -> None:
    sent = request_bytes(job(80, 0), "\N{LATIN SMALL LETTER E WITH ACUTE}")
    head, _, body = sent.partition(HEAD_END)
    assert head.split(b"\r\n")[0] == b"POST /v1/route HTTP/1.1"
    assert b"Authorization: Bearer x" in head
    assert content_length(head) == len(body) == 2


def test_no_query_is_asked_twice() -> None:
    for texts in (all_requests(), all_steps()):
        queries = Queries(texts=texts)
        taken = [*queries.take(5_000), *queries.take(5_000)]
        assert len(set(taken)) == 10_000


# -- what the crowd notices --------------------------------------------------------------------------


async def _asked(replies: Replies, requests: int) -> tuple[Outcomes, list[int]]:
    outcomes = Outcomes()
    async with answering(replies) as (port, _):
        wire = Wire(port, outcomes)
        statuses = [(await wire.ask("POST", "/v1/route", b"{}", {}))[0] for _ in range(requests)]
        await wire.close()
    return outcomes, statuses


def test_a_broken_answer_is_told_from_a_busy_one() -> None:
    """5xx and lost connections are faults; 503 says that the service is busy."""
    answers: list[bytes | None] = [reply(200, b"{}"), reply(500, b"{}"), reply(503, b"[]"), None, reply(404, b"{}")]
    outcomes, statuses = asyncio.run(_asked(lambda number: answers[number - 1], len(answers)))
    assert statuses == [200, 500, 503, 0, 404]
    assert (outcomes.requests, outcomes.broken, outcomes.busy) == (5, 2, 1)
    assert outcomes.statuses == {"200": 1, "500": 1, "503": 1, "404": 1}


# -- revisions and memory ----------------------------------------------------------------------------


def test_an_answer_of_two_editions_is_mixed_and_a_revision_of_two_is_torn() -> None:
    whole = Consistency.of([[["1"], ["1"]], [["1"], []], [["2"], ["2"]]])
    assert (whole.answers, whole.marked, whole.revisions, whole.mixed, whole.torn) == (3, 2, 2, 0, 0)
    mixed = Consistency.of([[["1"], ["1", "2"]]])
    assert (mixed.mixed, mixed.torn) == (1, 1)
    torn = Consistency.of([[["1"], ["1"]], [["1"], ["2"]]])
    assert (torn.mixed, torn.torn) == (0, 1)


def test_every_text_of_an_edition_tells_it_and_no_agent_is_one_of_the_catalogue() -> None:
    document = edition(60, 4)
    texts = [each["description"] for agent in document["agents"] for each in (agent, *agent["tools"])]
    assert len(texts) > 60
    assert all(found_in(text.encode(), (EDITION,)) == [["4"]] for text in texts)
    assert {agent["id"] for agent in document["agents"]}.isdisjoint(agent["id"] for agent in catalogue(60)["agents"])
    assert [a["id"] for a in document["agents"]] == [a["id"] for a in edition(60, 5)["agents"]]


def test_growth_is_told_from_a_beginning_and_from_noise() -> None:
    """The first fifth does not count; a steady leak does."""
    flat = [(float(at), 100.0 if at >= 20 else 50.0) for at in range(0, 101)]
    assert growth(flat) == pytest.approx((1.0, 0.0))
    ratio, slope = growth([(at * 60.0, 100.0 + at) for at in range(100)])
    assert slope == pytest.approx(1.0)
    assert ratio > 1.4


# -- servers -----------------------------------------------------------------------------------------


def test_a_server_that_does_not_start_is_told_with_what_it_said(tmp_path: Path) -> None:
    """A bare endpoint without its matrix."""
    port, log = free_port(), tmp_path / "log"
    command = python_module("benchmarks.service.tuned", str(tmp_path), str(port))
    with pytest.raises(ServerFailed, match=r"vectors\.npy"), serving(command, port, os.environ, log):
        raise AssertionError("it has nothing to serve")
