"""What a stranger can send: too much, too slowly, to another host, by other methods, on strange paths."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import pytest
from starlette.requests import Request

from tests.service import SECURITY_HEADERS, Served, agent, assert_careful, assert_good, assert_problem, ingest, served
from waygraph.api.rest import middleware
from waygraph.api.rest.problems import RETRY_AFTER_S
from waygraph.registry.model.errors import NotAuthenticated
from waygraph.registry.model.settings import Settings
from waygraph.registry.operations.table import OPERATIONS

SMALL = Settings(max_body_bytes=2_000, max_manifest_bytes=20_000)
AS_JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    """With small limits."""
    with served(settings=SMALL) as service:
        ingest(service.client(), "s", agent("a", "look"))
        yield service


def answered(raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), {name.lower(): value for name, value in headers.items()}, body


def request(target: str, *, method: str = "GET", host: str = "localhost", body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_too_large_is_refused(service: Served, *, chunked: bool) -> None:
    """By what it says of itself, and by what comes; manifests may be larger."""
    for path, limit in (("/v1/route", 2_000), ("/v1/manifests", 20_000)):
        for size, refused in ((limit - 1, False), (limit + 1, True), (limit * 50, True)):
            content = b" " * size
            response = service.client().post(path, content=_pieces(content) if chunked else content, headers=AS_JSON)
            if refused:
                told = assert_problem(response, 413, "too-large")
                assert f"{limit:,}" in told["detail"]
                assert response.headers["connection"] == "close"
            else:
                assert_problem(response, 400, "bad-request")
    assert_good(service.client().get("/healthz"))


def _pieces(content: bytes) -> Iterator[bytes]:
    yield from (content[start : start + 1_000] for start in range(0, len(content), 1_000))


def test_a_head_without_end_is_refused(service: Served) -> None:
    """Whoever sends it: it costs memory, and is read before anybody is asked who they are."""
    long = request("/healthz", X_Long="x" * 100_000)
    status, headers, body = answered(service.raw(long))
    assert (status, headers["connection"]) == (431, "close")
    told = json.loads(body)
    assert (told["code"], told["instance"].rpartition(":")[2]) == ("too-large", headers["x-request-id"])
    assert headers["x-request-id"] in service.log
    with service.connect() as connection, suppress(ConnectionError):
        for _ in range(1_000):
            connection.sendall(b"x" * 10_000)
        pytest.fail("ten megabytes of a head were read")
    assert_good(service.client().get("/healthz", headers={"X-Long": "x" * 50_000}))


def test_a_head_that_does_not_come_is_not_waited_for(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """408 for a part of one, also of a second request; a connection that sends nothing is closed."""
    monkeypatch.setattr(middleware, "HEAD_S", 1.0)
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ThreadPoolExecutor(3) as together:
        answers = list(together.map(service.raw, (b"", whole[:20], whole + whole[:20])))
    told = [[int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", raw)] for raw in answers]
    assert told == [[], [408], [200, 408]]


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_TIMEOUT_S", 0.5)
    head = request("/v1/route", method="POST", Content_Length="100", Content_Type="application/json")
    with served(settings=SMALL) as service:
        status, headers, body = answered(service.raw(head + b'{"text": '))
    assert (status, headers["connection"]) == (408, "close")
    assert json.loads(body)["code"] == "too-slow"
    assert json.loads(body)["retryable"]


def test_slow_ones_do_not_stop_others(service: Served) -> None:
    with ExitStack() as held:
        head = request("/v1/route", method="POST", Content_Length="1000")
        for sent in (b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: lo", head):
            for _ in range(40):
                connection = held.enter_context(service.connect())
                connection.sendall(sent)
        for _ in range(5):
            assert_good(service.client().post("/v1/route", json={"text": "look"}))


def test_a_client_that_leaves_is_no_fault(service: Served) -> None:
    head = request("/v1/route", method="POST", Content_Length="1000")
    for sent in (head, head + b'{"text": "lo', request("/v1/agents")):
        with service.connect() as connection:
            connection.sendall(sent)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    time.sleep(0.1)
    assert_good(service.client().get("/healthz"))
    assert '"status": 5' not in service.log


def test_two_lengths_and_other_tricks_are_refused(service: Served) -> None:
    for head in (
        b"POST /v1/route HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n1234",
        b"POST /v1/route HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/route HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/route HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\nzz\r\n",
        b"GET /healthz\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"GET /healthz HTTP/9.9\r\n\r\n",
    ):
        with service.connect() as connection:
            connection.sendall(head)
            connection.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert said == b"" or re.match(rb"HTTP/1\.[01] 4\d\d ", said), (head, said[:200])
    assert_good(service.client().get("/healthz"))


def test_what_is_no_http_is_a_problem_like_others(service: Served) -> None:
    """With its shape, its headers and an id, though it never reaches the application."""
    status, headers, body = answered(service.raw(b"BREW /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    raw = httpx2.Response(status, headers=headers, content=body)
    assert_problem(raw, 400, "bad-request")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_without_authentication_only_names_of_this_machine_are_answered(service: Served, host: str) -> None:
    status, _, body = answered(service.raw(request("/v1/agents", host=host)))
    assert status == 421
    assert json.loads(body)["code"] == "wrong-host"
    assert b"look" not in body


BAD_HOSTS = (
    "a/healthz?x=",
    "localhost/healthz?x=",
    "localhost:80/healthz?x=",
    "localhost:/healthz#",
    "localhost:80@evil.example",
    "localhost:x",
    "[::1]/healthz?x=",
    "[::1]:80/healthz?x=",
)
"""`Host` headers that move the path of a URL rebuilt from them (CVE-2026-48710), or that are no host."""


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_a_malformed_host_moves_no_path(service: Served, guarded: Served, host: str) -> None:
    """CVE-2026-48710: no other path is authorized than the one requested, and Starlette reads that one too."""
    status, _, body = answered(service.raw(request("/v1/agents", host=host)))
    assert (status, json.loads(body)["code"]) == (421, "wrong-host")
    assert answered(guarded.raw(request("/v1/agents", host=host)))[0] == 401
    scope = {"type": "http", "scheme": "http", "server": ("127.0.0.1", 80), "path": "/v1/agents", "query_string": b""}
    assert Request({**scope, "headers": [(b"host", host.encode())]}).url.path == "/v1/agents"


def test_web_pages_of_others_may_not_read(service: Served) -> None:
    response = service.client().get("/v1/agents", headers={"Origin": "https://page.example"})
    assert not [name for name in response.headers if name.startswith("access-control")]
    preflight = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    assert_problem(service.client().options("/v1/route", headers=preflight), 405, "method-not-allowed")


def test_web_pages_that_are_named_may() -> None:
    """Of these origins alone, with keys but without cookies; errors too can be read."""
    with served(settings=Settings(cors_origins="https://page.example, https://other.example")) as service:
        client = service.client()
        for origin, allowed in (("https://page.example", True), ("https://other.example", True), ("null", False)):
            for path in ("/v1/agents", "/healthz", "/nowhere"):
                response = client.get(path, headers={"Origin": origin})
                assert (response.headers.get("access-control-allow-origin") == origin) == allowed
                assert "access-control-allow-credentials" not in response.headers
        preflight = {
            "Origin": "https://page.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type",
        }
        response = client.options("/v1/route", headers=preflight)
        assert response.status_code == 200
        assert_careful(response)
        assert response.headers["access-control-allow-origin"] == "https://page.example"


def test_web_pages_that_are_named_may_send_each_operation() -> None:
    """Whatever its method is; another method is refused."""
    with served(settings=Settings(cors_origins="https://page.example")) as service:
        client = service.client()
        for operation in OPERATIONS.values():
            preflight = {"Origin": "https://page.example", "Access-Control-Request-Method": operation.method}
            response = client.options(re.sub(r"{.*?}", "x", operation.path), headers=preflight)
            assert (response.status_code, operation.name) == (200, operation.name)
        preflight = {"Origin": "https://page.example", "Access-Control-Request-Method": "TRACE"}
        assert client.options("/v1/taxonomy", headers=preflight).status_code == 400


def test_another_host_is_refused_whichever_page_asks() -> None:
    with served(settings=Settings(cors_origins="https://page.example")) as service:
        raw = request("/v1/agents", host="evil.example", Origin="https://page.example")
        status, headers, _ = answered(service.raw(raw))
        assert status == 421
        assert "access-control-allow-origin" not in headers


def test_every_answer_has_the_headers_of_care(service: Served) -> None:
    client = service.client()
    for response in (
        client.get("/healthz"),
        client.get("/openapi.json"),
        client.get("/metrics"),
        client.get("/nowhere"),
        client.put("/healthz"),
        client.post("/v1/route", json={}),
        client.post("/v1/route", content=b" " * 3_000),
        client.get("/v1/agents/nobody"),
    ):
        assert_careful(response)
    _, headers, _ = answered(service.raw(request("/v1/agents", host="evil.example")))
    assert {name: headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


@pytest.mark.parametrize("path", ["/healthz", "/v1/agents", "/v1/agents/nobody", "/v1/status", "/openapi.json", "/x"])
def test_head_is_get_without_content(service: Served, path: str) -> None:
    """The same status and headers, the length of the content among them, on a connection that goes on."""
    with service.client() as client:
        got, told = client.get(path), client.head(path)
        assert told.content == b""
        assert told.status_code == got.status_code
        varying = {"date", "x-request-id"}
        if got.status_code == 404:  # its content holds the request's id
            varying.add("content-length")
        assert {n: v for n, v in told.headers.items() if n not in varying} == {
            name: value for name, value in got.headers.items() if name not in varying
        }
        if "etag" in got.headers:
            assert client.head(path, headers={"If-None-Match": got.headers["etag"]}).status_code == 304


STRANGE_PATHS = """
    /nowhere /v1 /v1/ /v1/agents/ //v1/agents /v1/agents// /v1/agents/.. /v1/agents/%2e%2e/agents /v1/../../etc/passwd
    /v1/agents/..%2f..%2fetc%2fpasswd /v1/agents/%00 /v1/agents/a%00 /v1/agents/%ff%fe /v1/agents/%ed%a0%80
    /v1/agents/% /v1/agents/%zz /v1/tools/%2f /v1/tools/a/ /v1/tools//look /v1/tools/a/%00 /V1/AGENTS /docs/
    /docs/../application.py /docs/NOTICE /redoc /static/x *
