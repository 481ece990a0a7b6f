"""Log lines of the service, over a real server: one a request, with its id, without secrets, not to be forged."""

import json
import logging
import re
import stat
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.contextvars import bound_contextvars

from tests.observed_service import CALLER, KEY, Service, observed_service, samples
from waygraph.api.telemetry.audit import TARGET_CHARS, Audit
from waygraph.api.telemetry.logs import open_logs, without_keys, without_secrets
from waygraph.api.telemetry.metrics import Metrics
from waygraph.registry.model.errors import CypherRefused, EngineError, NotAllowed, WaygraphError

FIELDS = "time level event request_id method route path status duration_ms caller client bytes".split()
"""Of a request's line, in order."""
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with observed_service() as service:
        yield service


@pytest.fixture
def request_id(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", request.node.name)[:100]


def test_a_request_is_one_line(service: Service, request_id: str) -> None:
    """Its fields in order, whatever uvicorn would have said of it as well."""
    url = f"{service.url}/api/v1/agents/alpha?token={KEY}"
    answer = httpx2.get(url, headers={"X-Request-ID": request_id})
    line = service.line(event="request", request_id=request_id)
    assert list(line) == FIELDS
    assert (line["method"], line["status"], line["level"]) == ("GET", 200, "info")
    assert (line["route"], line["path"]) == ("/api/v1/agents/{agent_id}", "/api/v1/agents/alpha")
    assert (line["caller"], line["client"], line["bytes"]) == (CALLER.id, "127.0.0.1", len(answer.content))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line["time"])
    assert 0 < line["duration_ms"] < 60_000
    assert service.log.count("/agents/alpha") == 1


def test_an_id_is_taken_over_and_sent_back(service: Service, request_id: str) -> None:
    """Also on the lines of threads that work for the request, with the caller as soon as it is known."""
    answer = httpx2.get(f"{service.url}/api/v1/agents/a", headers={"X-Request-ID": request_id})
    assert answer.headers.get_list("x-request-id") == [request_id]
    said = service.line(request_id=request_id, event="looked up in a thread")
    assert (said["caller"], said["logger"]) == (CALLER.id, "waygraph.tests.observed_service")


@pytest.mark.parametrize("given_id", ["", "a b", "a" * 129, "ä", '"}', "x;y", "../x"])
def test_an_id_that_is_not_sane_is_replaced(service: Service, given_id: str) -> None:
    answer = httpx2.get(f"{service.url}/status/204", headers=[(b"X-Request-ID", given_id.encode())])
    made = answer.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", made)
    service.line(event="request", request_id=made)


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1/agents/x", "/api/v1/agents/{agent_id}"),
        ("/within/things/x", "/within/things/{thing}"),
        ("/openapi.json", "/openapi.json"),
        ("/within/nothing", "unmatched"),
        ("/nothing/here", "unmatched"),
    ],
)
def test_the_route_is_a_template(service: Service, path: str, route: str) -> None:
    """With the prefixes of its router and of its mount; one word for all paths that no route takes."""
    answer = httpx2.get(service.url + path)
    assert service.line(request_id=answer.headers["x-request-id"], event="request")["route"] == route


def test_an_error_that_escapes_is_logged_once_and_answered_by_the_application(service: Service) -> None:
    """With its traceback and the request's id; the id is in the answer as well."""
    answer = httpx2.get(f"{service.url}/fails")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    line = service.line(request_id=answer.headers["x-request-id"])
    assert (line["level"], line["status"], line["route"]) == ("error", 500, "/fails")
    assert line["exception"].startswith("Traceback (most recent call last):")
    assert "RuntimeError: headers" in line["exception"]
    assert "Exception in ASGI application" not in service.log


def test_no_secret_of_a_request_is_logged(service: Service) -> None:
    """Also if the text of an error repeats every header and the whole URL."""
    secrets = [
        ("Authorization", f"Bearer {JWT}"),
        ("Authorization", "Bearer opaque-first-token"),
        ("Authorization", "Bearer opaque-second-token"),
        ("X-API-Key", KEY),
        ("Cookie", "session=cookie-value-1; csrf=cookie-value-2"),
        ("Proxy-Authorization", "Basic cHJveHk6cHJveHk="),
    ]
    answer = httpx2.get(f"{service.url}/fails?token=query-value-1&q=find%20my%20payslip", headers=secrets)
    service.line(request_id=answer.headers["x-request-id"])
    hidden = [JWT, KEY[16:], "opaque", "cookie-value", "cHJveHk6cHJveHk=", "query-value-1", "payslip"]
    assert [secret for secret in hidden if secret in service.log] == []


