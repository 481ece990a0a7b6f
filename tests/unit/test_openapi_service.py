"""OpenAPI 3 and Swagger 2: what becomes of a service, and of what is wrong or elsewhere."""

import json
from typing import Any

import pytest

from tests.openapi_documents import PETS_3_0, agent_of, body_of, document_with, http, read, schema, told


def test_a_service_is_an_agent() -> None:
    """Title, version, first address with its variables filled in, names of security schemes, tags."""
    entry = agent_of(PETS_3_0)
    agent = entry.agent
    assert (entry.key, agent.name, agent.kind, agent.version) == ("Pet Shop", "Pet Shop", "openapi", "1.0.0")
    assert agent.description == "Animals and their food."
    assert agent.tags == ("pets",)
    assert json.loads(agent.transport) == {
        "url": "https://pets.example/2",
        "spec": {"title": "Pet Shop", "openapi": "3.0.3"},
        "security": ["shop"],
    }
    assert "X-Shop-Key" not in repr(entry)


@pytest.mark.parametrize(
    ("servers", "where", "address"),
    [
        ([{"url": "/v1"}], "a/spec.yaml", {"path": "/v1"}),
        ([{"url": "/v1"}], "https://host.example/docs/spec.yaml", {"url": "https://host.example/v1"}),
        ([], "https://host.example/docs/spec.yaml", {"url": "https://host.example/"}),
        ([{"url": "https://a.example"}, {"url": "https://b.example"}], "spec.yaml", {"url": "https://a.example"}),
        ([{"url": "http://[x"}], "spec.yaml", {}),
        ([{"url": 5}, 6, {"url": "https://a.example"}], "spec.yaml", {"url": "https://a.example"}),
        ("nonsense", "spec.yaml", {}),
    ],
)
def test_an_address_that_is_a_path_alone_counts_from_where_the_document_is(
    servers: object, where: str, address: dict[str, str]
) -> None:
    """From a file there is none: then the path is kept, and no `url` that many services would share."""
    transport = json.loads(agent_of({**PETS_3_0, "servers": servers}, where).agent.transport)
    assert {name: transport[name] for name in ("url", "path") if name in transport} == address


def test_secrets_in_an_address_become_references() -> None:
    server = {"url": "https://me:hunter2@host.example/?key=hunter2"}
    document = document_with({"operationId": "send", "servers": [server]}, servers=[server])
    entry = agent_of(document)
    assert "hunter2" not in repr(entry)
    assert http(entry.tools[0])["server"].startswith("https://${USER}:${PASSWORD}@host.example")


@pytest.mark.parametrize(
    ("paths", "pointer", "reason"),
    [
        ({"/a": {"get": 5}}, "/paths/~1a/get", "expected an operation object, found a number"),
        ({"/a": 5}, "/paths/~1a", "a path, found a number"),
        ({"/a": None}, "/paths/~1a", "a path, found null"),
        ({"/a": {"$ref": "other.yaml#/x"}}, "/paths/~1a", "a reference to another document"),
        ({"/a": {"get": {"$ref": "#/nowhere"}}}, "/paths/~1a/get", "what this document does not hold"),
        ({"/a": {"get": {"tags": 5, "description": 6, "operationId": ["x"], "parameters": 7, "responses": 8}}}, "", ""),
        ([], "/paths", "expected an object, found a list"),
    ],
)
def test_a_bad_operation_costs_itself(paths: Any, pointer: str, reason: str) -> None:
    good = {"/z": {"get": {"operationId": "good"}}}
    intake = read({**PETS_3_0, "paths": {**paths, **good} if isinstance(paths, dict) else paths})
    assert [entry.key for entry in intake.entries] == ["Pet Shop"]
    assert ("good" in [tool.name for tool in intake.entries[0].tools]) == isinstance(paths, dict)
    said = told(intake.rejected)
    assert said.keys() == ({pointer} if reason else set())
    assert reason in said.get(pointer, "")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("other.yaml#/Pet", "another document is left out, since none is fetched: other.yaml"),
        ("https://me:hunter2@host.example/pet.json?key=hunter2", "since none is fetched: host.example/pet.json"),
        ("http://[x", "another document is left out"),
        ("#/components/schemas/Missing", "what this document does not hold"),
        ("#Pet", "what this document does not hold"),
    ],
)
def test_what_lies_outside_the_document_is_not_fetched(reference: str, reason: str) -> None:
    intake = read(document_with(body_of({"type": "object", "properties": {"a": {"$ref": reference}}})))
    [tool] = intake.entries[0].tools
    assert schema(tool)["properties"] == {"a": {}}
    [(pointer, said)] = told(intake.cut).items()
    assert pointer == "/paths/~1x/post/requestBody/content/application~1json/schema/properties/a"
    assert reason in said
    assert "hunter2" not in repr(intake.cut)
