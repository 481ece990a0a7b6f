"""Bodies, headers and addresses with numbers that are none, at every endpoint: told as what they are, by a problem."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.service import PROBLEM, Served, agent, ingest, served

pytestmark = pytest.mark.attack
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
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("numbers")
    with served(folder / "tools.grafeo") as running:
        ingest(running.admin(), "one", agent("alpha", "send"))
        yield running


def operations(service: Served) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path with values, and what the document says of it."""
    document = service.admin().get("/openapi.json").json()
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
def test_a_body_that_is_no_json_of_ours_is_a_problem(service: Served, text: str) -> None:
    admin, tried = service.admin(), 0
    for method, path, told in operations(service):
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
    assert "Traceback" not in service.log


@pytest.mark.parametrize("text", ["NaN", "inf", "1e999", "9" * 400, "9" * 5_000, "-1", "0x7f", "\u0667", "true"])
def test_a_number_in_an_address_is_refused_or_taken(service: Served, text: str) -> None:
    admin = service.admin()
    for method, path, told in operations(service):
        if method != "get":
            continue
        for parameter in told.get("parameters", ()):
            if parameter["in"] == "query":
                assert_refused_or_taken(admin.get(path, params={parameter["name"]: text}))
    assert "Traceback" not in service.log