def test_a_key_in_a_path_is_hidden(service: Service) -> None:
    """As somebody writes it who takes the path for the place of keys; what no route takes included."""
    for path in (f"/api/v1/agents/{KEY}", f"/nothing/{KEY}", f"/nothing/{JWT}"):
        answer = httpx2.get(service.url + path)
        line = service.line(event="request", request_id=answer.headers["x-request-id"])
        assert line["path"].endswith("***")
    assert KEY[16:] not in service.log
    assert JWT not in service.log


def test_bodies_are_not_logged(service: Service) -> None:
    answer = httpx2.post(f"{service.url}/api/v1/route", json={"text": "my payslip of March"})
    assert answer.status_code == 200
    service.line(request_id=answer.headers["x-request-id"])
    assert "payslip" not in service.log


def test_messages_of_libraries_are_redacted() -> None:
    """A URL with its query, a header, a key: of other libraries only warnings are heard."""
    stream = StringIO()
    with _own_logging():
        open_logs("info", stream)
        other = logging.getLogger("some.library")
        other.info("not heard")
        other.warning("GET https://user:pw@host/a?code=abc %s failed", f"Authorization: Bearer {JWT}")
    line = json.loads(stream.getvalue())
    assert line["event"] == "GET https://***@host/a?*** Authorization: ***"
    assert (line["level"], line["logger"]) == ("warning", "some.library")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"key {KEY}.", "key wg_0123456789ab_***."),
        ("sk-proj-1234567890abcdef", "sk-***"),
        (f"'authorization': 'Bearer {JWT}'", "'authorization': '***'"),
        ("(b'authorization', b'Basic dXNlcjpwYXNz')", "(b'authorization', b'***')"),
        ("Cookie: a=b; c=d\nHost: x", "Cookie: ***\nHost: x"),
        (f"sent Bearer {JWT} to it", "sent Bearer *** to it"),
        ("('x-api-key', 'abc-def')", "('x-api-key', '***')"),
        ("password=hunter2 for host", "password=*** for host"),
        ("https://h/p?token=a&b=c 'x'", "https://h/p?*** 'x'"),
        ("a route of ten tools, as asked?", "a route of ten tools, as asked?"),
        ("File 'registry/token.py', line 3, in secret", "File 'registry/token.py', line 3, in secret"),
    ],
)
def test_what_is_a_secret_goes_and_the_rest_stays(text: str, told: str) -> None:
    assert without_secrets(text) == told


@given(st.text(), st.binary(min_size=38, max_size=38), st.text())
def test_no_key_survives(before: str, drawn: bytes, after: str) -> None:
    """Whatever stands around it: a key is found, though its neighbours are letters."""
    key = f"wg_{drawn[:6].hex()}_{urlsafe_b64encode(drawn[6:]).decode().rstrip('=')}"
    assert key not in without_keys(f"{before}{key}{after}")


@given(st.text(st.characters(exclude_characters="*"), min_size=4), st.text())
def test_what_is_known_to_be_secret_goes(secret: str, around: str) -> None:
    assert secret not in without_secrets(f"{around} {secret} {around}", [secret])


class _own_logging:  # noqa: N801 - reads as the context that it is
    """Handlers of the root are the former ones afterwards."""

    def __enter__(self) -> None:
        self._held = list(logging.getLogger().handlers)

    def __exit__(self, *_: object) -> None:
        logging.getLogger().handlers = self._held


STATEMENT = "MATCH (a:Agent) WHERE a.id = $id RETURN a"