""".split()


def test_strange_paths_lead_nowhere(service: Served) -> None:
    """404, or 422 for what cannot be a name; the shape is that of all problems."""
    wrong = {}
    for target in (*STRANGE_PATHS, "/v1/tools/" + "x/" * 3_000, "/v1/agents/" + "x" * 30_000):
        status, headers, body = answered(service.raw(request(target)))
        is_problem = headers["content-type"] == "application/problem+json" and json.loads(body)["status"] == status
        if status != 400 and not (status in (404, 422) and is_problem):
            wrong[target[:60]] = (status, body)
    assert wrong == {}


STRANGE_JSON = [
    *('"\\ud800"', '"a\\u0000b"', '"\\udc00\\ud800"', "[" * 50_000, '{"a":' * 20_000, "1" * 5_000),
    *("-1e400", "NaN", "[" * 900 + "]" * 900, '"\\u202e\\ufeff"', '"' + "é" * 900 + '"'),
]


@pytest.mark.parametrize("place", ["text", "limit", "filters", "steps", "recipe", "unknown"])
def test_strange_json_is_no_fault(service: Served, place: str) -> None:
    """Halves of characters, depth, numbers without end: taken as a text, or refused."""
    for text in STRANGE_JSON:
        body = f'{{"{place}": {text}}}'.encode()[:1_900]
        response = service.client().post("/v1/route", content=body, headers=AS_JSON)
        if response.status_code == 200:
            assert_good(response)
        else:
            assert response.status_code in (400, 422), text[:60]
            assert_problem(response, response.status_code, response.json()["code"])


def test_deep_json_is_no_fault(blank: Served) -> None:
    """Deeper than any program reads it, at every operation that takes a body."""
    client = blank.client()
    ingest(client, "s", agent("a"))
    for method, path in [
        ("POST", "/v1/route"),
        ("POST", "/v1/route/batch"),
        ("POST", "/v1/tools/search"),
        ("POST", "/v1/manifests"),
        ("PATCH", "/v1/agents/a"),
        ("POST", "/v1/cypher"),
    ]:
        for body in (
            b"[" * 400_000,
            b'{"a":' * 150_000,
            b"[" * 990 + b"]" * 990,
            b'{"manifest":' * 500 + b"{}" + b"}" * 500,
        ):
            response = client.request(method, path, content=body, headers=AS_JSON)
            assert response.status_code in (400, 422), (path, response.text[:200])
            assert_problem(response, response.status_code, response.json()["code"])
    nested: object = {}
    for _ in range(300):
        nested = {"a": nested}
    for manifest in (nested, {"waygraph": 1, "agents": [nested]}):
        response = client.post("/v1/manifests", json={"source": "s", "manifest": manifest})
        assert response.status_code in (200, 422)


def test_an_answer_that_is_not_ready_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `request_timeout_s`, and when to ask again; the thread that is at it goes on."""
    with served(settings=Settings(request_timeout_s=0.2)) as service:
        client, ready, page = service.client(), threading.Event(), service.registry.agents_page
        ingest(client, "s", agent("a"))

        def slow(**asked: Any) -> Any:
            ready.wait(10)  # less than a request may take by default
            return page(**asked)

        monkeypatch.setattr(service.registry, "agents_page", slow)
        response = client.get("/v1/agents")
        ready.set()
    told = assert_problem(response, 503, "too-late")
    assert (told["detail"], told["retryable"]) == ("no answer was ready within 0.2 s", True)
    assert response.headers["retry-after"] == str(RETRY_AFTER_S)


def test_who_is_not_known_sends_nothing_large(guarded: Served) -> None:
    """Whose key is not good is refused before a body is read, and before what is wrong in it is told."""
    head = request("/v1/manifests", method="POST", Content_Length=str(60 * 1024 * 1024))
    status, headers, _ = answered(guarded.raw(head))
    assert (status, headers["connection"]) == (401, "close")
    response = guarded.client().post("/v1/route", content=b"{", headers=AS_JSON)
    assert_problem(response, 401, NotAuthenticated)
