"""A service that repeats the login it was sent, in whatever escapes: no text of a result has it."""

import json

import pytest

from tests.calling.opened_here import Here
from tests.calling.test_a2a_calls import run, texts
from tests.web_pages import web_pages
from waygraph.ingest.execution.call import Response, result_of
from waygraph.ingest.execution.services import Login, confidential
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.model.settings import Settings

KEY = "q8Zr+T4m/w1x&Kp0s"
SECRETS = confidential(Login(confidential=frozenset({KEY})), "https://svc.example.com")


def escaped(form: str) -> str:
    """The key with every mark in it written as `form` has it, of the mark's number."""
    return "".join(c if c.isalnum() else form.format(ord(c)) for c in KEY)


def result(body: str, media: str = "application/json", status: int = 200) -> Result:
    response = Response(status=status, reason=f"HTTP {status}", media=media, charset="utf-8", content=body.encode())
    return result_of(response, "do", SECRETS, Settings())


@pytest.mark.parametrize("written", [KEY, escaped("\\u{:04X}"), escaped("\\u{:04x}"), KEY.replace("/", "\\/")])
@pytest.mark.parametrize("status", [200, 403])
def test_a_login_in_the_escapes_of_json_is_struck(written: str, status: int) -> None:
    [content] = result(f'{{"{written}": ["Bearer {written}", {{"n": 1.50}}]}}', status=status)["content"]
    assert content["text"].endswith('{"***": ["Bearer ***", {"n": 1.5}]}')


def test_json_in_json_and_a_name_that_stands_twice() -> None:
    written = escaped("\\u{:04X}")
    inner = json.dumps({"k": written})
    for body in (json.dumps({"body": inner}), f'{{"a": "{written}", "a": 1}}', f'{{"a": "{written}"'):
        said = json.dumps(result(body))
        assert "q8Zr" not in said


def test_a_number_that_is_the_login_is_struck() -> None:
    secrets = confidential(Login(confidential=frozenset({"20817726"})), "https://svc.example.com")
    body = Response(status=200, reason="", media="application/json", charset="utf-8", content=b'{"pin": 20817726}')
    assert result_of(body, "do", secrets, Settings())["structuredContent"] == {"pin": "***"}


@pytest.mark.parametrize("form", ["&#{};", "&#x{:X};", "%{:02x}", "\\u{:04X}"])
@pytest.mark.parametrize("media", ["text/html", "application/x-ndjson", ""])
def test_a_login_in_the_escapes_of_other_texts_is_struck(form: str, media: str) -> None:
    assert result(f"<p>{escaped(form)}</p>", media)["content"] == [{"type": "text", "text": "<p>***</p>"}]


def test_an_agent_s_message_has_none(here: Here) -> None:
    here.environ["DESK_KEY"] = KEY
    transport = {"url": "https://desk.example.com/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    agents = [{"id": "desk", "kind": "a2a_agent", "transport": transport, "tools": [{"name": "book"}]}]
    here.ingest(here.write("x.json", {"waygraph": 1, "agents": agents}))
    message = f'{{"message": {{"role": "ROLE_AGENT", "parts": [{{"text": "got {escaped("\\u{:04X}")}"}}]}}}}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "result": {message}}}'.encode()
    with web_pages({"/a2a": (200, {"Content-Type": "application/json"}, body)}) as web:
        entry = f'[[service]]\nagent = "desk"\nbase_url = "{web.url}/a2a"\nallow_private = true\n'
        told = run(here, "hello", services=f'{entry}auth = {{ key = "${{DESK_KEY}}" }}\n')
    assert texts(told) == ["got ***"]
