"""Requests that two readers could read differently."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service import PROBLEM, Served, agent, ingest, served
from waygraph.api.rest.middleware import MAX_HEAD_BYTES

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(auth=True, folder=tmp_path_factory.mktemp("keys")) as running:
        yield running


HEADS = (
    (b"Host: localhost\r\nHost: localhost\r\n", b"400"),
    (b"Host: localhost\r\nhost: evil.example\r\n", b"400"),
    (b"Host: localhost\r\n" + b"a: b\r\n" * (MAX_HEAD_BYTES // 5), b"431"),
)


@pytest.mark.parametrize(("head", "status"), HEADS, ids=("two hosts", "another host", "many short ones"))
def test_a_strange_head_is_refused(service: Served, head: bytes, status: bytes) -> None:
    said = service.raw(b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n")
    assert said.startswith(b"HTTP/1.1 " + status), said[:300]


KNOWN, OTHER = b"Bearer wg_000000000000_" + b"A" * 43, b"Bearer wg_000000000000_" + b"B" * 43
ONCE = {
    "authorization": (KNOWN, OTHER),
    "Authorization": (KNOWN, KNOWN),
    "x-api-key": (b"one", b"two"),
    "origin": (b"http://localhost", b"https://evil.example"),
    "mcp-session-id": (b"1" * 32, b"2" * 32),
    "mcp-protocol-version": (b"2025-06-18", b"2026-07-28"),
    "content-type": (b"application/json", b"text/plain"),
    "content-length": (b"0", b"2"),
}


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("path", [b"/v1/agents", b"/mcp", b"/healthz"])
def test_a_header_that_is_there_twice_is_refused(service: Served, name: str, path: bytes) -> None:
    """Of two one reader takes the first and another one the last: a proxy in front, a log, and this service."""
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for value in ONCE[name])
    answer = service.raw(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 "), answer[:300]
    assert b"application/problem+json" in answer or name == "content-length"
    assert not any(value in answer for value in ONCE[name] if len(value) > 20)


def test_headers_that_are_lists_may_be_there_twice(service: Served) -> None:
    lines = b"Accept: text/html\r\nAccept: */*\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-For: 10.0.0.2\r\n"
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    assert service.raw(head + lines + b"\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.fixture(scope="module")
def open_service() -> Iterator[Served]:
    """Without authentication: it answers to names of this machine alone."""
    with served() as running:
        yield running


TARGETS = {
    b"http://evil.example/healthz": b"421",
    b"http://evil.example:80/healthz": b"421",
    b"HTTP://EVIL.example/healthz": b"421",
    b"https://evil.example/healthz": b"421",
    b"http://localhost@evil.example/healthz": b"421",
    b"http://localhost.evil.example/healthz": b"421",
    b"http://localhost:9/healthz": b"200",
    b"http://127.0.0.1/healthz?x=http://evil.example/": b"200",
    b"/healthz?x=http://evil.example/": b"200",
}


@pytest.mark.parametrize("target", TARGETS, ids=bytes.decode)
@pytest.mark.parametrize("host", [b"Host: localhost\r\n", b""], ids=["with Host", "without"])
def test_the_host_in_a_target_is_judged_as_the_header_is(open_service: Served, target: bytes, host: bytes) -> None:
    """RFC 9112, 3.2.2: it takes the place of the header, whatever that says."""
    answer = open_service.raw(b"GET " + target + b" HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
    wanted = TARGETS[target] if host or target.lower().startswith(b"http") else b"421"
    assert answer.startswith(b"HTTP/1.1 " + wanted), answer[:200]
    assert b"evil.example" not in answer.partition(b"\r\n\r\n")[0]


def test_what_is_sent_behind_a_refused_request_is_not_answered(service: Served) -> None:
    twice = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-API-Key: a\r\nX-API-Key: b\r\n\r\n"
    answer = service.raw(twice + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")


TEXTS = {
    "NaN": "NaN",
    "infinite": "-Infinity",
    "no float": "1e999",
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5_000,
    "deep": "[" * 20_000 + "]" * 20_000,
    "cut": '{"a": ',
    "half a pair": '"\\ud800"',
    "flag": "true",
}
PATH = {"agent_id": "alpha", "tool_id": "alpha/send", "tool": "send", "name": "mine", "source": "one", "agent": "alpha"}


@pytest.fixture(scope="module")
def numbers_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("numbers")
    with served(folder / "tools.grafeo") as running:
        ingest(running.admin(), "one", agent("alpha", "send"))
        yield running


def operations(numbers_service: Served) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path with values, and what the document says of it."""
    document = numbers_service.admin().get("/openapi.json").json()
    for path, methods in document["paths"].items():
        filled = re.sub(r"\{(\w+)(?::path)?\}", lambda found: PATH.get(found[1], "alpha"), path)
        for method, told in methods.items():
            yield method, filled, told | {"schemas": document["components"]["schemas"]}


def fields_of(told: dict[str, Any]) -> list[str]:
    schema = told["requestBody"]["content"]["application/json"]["schema"]
    whole = told["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    return list(whole.get("properties", {})) or ["anything"]


def assert_refused_or_taken(answer: httpx2.Response) -> None:
    assert answer.status_code < 500, (answer.request.url, answer.text[:300])
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == PROBLEM
        assert "Traceback" not in answer.text


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_a_body_that_is_no_json_of_ours_is_a_problem(numbers_service: Served, text: str) -> None:
    admin, tried = numbers_service.admin(), 0
    for method, path, told in operations(numbers_service):
        if "application/json" not in told.get("requestBody", {}).get("content", {}):
            continue
        fields = ", ".join(f'"{name}": {text}' for name in fields_of(told))
        for body in (text, f"{{{fields}}}", f'{{"text": "a", "text": {text}}}'):
            headers = {"content-type": "application/json"}
            answer = admin.request(method, path, content=body.encode(), headers=headers)
            assert_refused_or_taken(answer)
            tried += 1
            if method == "delete":
                ingest(admin, "one", agent("alpha", "send"))
    assert tried > 20
    assert "Traceback" not in numbers_service.log


@pytest.mark.parametrize("text", ["NaN", "inf", "1e999", "9" * 400, "9" * 5_000, "-1", "0x7f", "\u0667", "true"])
def test_a_number_in_an_address_is_refused_or_taken(numbers_service: Served, text: str) -> None:
    admin = numbers_service.admin()
    for method, path, told in operations(numbers_service):
        if method != "get":
            continue
        for parameter in told.get("parameters", ()):
            if parameter["in"] == "query":
                assert_refused_or_taken(admin.get(path, params={parameter["name"]: text}))
    assert "Traceback" not in numbers_service.log
