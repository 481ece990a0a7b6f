"""What no server can do to us: one row for each way to misbehave, over stdio and over HTTP.

Each ends in a listing or in one line that says why there is none, by its deadline, with no process left.
"""

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.processes_left import MARK, needs_proc, none_left
from tests.servers import misbehaving
from tests.servers import misbehaving_http as web
from tests.servers.certificates import certified
from tests.servers.misbehaving_http import Behaviour, misbehaving_http
from waygraph.ingest.manifest.environment import inherited_variables
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.upstream import calls
from waygraph.ingest.upstream.connection import ServerListing
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.settings import Settings

PROGRAM = Path(misbehaving.__file__)
SETTINGS = Settings(upstream_connect_timeout_s=20.0, upstream_list_timeout_s=20.0)
SOON: Mapping[str, Any] = {"upstream_connect_timeout_s": 1.0, "upstream_list_timeout_s": 1.0}
"""For a server that is to be given up. One that starts in time is given time: no row counts on a fast machine."""
LISTS_SOON: Mapping[str, Any] = {"upstream_list_timeout_s": 1.0}
GRACE_S = 20.0
"""For what is beside the deadline: the start, the end of a process that does not want to. Not for hanging."""


SECRET = "sk-Very-Secret-4711"  # noqa: S105 - opens nothing
BOTH = ("alpha", "beta")
AWAY, NO, ANY = UpstreamUnreachable, UpstreamRefused, UpstreamError


@dataclass(frozen=True)
class Row:
    """A server and what becomes of it: its tools, or an error of a type and with a text."""

    does: str
    argument: str = ""
    _: KW_ONLY
    tools: tuple[str, ...] | int | None = None
    """Their names, or how many; None: there is no listing."""
    error: type[UpstreamError] = UpstreamError
    says: str = ""
    """A regular expression that the error's line matches somewhere."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    """Of lists, by the name of the constant."""
    env: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.does} {self.argument[:40]}".strip()


STDIO = (
    Row("good", tools=BOTH),
    # Time
    Row("never_answers", error=AWAY, says="1 s", settings=SOON),
    Row("never_reads", error=AWAY, says="1 s", settings=SOON),
    Row("answers_late", "0.5", tools=BOTH),
    Row("answers_late", "30", error=AWAY, says="1 s", settings=SOON),
    Row("lists_late", "30", error=AWAY, says="1 s", settings=LISTS_SOON),
    Row("drips", error=AWAY, says="1 s", settings=LISTS_SOON),
    # Pages
    Row("dies_mid_page", error=AWAY, says="exit status 1"),
    Row("many_tools", "10000", tools=10_000),
    Row("many_tools", "10000", error=NO, says="500", settings={"upstream_max_tools": 500}),
    Row("endless_pages", error=NO, says="50 pages", limits={"MAX_PAGES": 50}),
    Row("repeats_a_cursor", error=NO, says="cursor"),
    Row("empty_cursor", tools=BOTH),
    Row("list_result", "{}", error=NO, says="tools"),
    Row("list_result", '{"tools": null}', tools=()),
    Row("list_result", '{"tools": {"alpha": {}}}', error=NO, says="tools"),
    Row("list_result", '{"tools": [], "nextCursor": 5}', error=NO, says="(?i)cursor"),
    Row("list_result", "[]", error=NO, says="not of the protocol"),
    Row("list_result", '"none"', error=NO, says="not of the protocol"),
    Row("list_result", "null", error=NO, says="not of the protocol"),
    # Amounts
    Row("long_line", "50", error=NO, says="16,777,216 bytes"),
    Row("long_line", "1", tools=("alpha", "long")),
    Row("endless_line", error=NO, says="16,777,216 bytes"),
    Row("endless_lines", error=ANY, settings={"upstream_list_timeout_s": 2.0}),
    Row("many_tools", "10000", error=NO, says="bytes", limits={"MAX_LISTING_BYTES": 10_000}),
    Row("long_instructions", "1", tools=BOTH),
    Row("stderr_flood", "20", tools=BOTH),
    Row("changes_all_the_time", "1000", tools=BOTH),
    # What is no JSON-RPC
    Row("invalid_utf8", tools=BOTH),
    Row("invalid_utf8_inside", tools=BOTH),
    Row("logs_on_stdout", tools=BOTH),
    Row("wrong_ids", error=NO, says="not of the protocol", settings=LISTS_SOON),
    Row("answers_twice", tools=BOTH),
    Row("asks_back", tools=BOTH),
    # Errors
    Row("refuses_greeting", error=NO, says="licence expired"),
    Row("refuses_listing", error=NO, says="the database is away"),
    Row("refuses_with_secret", "TOKEN", error=NO, says="login failed", env={"TOKEN": SECRET}),
    Row("no_tools", tools=()),
    Row("other_protocol", "1999-01-01", error=NO, says="1999-01-01"),
    # The end
    Row("exits", "0", error=AWAY, says="exit status 0"),
    Row("exits", "7", error=AWAY, says="exit status 7"),
    Row("exits_with_secret", "TOKEN", error=AWAY, says="cannot log in", env={"TOKEN": SECRET}),
    Row("exits_with_long_secret", "TOKEN", error=AWAY, says="exit status 3", env={"TOKEN": SECRET}),
    Row("needs_variable", "API_KEY", error=AWAY, says="API_KEY is not set"),
    Row("needs_variable", "API_KEY", tools=BOTH, env={"API_KEY": SECRET}),
    Row("closes_stdout", error=ANY),
    Row("stubborn", tools=BOTH),
    Row("leaves_a_child", tools=BOTH),
)


@dataclass
class Outcome:
    """What a connection and one listing came to, and how long they took, with all that they left behind ended."""

    listing: ServerListing | None = None
    error: UpstreamError | None = None
    seconds: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        assert self.listing is not None, self.error
        return tuple(tool["name"] for tool in self.listing.tools)


def ask(launch: Launch, settings: Settings) -> Outcome:
    async def listing() -> ServerListing:
        async with connect(launch, settings) as connection:
            return await connection.listing()

    outcome, began = Outcome(), time.monotonic()
    try:
        outcome.listing = anyio.run(listing)
    except UpstreamError as error:
        outcome.error = error
    outcome.seconds = time.monotonic() - began
    return outcome


def judge(row: Row, outcome: Outcome, settings: Settings) -> None:
    """As the row says, by the deadline, and in one line without a secret."""
    assert outcome.seconds < settings.upstream_connect_timeout_s + settings.upstream_list_timeout_s + GRACE_S
    if row.tools is None:
        assert isinstance(outcome.error, row.error), outcome
        assert re.search(row.says, outcome.error.reason), outcome.error.reason
        is_one_line(outcome.error.reason)
    elif isinstance(row.tools, int):
        assert len(set(outcome.names)) == row.tools
    else:
        assert outcome.names == row.tools


def is_one_line(reason: str) -> None:
    assert reason
    assert reason.isprintable()
    assert len(reason) <= 400
    assert not any(SECRET[start : start + 5] in reason for start in range(len(SECRET) - 4))


def stdio(mark: str, does: str, argument: str = "", **env: str) -> StdioLaunch:
    """A misbehaving server, started as a person would start a program."""
    return StdioLaunch(command=sys.executable, args=("-S", str(PROGRAM), does, argument), env={MARK: mark, **env})


@needs_proc
@pytest.mark.parametrize("row", STDIO, ids=str)
def test_over_stdio(row: Row, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program gives its tools, or one line that says why not; and when we are done with it, nothing of it is left."""
    for name, most in row.limits.items():
        monkeypatch.setattr(calls, name, most)
    settings = replace(SETTINGS, **row.settings)
    outcome = ask(stdio(mark, row.does, row.argument, **row.env), settings)
    judge(row, outcome, settings)
    assert none_left(mark)


