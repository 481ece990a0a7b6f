"""The document of the service: as committed, whole, and true."""

import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jsonschema
import pytest

from tests.gateway_catalog import by_hand
from tests.service import MEDIA_TYPES, Served, assert_good, served, until
from waygraph.api.rest.application import PATHS, document
from waygraph.api.rest.openapi import examples
from waygraph.api.rest.service import ENDPOINTS
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings
from waygraph.registry.operations.request import Request
from waygraph.registry.operations.table import OPERATIONS
from waygraph.registry.remote import calls

REQUESTS = {name: each["request"] for name, each in examples().items() if "request" in each}
ANSWERS = {name: each["answer"] for name, each in examples().items() if "answer" in each}

METHODS: dict[str, tuple[str, str]] = {
    each["operationId"]: (method.upper(), path)
    for path, methods in document()["paths"].items()
    for method, each in methods.items()
}


@pytest.fixture(scope="module")
def service(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Over the example catalogue, which these tests may change. Its data are its own: a key that is made in the folder
    of others has their services ask who calls.
    """
    with served(settings=Settings(data_dir=str(tmp_path_factory.mktemp("data")))) as service:
        for manifest in read_path(str(catalog), Settings(), source="examples/catalog"):
            sync(service.registry, manifest)
        service.registry.build_taxonomy(by_hand({"food": ("trencher-tables", "larder-lists")}))
        service.registry.operator.set_toolset("dinner", agents=["trencher-tables"])
        yield service


def schema_of(operation: str, status: int = 200) -> dict[str, Any]:
    """Of an answer's body, as one schema that holds all that it refers to."""
    method, path = METHODS[operation]
    told = document()["paths"][path][method.lower()]["responses"][str(status)]
    [media] = told["content"].values()
    return {**media["schema"], "components": document()["components"]}


def operations() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for methods in document()["paths"].values():
        for each in methods.values():
            yield each["operationId"], each


def test_every_operation_has_a_handler_and_an_example_and_nothing_else_has() -> None:
    names = OPERATIONS.keys()
    assert names == set(ENDPOINTS) == set(METHODS)
    files = {each.name for each in OPERATIONS.values() if each.answer is str}
    assert names - files == set(ANSWERS)
    with_body = {name for name, each in operations() if "requestBody" in each}
    assert with_body == set(REQUESTS)


REMOVES = {"remove_agent", "forget_source", "remove_toolset", "revoke_key"}
WITHOUT_METHOD = {"route_batch", "recipes", "logins", "forget_login", "recorded_calls", "service", "evaluations"}
"""What the service offers and a registry has no method for, beside discovery and health."""


def test_every_operation_of_a_registry_has_a_call() -> None:
    calls_used = {name.lower() for name in re.findall(r"operations\.([A-Z_]+)", inspect.getsource(calls))}
    calls_used |= {each.operation.name for each in Request.request_kinds()}
    of_registries = {each.name for each in OPERATIONS.values() if each.tag not in ("discovery", "health")}
    assert calls_used == of_registries - WITHOUT_METHOD


def test_the_committed_document_is_the_services_own(root: Path, service: Served) -> None:
    assert json.loads((root / "docs" / "openapi.json").read_text(encoding="utf-8")) == document()
    assert service.client().get("/openapi.json").json() == document()


@pytest.mark.parametrize(("operation", "told"), list(operations()))
def test_an_operation_is_described_with_examples(operation: str, told: Mapping[str, Any]) -> None:
    """Every one has a description, an example of its answer, of its request where it takes one, and of a problem."""
    assert told["description"]
    assert told["summary"]
    for parameter in told.get("parameters", ()):
        assert parameter.get("description"), parameter["name"]
    for media_type, media in told["responses"]["200"]["content"].items():
        if operation not in ("export", "metrics"):
            assert media_type in MEDIA_TYPES
            assert media["example"] == ANSWERS[operation]
    if "requestBody" in told:
        assert told["requestBody"]["content"]["application/json"]["example"] == REQUESTS[operation]
    for status, response in told["responses"].items():
        if int(status) >= 400:
            assert list(response["content"]) == ["application/problem+json"]


@pytest.mark.parametrize("operation", ANSWERS)
def test_the_example_of_an_answer_has_its_shape(operation: str) -> None:
    jsonschema.Draft202012Validator(schema_of(operation)).validate(ANSWERS[operation])


@pytest.mark.parametrize("operation", REQUESTS)
def test_the_example_of_a_request_has_its_shape(operation: str) -> None:
    method, path = METHODS[operation]
    media = document()["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]
    schema = {**media["schema"], "components": document()["components"]}
    jsonschema.Draft202012Validator(schema).validate(REQUESTS[operation])


@pytest.mark.parametrize("operation", [name for name in METHODS if name not in (*REMOVES, "call_tool", "sync_source")])
def test_examples_are_answered_in_the_shape_that_is_documented(service: Served, operation: str) -> None:
    """Sent for real over the example catalogue; and not with fewer fields than the examples show."""
    response = send(service.client(), operation)
    assert response.status_code == 200, response.text[:500]
    if operation in ("export", "metrics"):
        assert (
            response.headers["content-type"].split(";")[0]
            in (document()["paths"][METHODS[operation][1]]["get"]["responses"]["200"]["content"])
        )
        return
    answer = assert_good(response)
    jsonschema.Draft202012Validator(schema_of(operation)).validate(answer)
    assert set(ANSWERS[operation]) <= set(answer)


def send(client: httpx2.Client, operation: str) -> httpx2.Response:
    method, path = METHODS[operation]
    filled = path.format(
        agent_id="trencher-tables",
        tool_name="reserve",
        call_name="trencher-tables__reserve",
        tool_id="trencher-tables/reserve",
        name="dinner" if "toolset" in operation else "examples/catalog",
        server_name="1.0.0.127/trencher-tables",
        version="latest",
        identifier="urn:air:127.0.0.1:mcp_server:trencher-tables",
    )
    body: dict[str, Any] = {"json": REQUESTS[operation]} if operation in REQUESTS else {}
    if operation == "graph":
        body["params"] = {"around": "agent:trencher-tables"}
    return client.request(method, filled, **body)


def test_a_source_is_synced_in_the_shape_that_is_documented(tmp_path: Path) -> None:
    """It takes a service that follows one; the list of sources says when it looks."""
    file = tmp_path / "s.yaml"
    file.write_text("waygraph: 1\nagents:\n- {id: a}\n", encoding="utf-8")
    with served(tmp_path / "r.grafeo", watch=(str(file),)) as service:
        client = service.client()
        until(lambda: any(look["every_s"] for look in client.get("/v1/sources").json().get("looks", ())), "a look")
        response = client.post(f"/v1/sources/{quote(str(file), safe='')}/sync")
        assert response.status_code == 200, response.text[:500]
        jsonschema.Draft202012Validator(schema_of("sync_source")).validate(response.json())
        jsonschema.Draft202012Validator(schema_of("sources")).validate(client.get("/v1/sources").json())


def test_requests_that_cannot_be_are_not_documented_as_good() -> None:
    """Neither a text nor steps: the schema refuses what the service refuses."""
    schema = {"$ref": "#/components/schemas/RouteRequest", "components": document()["components"]}
    validator = jsonschema.Draft202012Validator(schema)
    good: list[Any] = [{"text": "a"}, {"steps": ["a"]}, {"text": "a", "steps": []}, {"text": "a", "steps": ["b"]}]
    bad: list[Any] = [{}, {"text": ""}, {"steps": []}, {"text": "a", "x": 1}]
    assert all(validator.is_valid(each) for each in good)
    assert not any(validator.is_valid(each) for each in bad)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=20000 --dump-dom"
).split()


class Links(HTMLParser):
    """What a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_loads_files_of_the_service_alone(guarded: Served) -> None:
    """Without a key: it holds nothing of the registry. Its policy allows no other origin and no script in the page."""
    page = guarded.client().get("/docs")
    links = Links()
    links.feed(page.text)
    assert {f"/{link}" for link in links.found if link != "data:,"} == PATHS.keys() - {"/docs"}
    for path in PATHS:
        response = guarded.client().get(path)
        assert response.status_code == 200
        [policy] = response.headers.get_list("content-security-policy")
        assert "default-src 'none'; script-src 'self';" in policy
        assert not re.search(r"https?:|\*|script-src[^;]*unsafe", policy)
        assert response.headers["x-frame-options"] == "DENY"
        again = guarded.client().get(path, headers={"If-None-Match": response.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the page with")
def test_a_browser_shows_every_operation(blank: Served, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path}", f"{blank.url}/docs"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    shown = re.findall(r'class="opblock-summary-path" data-path="([^"]+)"', done.stdout)
    assert sorted(shown) == sorted(path for path, methods in document()["paths"].items() for _ in methods)
    assert "CONSOLE" not in done.stderr
