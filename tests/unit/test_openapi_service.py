"""OpenAPI 3 and Swagger 2: what becomes of a service, of what is wrong, and of the files beside a document."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.openapi_documents import PETS_3_0, agent_of, body_of, document_with, http, manifest_of, read, schema, told


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


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


def write(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def service(**paths: str) -> dict[str, object]:
    """A document whose paths are references."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Jetty", "version": "1"},
        "servers": [{"url": "https://jetty.example/v1"}],
        "paths": {f"/{name}": {"$ref": reference} for name, reference in paths.items()},
        "components": {"schemas": {"Own": SCHEMA}},
    }


def operation(name: str, schema: str) -> dict[str, object]:
    content = {"application/json": {"schema": {"$ref": schema}}}
    return {"post": {"operationId": name, "summary": f"Does {name}.", "requestBody": {"content": content}}}


def tools(path: Path) -> list[str]:
    return sorted(tool.name for entry in manifest_of(path).entries for tool in entry.tools)


@pytest.mark.parametrize("root", ["openapi.json", "openapi.yaml", "swagger.json"])
def test_files_beside_a_document_are_part_of_it(root: str, tmp_path: Path) -> None:
    """From file to file, back to the document, to places within one, in a circle, and with escaped names."""
    document = write(tmp_path, root, service(one="paths/one.json", two="./paths/two_%7Bid%7D.yaml"))
    write(tmp_path, "paths/one.json", operation("one", "../schemas/all.yaml#/Boat"))
    write(tmp_path, "paths/two_{id}.yaml", operation("two", f"../{root}#/components/schemas/Own"))
    write(tmp_path, "schemas/all.yaml", {"Boat": {"type": "object", "properties": {"next": {"$ref": "#/Boat"}}}})
    manifest = manifest_of(document)
    [entry] = manifest.entries
    assert (manifest.rejected, manifest.cut) == ((), ())
    one, two = sorted(entry.tools, key=lambda tool: tool.name)
    assert '"next"' in one.input_schema
    assert '"name"' in two.input_schema


def test_the_parts_of_a_document_in_a_folder_are_no_documents(tmp_path: Path) -> None:
    write(tmp_path, "openapi.json", service(one="paths/one.json"))
    write(tmp_path, "paths/one.json", operation("one", "../a.json"))
    write(tmp_path, "a.json", SCHEMA)
    write(tmp_path, "other.json", {"no": "kind"})
    assert tools(tmp_path) == ["one"]
    [fault] = manifest_of(tmp_path).rejected
    assert fault.where.startswith(str(tmp_path / "other.json"))


@pytest.mark.parametrize(
    "reference",
    [
        *("../secret.json", "link.json", "folder/secret.json", "{outside}", "file://{outside}"),
        *("https://127.0.0.1:9/a.json", "pipe.json", "none.json", "secret.txt", "broken.json", "deep.json", "paths"),
    ],
)
def test_no_reference_leaves_the_folder(reference: str, tmp_path: Path) -> None:
    """Each is reported where it stands, and costs its path alone."""
    outside, folder = write(tmp_path, "secret.json", operation("leak", "#/x")), tmp_path / "service"
    write(folder, "good.json", operation("good", "#/post"))
    write(folder, "secret.txt", json.dumps(operation("leak", "#/x")))
    write(folder, "broken.json", "{")
    write(folder, "deep.json", "[" * 100_000)
    (folder / "link.json").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.json")
    document = service(good="good.json", bad=reference.format(outside=outside))
    path = write(folder, "openapi.json", document)
    assert tools(path) == ["good"]
    [fault] = manifest_of(path).rejected
    assert fault.where == f"{path}#/paths/~1bad"


def test_a_document_of_many_files_is_read_as_far_as_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waygraph.ingest.sources.parse.MAX_FILES", 3)
    names = [f"p{number}" for number in range(5)]
    for name in names:
        write(tmp_path, f"{name}.json", operation(name, "#/post"))
    path = write(tmp_path, "openapi.json", service(**{name: f"{name}.json" for name in names}))
    assert len(tools(path)) == 3
    assert len(manifest_of(path).rejected) == 2