HTTP: Sequence[tuple[Behaviour, Row]] = (
    (web.good, Row("good", tools=BOTH)),
    (web.never_answers, Row("never answers", error=AWAY, says="1 s", settings=SOON)),
    (web.answers_late(0.5), Row("answers late", tools=BOTH)),
    (web.answers_late(30), Row("answers after 30 s", error=AWAY, says="1 s", settings=SOON)),
    (web.lists_never, Row("lists never", error=AWAY, says="1 s", settings=LISTS_SOON)),
    (web.drips, Row("drips", error=AWAY, says="1 s", settings=SOON)),
    (web.lists_drip, Row("lists in drips", error=AWAY, says="1 s", settings=LISTS_SOON)),
    (web.status(401, WWW_Authenticate="Bearer"), Row("401", error=NO, says="401")),
    (web.status(403), Row("403", error=NO, says="403")),
    (web.status(404), Row("404", error=NO, says="404")),
    (web.status(429), Row("429", error=AWAY, says="429")),
    (web.status(500), Row("500", error=AWAY, says="500")),
    (web.tells_its_caller, Row("tells its caller's key", error=NO, says="403")),
    (web.web_page, Row("a web page", error=NO, says="(?i)html|MCP")),
    (web.redirects_in_circles, Row("redirects in circles", error=ANY, says="(?i)redirect")),
    (web.long_answer(50), Row("50 MB in an answer", error=NO, says="16,777,216 bytes")),
    (web.long_event(50), Row("50 MB in an event", error=NO, says="bytes")),
    (web.packed_answer(50), Row("50 MB packed", error=NO)),
    (web.endless_answer("application/json"), Row("an endless answer", error=NO, says="bytes")),
    (web.endless_answer("text/event-stream"), Row("an endless event", error=NO, says="bytes")),
    (web.lists_half, Row("dies mid answer", error=AWAY)),
    (web.no_json, Row("no JSON", error=ANY)),
    (web.lists_no_json, Row("lists no JSON", error=ANY)),
    (web.lists_null, Row("null in place of a result", error=NO, says="not of the protocol")),
    (web.lists_wrong_ids, Row("wrong ids", error=ANY, settings=LISTS_SOON)),
)


