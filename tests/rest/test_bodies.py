"""The bodies of requests: what is refused, and by whom."""

from pathlib import Path

import httpx2

from tests.service import Served, assert_problem, served
from waygraph.registry.model.errors import NotAllowed, NotAuthenticated, TooManyRequests
from waygraph.registry.model.settings import Settings

JSON = "application/json"
ROUTE, SEARCH = "/v1/route", "/v1/tools/search"
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


def post(client: httpx2.Client, path: str, body: bytes, media_type: str = JSON) -> httpx2.Response:
    return client.post(path, content=body, headers={"Content-Type": media_type})


def test_mistakes_are_refused(example: Served) -> None:
    client = example.client()
    answers = {name: post(client, path, body) for name, (path, body) in BAD.items()}
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code not in (400, 422)} == {}
    assert {answer.headers["content-type"] for answer in answers.values()} == {"application/problem+json"}


def test_half_a_character_is_no_mistake(example: Served) -> None:
    assert post(example.client(), ROUTE, b'{"text": "book \\ud800 a table"}').status_code == 200


def test_what_does_not_say_that_it_is_json_is_refused(example: Served) -> None:
    assert_problem(post(example.client(), ROUTE, b'{"text": "a"}', "text/plain"), 415, "media-type")


def test_who_may_not_route_is_refused(guarded: Served) -> None:
    body = b'{"text": "a"}'
    assert_problem(post(guarded.client(), ROUTE, body), 401, NotAuthenticated)
    assert_problem(post(guarded.caller("read"), ROUTE, body), 403, NotAllowed)
    assert_problem(post(guarded.caller("route"), ROUTE, body), 404, "registry-not-found")


def test_a_question_counts_once(tmp_path: Path) -> None:
    settings = Settings(rate_per_minute=6, rate_burst=2)
    with served(auth=True, folder=tmp_path, settings=settings) as limited:
        caller = limited.caller("route")
        assert post(caller, ROUTE, b'{"text": "a"}').status_code == 404
        assert post(caller, ROUTE, b'{"text": 5}').status_code == 422
        assert_problem(post(caller, ROUTE, b'{"text": "a"}'), 429, TooManyRequests)