@contextmanager
def logged() -> Iterator[StringIO]:
    """What the process logs meanwhile, as a service would."""
    stream, held = StringIO(), list(logging.getLogger().handlers)
    open_logs("info", stream)
    try:
        yield stream
    finally:
        logging.getLogger().handlers = held


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_write_is_a_line_in_the_log_and_in_the_file(file: Path) -> None:
    """Who, what, when, how it ended, at which revision, in which request."""
    with logged() as stream, bound_contextvars(request_id="r-1"):
        audit = Audit(file)
        with audit.attempt(CALLER, "ingest", "catalogue.yaml") as attempt:
            attempt.revision = 7
        audit.close()
    (line,), (written,) = lines(stream.getvalue()), lines(file.read_text(encoding="utf-8"))
    assert (line["event"], line["logger"]) == ("audit", "waygraph.audit")
    for told in (line, written):
        assert (told["caller"], told["caller_name"]) == (CALLER.id, "ci")
        assert (told["action"], told["target"], told["outcome"]) == ("ingest", "catalogue.yaml", "ok")
        assert (told["revision"], told["request_id"]) == (7, "r-1")
        assert told["duration_ms"] >= 0
        assert told["time"].startswith("20")
        assert "error" not in told


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CypherRefused("CREATE is no reading"), "refused"),
        (NotAllowed("this needs the scope 'cypher'"), "refused"),
        (EngineError("out of memory"), "failed"),
        (ValueError("a bug"), "failed"),
    ],
)
def test_what_fails_is_told_with_its_code(file: Path, error: Exception, outcome: str) -> None:
    audit = Audit(file)
    with pytest.raises(type(error)), audit.attempt(CALLER, "cypher", STATEMENT):
        raise error
    audit.close()
    (line,) = lines(file.read_text(encoding="utf-8"))
    assert (line["outcome"], line["error"]) == (outcome, type(error).__name__)
    assert str(error) not in json.dumps(line)


def test_of_a_statement_the_text_is_told_and_of_parameters_the_names(file: Path) -> None:
    """Values are data of somebody; a key in the text is hidden; a long one is cut, and its length told."""
    audit = Audit(file)
    audit.record(CALLER, "cypher", STATEMENT, "ok", parameters={"id": "payroll", "also": 1})
    audit.record(CALLER, "cypher", f"RETURN '{KEY}'", "ok")
    audit.record(CALLER, "cypher", "RETURN 1 //" + "x" * 5_000, "refused")
    audit.close()
    first, second, third = lines(file.read_text(encoding="utf-8"))
    assert (first["target"], first["parameters"]) == (STATEMENT, ["also", "id"])
    assert "payroll" not in file.read_text(encoding="utf-8")
    assert second["target"] == "RETURN 'wg_0123456789ab_***'"
    assert (len(third["target"]), third["target_chars"]) == (TARGET_CHARS, 5_011)


def test_the_file_is_its_owners_alone(file: Path) -> None:
    """0600 from the first moment, and again if it was left open to others; what it held stays."""
    file.write_text('{"held": 1}\n', encoding="utf-8")
    file.chmod(0o644)
    audit = Audit(file)
    audit.record(CALLER, "remove", "alpha", "ok")
    audit.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(lines(file.read_text(encoding="utf-8"))) == 2


def test_processes_share_a_file(file: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from waygraph.api.telemetry.audit import Audit; "
        "from waygraph.registry.access.visibility import LOCAL; audit = Audit(Path(sys.argv[1])); "
        "[audit.record(LOCAL, 'cypher', sys.argv[2] * 1999 + str(n % 10), 'ok', number=n) for n in range(200)]"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(file), letter]) for letter in "aé😀"]
    assert [process.wait(timeout=120) for process in started] == [0, 0, 0]
    read = lines(file.read_text(encoding="utf-8"))
    assert len(read) == 600
    assert {(line["target"][0], line["number"]) for line in read} == {(c, n) for c in "aé😀" for n in range(200)}


def test_what_is_tried_is_counted(file: Path) -> None:
    metrics = Metrics()
    audit = Audit(metrics=metrics)
    for error in (None, CypherRefused("no"), EngineError("no")):
        for action in ("cypher", "ingest"):
            _tried(audit, action, error)
    numbers = samples(metrics.exposition()[0])
    for outcome in ("ok", "refused", "failed"):
        assert numbers[f'waygraph_cypher_statements_total{{outcome="{outcome}"}}'] == 1
        assert numbers[f'waygraph_writes_total{{action="ingest",outcome="{outcome}"}}'] == 1
    assert not file.exists()


def _tried(audit: Audit, action: Any, error: WaygraphError | None) -> None:
    try:
        with audit.attempt(CALLER, action, "x"):
            if error:
                raise error
    except WaygraphError as raised:
        assert raised is error  # noqa: PT017 - it goes on unchanged