@pytest.mark.parametrize(("behaviour", "row"), HTTP, ids=[str(row) for _, row in HTTP])
def test_over_http(behaviour: Behaviour, row: Row) -> None:
    """An address gives its tools, or one line that says why not, without the key that it was given."""
    settings = replace(SETTINGS, **row.settings)
    with misbehaving_http(behaviour) as endpoint:
        outcome = ask(HttpLaunch(url=endpoint.url, headers={"Authorization": f"Bearer {SECRET}"}), settings)
    judge(row, outcome, settings)


def test_nobody_listens() -> None:
    with misbehaving_http(web.good) as endpoint:
        url = endpoint.url
    outcome = ask(HttpLaunch(url=url), SETTINGS)
    judge(Row("", error=AWAY, says="(?i)refused"), outcome, SETTINGS)


@pytest.mark.parametrize("form", ["http", "sse"])
def test_a_redirect_to_another_host_is_not_followed(form: Any) -> None:
    """The other host hears nothing: neither the request nor the key that was meant for the first."""
    with ExitStack() as stack:
        other = stack.enter_context(misbehaving_http(web.good))
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        does = web.redirects
        endpoint = stack.enter_context(misbehaving_http(does, other=elsewhere))
        launch = HttpLaunch(url=endpoint.url, headers={"Authorization": f"Bearer {SECRET}"}, form=form)
        outcome = ask(launch, SETTINGS)
        judge(Row("", error=NO, says="redirects to another host"), outcome, SETTINGS)
        assert endpoint.requests
        assert not other.requests


def test_an_old_stream_that_sends_elsewhere_is_not_followed() -> None:
    """The older SSE names the address to post to; one at another host gets nothing."""
    with ExitStack() as stack:
        other = stack.enter_context(misbehaving_http(web.good))
        does = web.stream_to_elsewhere
        endpoint = stack.enter_context(misbehaving_http(does, other=other.url))
        launch = HttpLaunch(url=endpoint.url, headers={"Authorization": f"Bearer {SECRET}"}, form="sse")
        settings = replace(SETTINGS, **SOON)
        judge(Row("", error=ANY), ask(launch, settings), settings)
        assert endpoint.requests
        assert not other.requests


def test_a_certificate_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """A server whose certificate nobody vouches for is not talked to: it hears no request."""
    with misbehaving_http(web.good, tls=certified(tmp_path).context()) as endpoint:
        outcome = ask(HttpLaunch(url=endpoint.url, headers={"Authorization": f"Bearer {SECRET}"}), SETTINGS)
        judge(Row("", error=AWAY, says="(?i)certificate"), outcome, SETTINGS)
        assert not endpoint.requests


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (StdioLaunch(command="no-such-program-at-all"), "command not found: no-such-program-at-all"),
        (StdioLaunch(command="/"), "permission denied|cannot be run"),
        (StdioLaunch(command=sys.executable, cwd="/no/such/folder"), "folder"),
        (StdioLaunch(command=sys.executable, args=("a\0b",)), "cannot be run"),
        (HttpLaunch(url="http://no-such-host.invalid/mcp"), "host not found"),
        (HttpLaunch(url="ftp://127.0.0.1/mcp"), "URL"),
        (HttpLaunch(url="http://[::1/mcp"), "URL"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_launch_that_cannot_be(launch: Launch, says: str) -> None:
    judge(Row("", error=AWAY, says=says), ask(launch, SETTINGS), SETTINGS)


def test_a_header_of_two_lines_is_not_sent() -> None:
    """A value that would smuggle in another header, or another request, reaches nobody."""
    with misbehaving_http(web.good) as endpoint:
        launch = HttpLaunch(url=endpoint.url, headers={"X-Key": f"{SECRET}\r\nHost: elsewhere"})
        judge(Row("", error=AWAY), ask(launch, SETTINGS), SETTINGS)
        assert not endpoint.requests


def test_a_program_gets_only_the_environment_it_is_given(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its own variables it sees what every program needs, and the way to the network, and none of ours."""
    monkeypatch.setenv("OUR_OWN_SECRET", SECRET)
    outcome = ask(stdio(mark, "tells_its_environment", LEVEL="low"), SETTINGS)
    seen = {name.removeprefix("env_") for name in outcome.names}
    assert {MARK, "LEVEL", "PATH"} <= seen
    assert seen <= {MARK, "LEVEL", "LC_CTYPE", *inherited_variables(os.environ, {})}
