"""What the clients over HTTP do with a service that is not well, over real sockets: asked again only where it is safe,
never without end, and always an error of ours.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from socket import socket
from typing import Any

import pytest

from tests.remote.flaky import Behaviour, Flaky, drop, flaky, half, raw, reply, silence, trouble
from waygraph import Settings
from waygraph.registry.model.errors import (
    EmbedderUnavailable,
    InvalidQuery,
    InvalidSetting,
    MassRemoval,
    RegistryClosed,
    RegistryNotFound,
    ServiceFailed,
    ServiceUnavailable,
    SourceError,
    WaygraphError,
)
from waygraph.registry.model.nouns import Query
from waygraph.registry.operations.agents import ForgetSource, SetAgent
from waygraph.registry.operations.catalog import GetAgent
from waygraph.registry.operations.graph_views import RunCypher
from waygraph.registry.operations.search import FindTools, RouteAgents
from waygraph.registry.remote import calls, transport
from waygraph.registry.remote.calls import Call
from waygraph.registry.remote.transport import Connection
from waygraph.registry.storage.location import ServiceAddress

KEY = "wg_0123456789ab_c2VjcmV0LXNlY3JldC1zZWNyZXQ"
WRITTEN = {"revision": 7, "texts_embedded": 0}
AGENT: dict[str, Any] = {
    "id": "a", "name": "a", "description": "", "kind": "skill", "version": "", "transport": None, "tags": [],
    "visible_to": [], "pinned": False, "hidden": False, "status": "known", "pending": False, "flags": [],
    "content_hash": "", "approved_hash": "",
}  # fmt: skip
GOOD = reply({"agent": AGENT})
DONE = reply(WRITTEN)
LOCKED = trouble(503, "registry-locked", facts={"path": "r", "holder": "pid 1", "waited_s": 1.0}, retryable=True)


@dataclass
class Client:
    """A connection whose time passes only while it sleeps."""

    slept: list[float] = field(default_factory=list)
    on_sleep: Callable[[], object] = lambda: None
    clock: Callable[[], float] | None = None

    def ask[T](self, url: str, call: Call[T], **settings: Any) -> T:
        address, chosen = ServiceAddress.parse(url), Settings(**settings)
        clock = self.clock or (lambda: sum(self.slept))
        connection = Connection(address, chosen, sleep=self._sleep, clock=clock, jitter=lambda: 1.0)
        try:
            return connection.ask(call)
        finally:
            connection.close()

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.on_sleep()


@pytest.fixture
def client() -> Client:
    return Client()


def look() -> Call[Any]:
    """Changes nothing."""
    return calls.request_call(GetAgent(agent_id="a"))


BUSY = trouble(503, "service-busy", retryable=True)
"""Too many writes wait."""


def write() -> Call[Any]:
    return calls.request_call(ForgetSource(name="s"))


def offer(*, dry_run: bool = False) -> Call[calls.IngestReports]:
    """A source without documents."""
    return calls.request_call(calls.Take(documents=[], source="s", options={"dry_run": dry_run}))


def fails[E: WaygraphError](kind: type[E], client: Client, service: Flaky, call: Call[Any], **settings: Any) -> E:
    """Just this error, which tells no key."""
    with pytest.raises(kind) as caught:
        client.ask(service.url, call, api_key=KEY, **settings)
    assert type(caught.value) is kind
    assert KEY not in f"{caught.value} {caught.value!r} {vars(caught.value)}"
    return caught.value


@pytest.mark.parametrize(
    "first",
    [
        drop,
        half,
        reply(b"<h1>down</h1>", 502, "text/html"),
        reply(b"", 503),
        reply(b"", 504),
        reply(b"", 429),
        trouble(503, "too-late", retryable=True),
        trouble(503, "cypher-busy", retryable=True, facts={"allowed": 2}),
        LOCKED,
    ],
)
def test_what_only_reads_is_asked_again(client: Client, first: Behaviour) -> None:
    """After a connection that broke, and whatever says that it may pass: twice here, then the answer comes."""
    with flaky(first, first, GOOD) as service:
        assert client.ask(service.url, look()).id == "a"
    assert len(service.seen) == 3
    assert client.slept == pytest.approx([0.5, 1.0])


@pytest.mark.parametrize(
    "call",
    [
        calls.request_call(RouteAgents(query=Query(text="x"))),
        calls.request_call(FindTools(query=Query(text="x"))),
        calls.request_call(RunCypher(statement="RETURN 1")),
    ],
)
def test_questions_are_safe_to_repeat_though_they_are_posted(client: Client, call: Call[Any]) -> None:
    with flaky(drop, trouble(404, "registry-not-found", facts={"path": "r"})) as service:
        assert fails(RegistryNotFound, client, service, call).path == "r"
    assert [seen.line.split()[0] for seen in service.seen] == ["POST", "POST"]


@pytest.mark.parametrize("first", [reply(b"", 429, Retry_After="1"), trouble(429, "too-many-requests"), LOCKED, BUSY])
def test_a_write_is_sent_again_where_nothing_was_done(client: Client, first: Behaviour) -> None:
    with flaky(first, DONE) as service:
        assert client.ask(service.url, write()).revision == 7
    assert len(service.seen) == 2


def test_a_write_is_sent_again_if_it_was_never_sent(client: Client) -> None:
    with flaky() as gone:
        pass
    with ExitStack() as later:
        running: list[Flaky] = []
        client.on_sleep = lambda: running.append(later.enter_context(flaky(DONE, port=gone.port)))
        assert client.ask(gone.url, write()).revision == 7
    assert len(running[0].seen) == 1
    assert client.slept == [0.5]


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (drop, ServiceUnavailable),
        (half, ServiceUnavailable),
        (reply(b"", 502), ServiceUnavailable),
        (reply(b"", 503, Retry_After="0"), ServiceUnavailable),
        (trouble(503, "server-unavailable", facts={"place": "p", "reason": "r"}), None),
        (trouble(503, "embedder-unavailable", retryable=True), EmbedderUnavailable),
        (trouble(409, "write-conflict", retryable=True), None),
    ],
)
def test_a_write_that_may_have_been_done_is_not_sent_again(
    client: Client, first: Behaviour, kind: type[WaygraphError] | None
) -> None:
    with flaky(first, DONE) as service, pytest.raises(kind or WaygraphError):
        client.ask(service.url, write())
    assert len(service.seen) == 1
    assert client.slept == []


def test_it_gives_up_after_so_many_times(client: Client) -> None:
    """Once, and `remote_retries` times more, each pause longer than the last."""
    with flaky(*[reply(b"", 503)] * 9) as service:
        fails(ServiceUnavailable, client, service, look(), remote_retries=3)
    assert len(service.seen) == 4
    assert client.slept == [0.5, 1.0, 2.0]


def test_a_service_says_when_to_come_again(client: Client) -> None:
    """Its Retry-After is waited for, and a little more by chance, so that not all come back at once."""
    with flaky(reply(b"", 429, Retry_After="3"), GOOD) as service:
        client.ask(service.url, look())
    assert client.slept == [3.75]


def test_silence_ends(client: Client) -> None:
    """No answer in time is told, and not asked for again: that would only make it slower."""
    with silence() as silent, flaky(silent, silent) as service:
        error = fails(ServiceUnavailable, client, service, look(), remote_timeout_s=1.0)
    assert "no whole answer within 1 s" in str(error)
    assert len(service.seen) == 1


def test_a_write_has_a_limit_of_its_own(client: Client) -> None:
    """`remote_write_timeout_s`: embedding may take minutes, a look may not."""
    with silence() as silent, flaky(silent) as service:
        limits = {"remote_timeout_s": 60.0, "remote_write_timeout_s": 0.1}
        error = fails(ServiceUnavailable, client, service, offer(), **limits)
    assert "no whole answer within 0.1 s" in str(error)


def test_an_answer_that_never_ends_is_left(client: Client) -> None:
    passed = count(step=25)
    client.clock = lambda: float(next(passed))
    with silence() as silent:

        def begun(connection: socket) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
            silent(connection)

        with flaky(begun, GOOD) as service:
            error = fails(ServiceUnavailable, client, service, look(), remote_timeout_s=20.0)
    assert "no whole answer within 20 s" in str(error)


def test_nobody_there(client: Client) -> None:
    with flaky() as gone:
        pass
    error = fails(ServiceUnavailable, client, gone, look())
    assert str(error).startswith(f"the service at {gone.url} does not answer: ")
    assert len(client.slept) == 3


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "does not speak HTTP"),
        (reply(b"<h1>hello</h1>", 200, "text/html"), "another shape"),
        (reply(b""), "another shape"),
        (reply([1]), "another shape"),
        (reply({"agent": None}), "another shape"),
        (reply({"agent": {"id": "a"}}), "another shape"),
        (reply(b"[" * 100_000), "another shape"),
        (reply(b'{"agent": {"x": ' + b"9" * 10_000 + b"}}"), "another shape"),
        (reply(b"\xff\xfe"), "another shape"),
        (reply(b"\x1f\x8b broken", Content_Encoding="gzip"), "compressed"),
        (reply(b"x" * 200_001), "more than 200,000 bytes"),
        (reply(b"", 204), "answers 204 (No Content)"),
        (reply(b"", 299), "answers 299"),
        (reply(b"no", 404, "text/plain"), "is this its address?"),
        (reply(b"no", 401, "text/plain"), "answers 401"),
        (reply(b"no", 500, "text/html"), "answers 500"),
        (reply(b"{", 500, "application/problem+json"), "answers 500"),
        (reply([], 500, "application/problem+json"), "answers 500"),
        (reply({}, 500, "application/problem+json"), "no reason given"),
        (trouble(404, "not-found", "there is no such path"), "there is no such path"),
        (trouble(500, "internal-error", "a fault of its own"), "a fault of its own"),
        (trouble(421, "wrong-host", "is not here"), "is not here"),
    ],
)
def test_what_is_no_answer_of_a_service_is_said(
    client: Client, answer: Behaviour, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 200_000)
    with flaky(answer, GOOD) as service:
        error = fails(ServiceFailed, client, service, look())
    assert told in str(error)
    assert error.place == service.url
    assert not error.retryable
    assert len(service.seen) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("call", [look, write])
def test_redirects_are_not_followed(client: Client, status: int, call: Callable[[], Call[Any]]) -> None:
    with flaky(GOOD) as other, flaky(reply(b"", status, Location=f"{other.url}/v1/agents/a")) as service:
        error = fails(ServiceFailed, client, service, call())
    assert f"answers {status}" in str(error)
    assert "redirects are not followed" in str(error)
    assert other.seen == []


def test_a_request_that_is_not_taken_is_the_callers_fault(client: Client) -> None:
    """Which error it is depends on what was asked; the detail is the service's."""
    said = calls.request_call(SetAgent(agent_id="a", changes={"tags": ["x"]}))
    asked = calls.request_call(RouteAgents(query=Query(text="x")))
    for call, kind in ((asked, InvalidQuery), (said, InvalidSetting), (offer(), SourceError)):
        for problem in (trouble(422, "invalid-request", "body.x: too long"), trouble(413, "too-large", "too long")):
            with flaky(problem) as service:
                assert "too long" in str(fails(kind, client, service, call))


