"""What is told of a server that failed: one line, without what its launch holds in confidence."""

import json
import logging
from base64 import b64encode
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.upstream.launches import SETTINGS, handshake, listing_of
from tests.upstream.served import running
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.manifest.redaction import discretion
from waygraph.registry.model.errors import UpstreamError, UpstreamUnreachable

SECRET = "s3cr3t-Value/9"  # noqa: S105 - opens nothing

LAUNCHES: list[tuple[Launch, str]] = [
    (StdioLaunch(command="x", env={"TOKEN": SECRET}), f"bad token {SECRET}!"),
    (StdioLaunch(command="x", env={"DATABASE": f"postgres://me:{SECRET}@host/db"}), f"password {SECRET} is wrong"),
    (StdioLaunch(command="x", args=("--api-key", SECRET)), f"no such key: {SECRET}"),
    (StdioLaunch(command="x", args=(f"--token={SECRET}",)), f"unknown option --token={SECRET}"),
    (StdioLaunch(command="x", args=("-H", f"Authorization: Bearer {SECRET}")), f"401 for Bearer {SECRET}"),
    (HttpLaunch(url="https://host/mcp", headers={"Authorization": f"Bearer {SECRET}"}), f"bad {SECRET}"),
    (HttpLaunch(url="https://host/mcp", headers={"X-Key": SECRET}), f"<{SECRET}>"),
    (HttpLaunch(url="https://me:s3cr3t-Value%2F9@host/mcp"), "login s3cr3t-Value%2F9 or s3cr3t-Value/9"),
    (HttpLaunch(url="https://host/mcp?key=s3cr3t-Value9"), "GET /mcp?key=s3cr3t-Value9 404"),
]


@pytest.mark.parametrize(("launch", "text"), LAUNCHES, ids=range(len(LAUNCHES)))
def test_no_secret_of_a_launch_is_told(launch: Launch, text: str) -> None:
    told = discretion(launch).line(text)
    assert "s3cr3t" not in told
    assert "***" in told


ODD = 'p\u00e4ss/w\u00f6rd "4" & \\n 7'


@pytest.mark.parametrize(
    "spelled",
    [
        ODD,
        repr(ODD),
        json.dumps(ODD),
        json.dumps(ODD, ensure_ascii=False),
        f"postgres://me:{quote(ODD)}@host/db",
        f"postgres://me:{quote(ODD, safe='')}@host/db",
        f"?password={quote_plus(ODD)}",
        b64encode(ODD.encode()).decode(),
        json.dumps(ODD).replace("/", "\\/"),
        escape(ODD),
    ],
)
def test_a_secret_is_struck_however_it_is_spelled(spelled: str) -> None:
    """A value with quotes, spaces and letters of other scripts comes back escaped, quoted or encoded."""
    told = discretion(StdioLaunch(command="x", env={"PASSWORD": ODD})).line(f"failed with {spelled}.")
    assert told.startswith("failed with ")
    assert "***" in told
    assert not any(part in told for part in ("p\u00e4", "w\u00f6", "%C3", "u00", "\\n"))


def test_it_is_struck_out_of_the_data_of_an_error() -> None:
    """In any depth, name and number, and as a writer of JSON that escapes more than it must spells it."""
    told = discretion(StdioLaunch(command="x", env={"KEY": "k+ey/4711", "PIN": "90210"}))
    data = {"k+ey/4711": ["sent k\\u002Bey\\/4711", {"pin": 90210, "of": 3}], "why": "k&#43;ey/4711"}
    assert told.redact_data(data, 1000) == {"***": ["sent ***", {"pin": "***", "of": 3}], "why": "***"}


LOGIN, FOLDER = "ghp_0123456789", "/srv/notes/of/all"


@pytest.mark.parametrize(
    ("launch", "told"),
    [
        (StdioLaunch(command="x", env={"GITHUB_TOKEN": LOGIN, "NOTES": FOLDER}), f"*** {FOLDER}"),
        (StdioLaunch(command="x", args=(FOLDER,), confidential=frozenset({FOLDER})), f"{LOGIN} {FOLDER}"),
        (HttpLaunch(url="http://h/", headers={"Authorization": f"Bearer {LOGIN}"}), f"*** {FOLDER}"),
        (HttpLaunch(url="http://h/", headers={"X-Folder": FOLDER, "X-Pin": "srv"}), f"{LOGIN} {FOLDER}"),
    ],
)
def test_a_result_holds_no_login_and_else_what_the_server_says(launch: Launch, told: str) -> None:
    result = {"content": [{"type": "text", "text": f"{LOGIN} {FOLDER}"}], "structuredContent": {LOGIN: 1, "n": 0.5}}
    struck = discretion(launch).redact_result(result)
    name = told.partition(" ")[0]
    assert struck == {"content": [{"type": "text", "text": told}], "structuredContent": {name: 1, "n": 0.5}}


def test_a_program_that_fails_to_log_in_tells_no_token() -> None:
    import sys

    code = f"import os, sys; sys.exit('cannot log in with ' + os.environ['TOKEN'])"  # noqa: F541
    launch = StdioLaunch(command=sys.executable, args=("-c", code), env={"TOKEN": SECRET})
    with pytest.raises(UpstreamUnreachable, match=r"exit status 1: cannot log in with \*\*\*"):
        listing_of(launch)


async def teapot(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_nothing_is_logged_of_a_conversation(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The SDK and the HTTP client would log URLs, payloads and tracebacks."""
    caplog.set_level(logging.DEBUG)
    for name in ("client", "httpx2", "mcp"):
        caplog.set_level(logging.DEBUG, logger=name)
    with running(teapot) as origin:
        launch = HttpLaunch(url=f"{origin}/mcp?key={SECRET}", headers={"X-Key": SECRET})
        with pytest.raises(UpstreamError, match="418"):
            listing_of(launch)
    listing_of(handshake("flood"), SETTINGS)
    loud = [
        record for record in caplog.records if record.name.split(".")[0] in {"client", "httpx2", "httpcore2", "mcp"}
    ]
    assert [record for record in loud if "server" not in record.name] == []
    assert capfd.readouterr() == ("", "")
