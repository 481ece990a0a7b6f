"""Questions in plain JSON reach their endpoint at once, and nobody can tell from the answer."""

import json
from pathlib import Path
from typing import Any

import fastapi.routing
import httpx2
import pytest

from tests.service import Served, assert_problem, served, until
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated, TooManyRequests
from waygraph.registry.model.settings import Settings

DIRECT, USUAL = "application/json", "application/vnd.test+json"
SOLVES = "solve_dependencies"
ROUTE, SEARCH = "/v1/route", "/v1/tools/search"
GOOD = {
    "text": (ROUTE, {"text": "book a table for four"}),
    "steps": (ROUTE, {"steps": ["book a table", "convert dollars to euros"], "limit": 2}),
    "all that can be said": (
        ROUTE,
        {
            "text": "book a table",
            "limit": 3.0,
            "recipe": "lexical",
            "filters": {"tags": ["restaurants"], "reachable": False},
            "explain": True,
            "schema": True,
            "format": "openai",
            "agent_weight": 2,
            "tool_weight": 0.5,
        },
    ),
    "nothing fits": (ROUTE, {"text": "qqqq zzzz", "recipe": "lexical"}),
    "tools": (SEARCH, {"text": "book a table", "explain": True}),
    "other scripts": (SEARCH, {"text": "订一张四人桌 \U0001f37d"}),
    "half a character": (ROUTE, {"text": "book \ud800 a table"}),
}
BAD = {
    "nothing": (ROUTE, b""),
    "no JSON": (ROUTE, b"{"),
    "no UTF-8": (ROUTE, b'{"text": "\xff"}'),
    "no object": (ROUTE, b'["text"]'),
    "too deep": (ROUTE, b"[" * 100_000),
    "too long a number": (ROUTE, b'{"text": "a", "limit": ' + b"9" * 5_000 + b"}"),
    "no question": (ROUTE, b"{}"),
    "two questions": (ROUTE, b'{"text": "a", "steps": ["b"]}'),
    "another field": (ROUTE, b'{"text": "a", "texts": "b"}'),
    "another type": (ROUTE, b'{"text": 5}'),
    "no number": (ROUTE, b'{"text": "a", "agent_weight": NaN}'),
    "a limit that cannot be": (ROUTE, b'{"text": "a", "limit": 0}'),
    "an unknown recipe": (ROUTE, b'{"text": "a", "recipe": "none such"}'),
    "a blank text": (SEARCH, b'{"text": " "}'),
    "steps to search by": (SEARCH, b'{"text": "a", "steps": ["b"]}'),
}


@pytest.fixture(scope="module")
def client(example: Served) -> httpx2.Client:
    return example.client()


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of requests whose dependencies FastAPI looked for."""
    paths: list[str] = []
    usual = getattr(fastapi.routing, SOLVES)

    async def noted(**given: Any) -> Any:
        paths.append(given["request"].url.path)
        return await usual(**given)

    monkeypatch.setattr(fastapi.routing, SOLVES, noted)
    return paths


def post(client: httpx2.Client, path: str, body: bytes, media_type: str) -> httpx2.Response:
    return client.post(path, content=body, headers={"Content-Type": media_type})


def told(response: httpx2.Response) -> tuple[int, dict[str, str], Any]:
    """Without what differs from answer to answer."""
    own = {"date", "x-request-id", "content-length"}
    document = response.json()
    for part in [document, *document.get("steps", ())]:
        part.pop("instance", None)
        part.pop("elapsed_ms", None)
    return response.status_code, {k: v for k, v in response.headers.items() if k not in own}, document


@pytest.mark.parametrize("name", GOOD)
def test_both_ways_lead_to_one_answer(client: httpx2.Client, solved: list[str], name: str) -> None:
    path, asked = GOOD[name]
    body = json.dumps(asked).encode()
    direct = post(client, path, body, DIRECT)
    with_charset = post(client, path, body, f"{DIRECT}; charset=utf-8")
    assert solved == []
    usual = post(client, path, body, USUAL)
    assert solved == [path]
    assert direct.status_code == 200
    assert told(direct) == told(with_charset) == told(usual)


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told_in_one_way(client: httpx2.Client, name: str) -> None:
    path, body = BAD[name]
    direct, usual = (post(client, path, body, media_type) for media_type in (DIRECT, USUAL))
    assert direct.status_code in (400, 422), direct.text
    assert told(direct) == told(usual)


def test_what_does_not_say_that_it_is_json_is_refused(client: httpx2.Client) -> None:
    assert_problem(post(client, ROUTE, b'{"text": "a"}', "text/plain"), 415, "media-type")


@pytest.mark.parametrize("path", [ROUTE, SEARCH])
def test_both_ways_are_logged_and_counted_alike(example: Served, client: httpx2.Client, path: str) -> None:
    def counted() -> float:
        lines = client.get("/metrics").text.splitlines()
        start = f'waygraph_http_requests_total{{method="POST",route="{path}",status="2xx"}}'
        return sum(float(line.split()[-1]) for line in lines if line.startswith(start))

    def line(media_type: str) -> dict[str, Any]:
        answered = post(client, path, b'{"text": "book a table"}', media_type)
        request_id = answered.headers["x-request-id"]
        until(lambda: request_id in example.log, "the line of the request")
        lines = map(json.loads, example.log.splitlines())
        found = next(each for each in lines if each.get("request_id") == request_id)
        own = {"time", "request_id", "duration_ms", "bytes"}
        return {name: told for name, told in found.items() if name not in own}

    before = counted()
    assert line(DIRECT) == line(USUAL)
    assert line(DIRECT)["route"] == path
    assert counted() == before + 3


@pytest.mark.parametrize("media_type", [DIRECT, USUAL])
def test_who_may_not_route_is_refused(guarded: Served, media_type: str) -> None:
    body = b'{"text": "a"}'
    assert_problem(post(guarded.client(), ROUTE, body, media_type), 401, NotAuthenticated)
    assert_problem(post(guarded.caller("read"), ROUTE, body, media_type), 403, NotAllowed)
    assert_problem(post(guarded.caller("route"), ROUTE, body, media_type), 404, "registry-not-found")


def test_a_question_counts_once(tmp_path: Path) -> None:
    settings = Settings(rate_per_minute=6, rate_burst=3)
    with served(auth=True, folder=tmp_path, settings=settings) as limited:
        caller = limited.caller("route")
        assert post(caller, ROUTE, b'{"text": "a"}', DIRECT).status_code == 404
        assert post(caller, ROUTE, b'{"text": "a"}', USUAL).status_code == 404
        assert post(caller, ROUTE, b'{"text": 5}', DIRECT).status_code == 422
        assert_problem(post(caller, ROUTE, b'{"text": "a"}', DIRECT), 429, TooManyRequests)