def test_what_was_done_before_an_error_is_told(client: Client) -> None:
    """An export holds several sources: `take` gives the reports of those before, `all` raises."""
    gone = {"source": "s", "removed": 5, "held": 6}
    report = {
        "source": "s", "dry_run": False, "revision": 3, "seconds": 0.1, "texts_embedded": 0, "notice": "",
        "agents": {"created": ["a"], "updated": [], "removed": [], "unchanged": 0},
        "tools": {"created": [], "updated": [{"id": "a/t", "fields": ["tags"]}], "removed": [], "unchanged": 0},
        "changed_behaviour": [], "waiting": [], "flagged": [],
        "renamed": [{"key": "k", "id": "i"}], "withheld": [], "rejected": [], "cut": [],
    }  # fmt: skip
    told = {"reports": [report], "problem": {"code": "mass-removal", "detail": "too many", "facts": gone}}
    with flaky(reply(told)) as service:
        taken = client.ask(service.url, offer())
    assert [done.revision for done in taken.reports] == [3]
    assert taken.reports[0].changes.created_agents == ("a",)
    with pytest.raises(MassRemoval, match="too many") as caught:
        taken.all()
    assert vars(caught.value) == gone


def test_the_key_is_shown_as_a_bearer_token(client: Client) -> None:
    with flaky(GOOD, GOOD) as service:
        client.ask(service.url, look(), api_key=KEY)
        client.ask(f"{service.url}/registry/", look())
    with_key, without = service.seen
    assert with_key.headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in without.headers
    assert (with_key.line, without.line) == ("GET /v1/agents/a HTTP/1.1", "GET /registry/v1/agents/a HTTP/1.1")
    assert set(with_key.headers) == {"host", "accept", "accept-encoding", "connection", "user-agent", "authorization"}


def test_a_closed_connection_answers_nothing_more() -> None:
    with _open() as (service, connection):
        connection.close()
        with pytest.raises(RegistryClosed):
            connection.ask(look())
    assert service.seen == []


def test_connections_are_kept() -> None:
    """Many calls, one socket: a second request on it is read where the first one was."""
    sockets: set[object] = set()

    def counted(connection: Any) -> None:
        sockets.add(connection.getpeername())
        GOOD(connection)

    with _open() as (service, connection):
        service.script[:] = [counted] * 5
        for _ in range(5):
            connection.ask(look())
    assert len(sockets) == 1


@contextmanager
def _open(**settings: Any) -> Iterator[tuple[Flaky, Connection]]:
    with flaky() as service:
        connection = Connection(ServiceAddress.parse(service.url), replace(Settings(), **settings))
        try:
            yield service, connection
        finally:
            connection.close()
