"""A folder of OpenAPI documents with the slips that real ones have, from `waygraph ingest` to a host's calls."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.service import PROGRAM
from tests.web_pages import WebPages, web_pages

ONE = """
openapi: 3.0.3
info: {title: Tollhouse, version: 1.10}
paths:
  /carts/{cart}:
    get: {$ref: "#/x-operations/readCart"}
    put: {$ref: "elsewhere/carts.yaml#/put"}
x-operations:
  readCart:
    operationId: readCart
    summary: Reads the toll of a cart.
    parameters:
      - {name: realm, in: query, schema: {type: string, enum: [NO, SE, ON]}}
      - {name: gate, in: query, schema: {type: string, enum: [on, off]}}
      - {name: at, in: query, schema: {type: string, enum: [6:30, 18:45]}}
      - {name: lane, in: query, schema: {type: string, enum: [007, 012]}}
      - {name: since, in: query, schema: {type: string, enum: [2026-03-01]}}
      - {name: yes, in: query, schema: {type: string}}
    responses:
      200:
        description: The toll.
        content: {application/json: {schema: {type: object, required: [toll], properties: {toll: {type: number}}}}}
"""
TWO = """
openapi: 3.1.0
info: {title: Tollhouse, version: 2.0}
paths:
  /tolls:
    post:
      operationId: payToll
      summary: Pays the toll of a cart.
      requestBody:
        content:
          application/json:
            schema:
              oneOf:
                - {type: object, properties: {coin: {const: silver}}}
                - {type: object, properties: {coin: {const: copper}}}
      responses: {204: {description: Paid}}
"""
ANSWERS = {
    "/carts/null": ("application/json", b'{"toll": null}'),
    "/carts/list": ("application/json", b'[{"toll": 1}]'),
    "/carts/text": ("text/plain", b"two coins"),
    "/carts/nothing": ("application/json", b"null"),
}


@pytest.fixture
def service() -> Iterator[WebPages]:
    pages = {path: (200, {"Content-Type": media}, body) for path, (media, body) in ANSWERS.items()}
    with web_pages({**pages, "/carts/empty": (204, {}, b""), "/carts/7": (200, {}, b'{"toll": 3}')}) as served:
        yield served


def run(folder: Path, *words: str) -> str:
    command = [*PROGRAM, *place(folder), *words]
    done = subprocess.run(command, env=environ(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def place(folder: Path) -> list[str]:
    return ["--registry", str(folder / "r.grafeo"), "--embedder", "none"]


def environ(folder: Path) -> dict[str, str]:
    files = {"WAYGRAPH_DATA_DIR": str(folder / "data"), "WAYGRAPH_SERVICES_FILE": str(folder / "services.toml")}
    return {"PATH": os.environ["PATH"], "HOME": str(folder), **files}


@pytest.fixture
def home(tmp_path: Path, service: WebPages) -> Path:
    (tmp_path / "apis").mkdir()
    (tmp_path / "apis" / "one.yaml").write_text(ONE)
    (tmp_path / "apis" / "two.yaml").write_text(TWO)
    agents = ("Tollhouse", "two.Tollhouse")
    (tmp_path / "services.toml").write_text(
        "".join(f'[[service]]\nagent = "{a}"\nbase_url = "{service.url}"\nallow_private = true\n' for a in agents)
    )
    return tmp_path


def ask(folder: Path, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of these calls, made one after the other by the official SDK."""

    async def main() -> list[Any]:
        words = [*PROGRAM[1:], *place(folder), "mcp"]
        gateway = StdioServerParameters(command=sys.executable, args=words, env=environ(folder))
        async with Client(gateway) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return anyio.run(main)


def refusal(result: Any) -> str:
    assert result.is_error
    message: str = result.structured_content["error"]["message"]
    return message


def use(tool: str, **params: Any) -> tuple[str, dict[str, Any]]:
    return "use_tool", {"name": tool, "params": params}


def said(result: Any) -> str:
    text: str = result.content[0].text
    return text


READ = "Tollhouse__readCart"


def test_two_versions_with_slips_are_ingested_and_called(home: Path, service: WebPages) -> None:
    told = run(home, "ingest", str(home / "apis"))
    assert "2 created" in told
    assert "two.Tollhouse" in told
    assert "one.yaml#/paths/~1carts~1{cart}/put" in told
    run(home, "set", "Tollhouse", "--pin")
    tools = {tool["call_name"] for tool in json.loads(run(home, "tools", "--json"))["tools"]}
    [pay] = tools - {READ}
    values = {"realm": "NO", "gate": "on", "at": "6:30", "lane": "007", "since": "2026-03-01", "yes": "y"}
    good, *odd, misspelt, pinned, flat, nested, missing = ask(
        home,
        use(READ, cart="7", **values),
        *[(READ, {"cart": name}) for name in ("null", "list", "text", "nothing", "empty")],
        use(READ, cart="7", raelm="NO"),
        (READ, {"cart": "7", "raelm": "NO"}),
        use(pay, coin="silver"),
        use(pay, body={"coin": "silver"}),
        use(READ, realm="NO"),
    )
    assert json.loads(said(good)) == {"toll": 3}
    sent = urlsplit(service.paths[0])
    assert (sent.path, dict(parse_qsl(sent.query))) == ("/carts/7", values)
    texts = ['{"toll": null}', '[{"toll": 1}]', "two coins", "null", "HTTP 204 No Content"]
    assert [said(each) for each in odd] == texts
    assert [bool(each.is_error) for each in odd] == [False] * 5
    assert "at /raelm: is not known" in refusal(misspelt)
    assert 'did you mean "realm"?' in refusal(misspelt)
    assert 'did you mean "realm"?' in refusal(pinned)
    assert '{"body": {"coin": …}}' in refusal(flat)
    assert "at /cart: is required" in refusal(missing)
    assert service.paths[-1] == "/tolls"
    assert len(service.paths) == 7
    assert nested.is_error  # the service has no such page, and says so
    assert "HTTP 404" in "".join(block.text for block in nested.content)
