"""Typed Cypher over REST: it reads, within limits, and only for who sees everything."""

import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.bombs import ENDLESS, OF_MEMORY
from tests.service import Served, agent, assert_good, assert_problem, ingest, served
from waygraph.registry.model.errors import CypherBusy
from waygraph.registry.model.settings import Settings

SLOW = "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(a + b)"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over a file, whose bytes can be compared."""
    folder = tmp_path_factory.mktemp("cypher")
    settings = Settings(cypher_timeout_s=30.0, rate_per_minute=0, max_body_bytes=8 * 1024 * 1024)
    with served(folder / "r.grafeo", auth=True, folder=folder, settings=settings) as service:
        admin = service.admin()
        ingest(admin, "s", agent("a", "b", "c.d"), agent("evil", "b"), agent("x", "b"))
        assert_good(admin.patch("/v1/agents/a", json={"tags": ["t"], "visible_to": ["g"]}))
        yield service


def test_numbers_that_json_cannot_say_are_texts(guarded: Served) -> None:
    client = guarded.admin()
    told = assert_good(
        client.post("/v1/cypher", json={"statement": "RETURN 0.0/0.0 AS a, 1.0/0.0 AS b, -1.0/0.0 AS c"})
    )
    assert told["rows"] == [["NaN", "Infinity", "-Infinity"]]


@pytest.mark.parametrize("value", ["NaN", "1e999", "-Infinity", '"\\ud800"', "1" + "0" * 400, "[" * 900 + "]" * 900])
def test_parameters_that_no_engine_takes(guarded: Served, value: str) -> None:
    body = f'{{"statement": "RETURN $x AS x", "params": {{"x": {value}}}}}'.encode()
    response = guarded.admin().post("/v1/cypher", content=body, headers={"Content-Type": "application/json"})
    if response.status_code == 200:
        assert_good(response)
    else:
        assert_problem(response, response.status_code, response.json()["code"])
        assert response.status_code in (400, 422)


@pytest.mark.parametrize("statement", [ENDLESS, *OF_MEMORY[:3]])
def test_a_statement_without_end_is_ended(statement: str) -> None:
    """By its limit of time or memory, whichever is first; other callers are answered meanwhile."""
    settings = Settings(cypher_timeout_s=1.0, cypher_memory_mib=256)
    with served(settings=settings) as service:
        client = service.client()
        ingest(client, "s", agent("a", "look"))
        with posted(service, statement) as told:
            assert_good(service.client().post("/v1/route", json={"text": "look"}))
        assert_ended(told[0])
        assert_good(client.post("/v1/cypher", json={"statement": "RETURN 1"}))


def assert_ended(response: httpx2.Response) -> None:
    """By a limit; a statement that gives more rows than are told may be cut instead."""
    if response.status_code == 200:
        assert assert_good(response)["truncated"]
    else:
        assert_problem(response, 422, response.json()["code"])
        assert response.json()["code"] in ("cypher-limit", "cypher-failed")


def test_as_many_as_are_allowed_work_at_a_time() -> None:
    settings = Settings(cypher_timeout_s=8.0, cypher_workers=1, cypher_wait_s=0.05)
    with served(settings=settings) as service:
        client = service.client()
        ingest(client, "s", agent("a", "look"))
        with posted(service, SLOW) as told:
            busy = busy_answer(client, told)
            assert assert_problem(busy, 503, CypherBusy)["retryable"]
            assert_good(client.post("/v1/route", json={"text": "look"}))
            assert_good(client.get("/v1/agents"))
        assert_problem(told[0], 422, "cypher-limit")


def busy_answer(client: httpx2.Client, told: list[httpx2.Response]) -> httpx2.Response:
    """Of the first statement that found the other at work."""
    while (response := client.post("/v1/cypher", json={"statement": "RETURN 1"})).status_code == 200:
        assert not told, told[0].text
        time.sleep(0.05)
    return response


class posted:  # noqa: N801 - used as a function
    """A statement posted by a thread; afterwards the list holds its answer."""

    def __init__(self, service: Served, statement: str) -> None:
        client, self.told = service.client(), list[httpx2.Response]()

        def post() -> None:
            while (response := client.post("/v1/cypher", json={"statement": statement})).status_code == 503:
                pass
            self.told.append(response)

        self.thread = threading.Thread(target=post)

    def __enter__(self) -> list[httpx2.Response]:
        self.thread.start()
        return self.told

    def __exit__(self, *_: object) -> None:
        self.thread.join()
