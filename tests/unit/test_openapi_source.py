"""OpenAPI 3 and Swagger 2: what becomes of a service and its operations, and how a call is made of what is kept."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from waygraph.ingest.manifest import Intake
from waygraph.ingest.sources import openapi, read_path
from waygraph.ingest.sources.openapi_schemas import MAX_SCHEMA_CHARS
from waygraph.ingest.sync import sync
from waygraph.registry.changes import AgentEntry, Manifest
from waygraph.registry.model import Tool
from waygraph.registry.registry import Registry
from waygraph.registry.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "sources" / "customs-desk.yaml"
OURS = ROOT / "docs" / "openapi.json"

PETS_3_0: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pet Shop", "version": "1.0.0", "description": "Animals and their food."},
    "servers": [{"url": "https://{at}.example/{v}", "variables": {"at": {"default": "pets"}, "v": {"default": 2}}}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "pets/list",
                "summary": "List the pets",
                "description": "All pets, youngest first.",
                "tags": ["pets"],
                "parameters": [
                    {"$ref": "#/components/parameters/Limit"},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "seen", "in": "cookie", "schema": {"type": "boolean"}, "deprecated": True},
                    {"name": "where", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                ],
                "responses": {
                    "200": {"description": "Pets", "content": {"application/json": {"schema": {"type": "array"}}}}
                },
            },
            "post": {
                "operationId": "addPet",
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
                "responses": {
                    "default": {
                        "description": "Trouble",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                    "201": {
                        "description": "Taken in",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    },
                },
            },
        },
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "put": {
                "summary": "Change a pet",
                "parameters": [
                    {"name": "petId", "in": "query", "schema": {"type": "string"}},
                    {"name": "name", "in": "query", "style": "form", "explode": False, "schema": {"type": "array"}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/xml": {"schema": {"type": "string"}},
                        "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                    },
                },
                "servers": [{"url": "https://write.example"}],
            },
            "delete": {"operationId": "removePet", "deprecated": True, "tags": ["pets"]},
        },
        "/pets/{petId}/photo": {
            "post": {
                "operationId": "addPhoto",
                "requestBody": {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
            },
        },
    },
    "components": {
        "parameters": {
            "Limit": {
                "name": "limit",
                "in": "query",
                "description": "How many at most",
                "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "nullable": True, "example": 3},
            }
        },
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Pet": {
                "allOf": [
                    {"$ref": "#/components/schemas/Named"},
                    {
                        "type": "object",
                        "required": ["id"],
                        "properties": {
                            "id": {"type": "integer", "readOnly": True},
                            "petId": {"type": "integer"},
                            "mother": {"$ref": "#/components/schemas/Pet"},
                            "kind": {"enum": ["cat", "dog"], "type": "string", "nullable": True},
                            "food": {"allOf": [{"$ref": "#/components/schemas/Food"}], "nullable": True},
                        },
                    },
                ]
            },
            "Named": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "Food": {
                "type": "object",
                "xml": {"name": "food"},
                "x-internal": 1,
                "properties": {"grams": {"type": "number"}},
            },
        },
        "securitySchemes": {"shop": {"type": "apiKey", "in": "header", "name": "X-Shop-Key"}},
    },
}

EVENTS_3_1 = """
openapi: 3.1.0
info: {title: Events, version: 2026-01-31, summary: What happens where}
servers: [{url: /v1}]
webhooks:
  happened: {post: {operationId: happened, requestBody: {content: {application/json: {schema: {type: object}}}}}}
paths:
  /events:
    get:
      operationId: listEvents
      parameters:
        - name: since
          in: query
          schema: {type: [string, "null"], format: date, default: 2026-01-01, examples: [2026-02-01]}
      responses:
        2XX:
          description: Some
          content:
            application/json: {schema: {$ref: "#/components/schemas/Page"}}
components:
  schemas:
    Page:
      $id: https://events.example/page
      type: object
      $defs:
        Event: {type: object, properties: {at: {const: now}, part: {$ref: "#/components/schemas/Page/$defs/Event"}}}
      properties:
        events: {type: array, prefixItems: [{$ref: "#/components/schemas/Page/$defs/Event"}]}
        next: {$ref: "#/components/schemas/Page"}
"""

FILES_2_0: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Files", "version": "1"},
    "host": "files.example",
    "basePath": "/api",
    "schemes": ["http", "https"],
    "consumes": ["application/json"],
    "securityDefinitions": {"basic": {"type": "basic"}},
    "paths": {
        "/files": {
            "post": {
                "operationId": "upload",
                "consumes": ["multipart/form-data"],
                "parameters": [
                    {"name": "file", "in": "formData", "type": "file", "required": True, "description": "The content"},
                    {"name": "note", "in": "formData", "type": "string", "x-nullable": True},
                ],
            },
            "get": {
                "operationId": "list",
                "parameters": [
                    {
                        "name": "tags",
                        "in": "query",
                        "type": "array",
                        "items": {"type": "string"},
                        "collectionFormat": "csv",
                    }
                ],
                "responses": {"200": {"description": "Found", "schema": {"$ref": "#/definitions/Found"}}},
            },
        },
        "/files/{name}": {
            "put": {
                "operationId": "rename",
                "parameters": [
                    {"name": "name", "in": "path", "required": True, "type": "string"},
                    {"name": "change", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Change"}},
                ],
            },
            "patch": {
                "operationId": "edit",
                "parameters": [
                    {"name": "lines", "in": "body", "description": "New lines", "schema": {"type": "array"}}
                ],
            },
        },
    },
    "definitions": {
        "Change": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "by": {"type": "string"}},
        },
        "Found": {"properties": {"names": {"type": "array", "items": {"type": "string"}}}},
    },
}


def read(document: Any, where: str = "spec.json") -> Intake:
    intake = Intake(where, Settings())
    for record in openapi.read(document, where, intake):
        intake.take(record)
    return intake


def agent_of(document: Any, where: str = "spec.json") -> AgentEntry:
    [entry] = read(document, where).entries
    return entry


def tools_of(document: Any) -> dict[str, Tool]:
    return {tool.name: tool for tool in agent_of(document).tools}


def told(records: Any) -> dict[str, str]:
    """JSON pointer → reason."""
    return {each.where.rpartition("#")[2]: each.reason for each in records}


def schema(tool: Tool) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(tool.input_schema)
    return parsed


def hints(tool: Tool) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(tool.annotations)
    return parsed


def http(tool: Tool) -> dict[str, Any]:
    call: dict[str, Any] = hints(tool)["http"]
    return call


def manifest_of(path: Path) -> Manifest:
    [manifest] = read_path(str(path), Settings())
    return manifest


def document_with(operation: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"openapi": "3.0.0", "info": {"title": "T"}, "paths": {"/x": {"post": operation}}, **parts}


def body_of(schema: object, media: str = "application/json") -> dict[str, Any]:
    return {"operationId": "send", "requestBody": {"required": True, "content": {media: {"schema": schema}}}}


def written_call(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """A request made of what is stored alone, as the documentation says."""
    call = http(tool)
    request: dict[str, Any] = {"method": call["method"], "path": call["path"], "query": {}, "header": {}, "cookie": {}}
    fields = {}
    for name, value in arguments.items():
        if place := call.get("parameters", {}).get(name):
            stated = place.get("name", name)
            if place["in"] == "path":
                request["path"] = request["path"].replace("{" + stated + "}", quote(str(value)))
            else:
                request[place["in"]][stated] = value
        else:
            fields[call["body"].get("fields", {}).get(name, name)] = value
    if "body" in call:
        request["body"] = fields.get(call["body"]["argument"]) if "argument" in call["body"] else fields
    return request


# -- the service -----------------------------------------------------------------------------------


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


def test_swagger_2_has_an_address_for_each_scheme() -> None:
    """The encrypted one first."""
    assert json.loads(agent_of(FILES_2_0).agent.transport) == {
        "url": "https://files.example/api",
        "servers": ["https://files.example/api", "http://files.example/api"],
        "spec": {"title": "Files", "swagger": "2.0"},
        "security": ["basic"],
    }


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
    """That of the service, and that of one operation."""
    server = {"url": "https://me:hunter2@host.example/?key=hunter2"}
    document = document_with({"operationId": "send", "servers": [server]}, servers=[server])
    entry = agent_of(document)
    assert "hunter2" not in repr(entry)
    assert http(entry.tools[0])["server"].startswith("https://${USER}:${PASSWORD}@host.example")


@pytest.mark.parametrize(("title", "key"), [(None, "fleet"), ("", "fleet"), (5, "fleet"), ("x" * 200, "fleet")])
def test_a_service_without_a_usable_title_is_called_after_its_file(title: object, key: str) -> None:
    """Also where it was got from an address."""
    for where in ("docs/fleet.yaml", "https://host.example/fleet.json?v=2"):
        assert agent_of({**PETS_3_0, "info": {"title": title}}, where).key == key


def test_the_version_may_be_a_date_of_yaml() -> None:
    """As people write it without quotes; and webhooks are no tools."""
    entry = agent_of(yaml.safe_load(EVENTS_3_1))
    assert entry.agent.version == "2026-01-31"
    assert entry.agent.description == "What happens where"
    assert [tool.name for tool in entry.tools] == ["listEvents"]


# -- operations ------------------------------------------------------------------------------------


def test_operations_are_tools() -> None:
    """Named by id, made legal, or by method and path; described by summary and description, or by what is called."""
    tools = tools_of(PETS_3_0)
    assert list(tools) == ["pets_list", "addPet", "put_pets_petId", "removePet", "addPhoto"]
    assert tools["pets_list"].description == "List the pets\n\nAll pets, youngest first."
    assert tools["put_pets_petId"].description == "Change a pet"
    assert tools["addPet"].description == "POST /pets"
    assert tools["removePet"].tags == ("deprecated", "pets")


def test_methods_give_hints() -> None:
    """Reading, destroying, and what may be done twice; deprecated operations are marked."""
    found = {name: {k: v for k, v in hints(tool).items() if k != "http"} for name, tool in tools_of(PETS_3_0).items()}
    assert found == {
        "pets_list": {"readOnlyHint": True},
        "addPet": {},
        "put_pets_petId": {"idempotentHint": True},
        "removePet": {"destructiveHint": True, "idempotentHint": True, "deprecated": True},
        "addPhoto": {},
    }


def test_parameters_keep_their_place() -> None:
    """Query, header and cookie; references followed; headers of HTTP itself are none."""
    tool = tools_of(PETS_3_0)["pets_list"]
    assert schema(tool) == {
        "type": "object",
        "properties": {
            "limit": {
                "type": ["integer", "null"],
                "exclusiveMinimum": 0,
                "description": "How many at most",
                "examples": [3],
            },
            "where": {"type": "object"},
            "X-Trace": {"type": "string"},
            "seen": {"type": "boolean", "deprecated": True},
        },
    }
    assert http(tool) == {
        "method": "GET",
        "path": "/pets",
        "parameters": {
            "limit": {"in": "query"},
            "where": {"in": "query", "content": "application/json"},
            "X-Trace": {"in": "header"},
            "seen": {"in": "cookie"},
        },
    }


def test_a_body_comes_field_by_field_and_names_that_clash_are_told_apart() -> None:
    """A path's parameter keeps its name; what is called the same elsewhere gets another, and the way back is kept."""
    tool = tools_of(PETS_3_0)["put_pets_petId"]
    assert list(schema(tool)["properties"]) == sorted(
        ["petId", "petId_query", "name", "body_name", "body_petId", "mother", "kind", "food"]
    )
    assert schema(tool)["required"] == ["petId", "body_name"]
    assert http(tool) == {
        "method": "PUT",
        "path": "/pets/{petId}",
        "server": "https://write.example",
        "parameters": {
            "petId": {"in": "path"},
            "petId_query": {"in": "query", "name": "petId"},
            "name": {"in": "query", "style": "form", "explode": False},
        },
        "body": {"type": "application/json", "fields": {"body_name": "name", "body_petId": "petId"}},
    }
    arguments = {"petId": 7, "petId_query": "x", "name": ["a"], "body_name": "Rex", "body_petId": 8, "kind": "dog"}
    assert written_call(tool, arguments) == {
        "method": "PUT",
        "path": "/pets/7",
        "query": {"petId": "x", "name": ["a"]},
        "header": {},
        "cookie": {},
        "body": {"name": "Rex", "petId": 8, "kind": "dog"},
    }


def test_recursion_stays_a_reference() -> None:
    """A pet has a mother, who is a pet: under `$defs`, once; what only the server sets is not asked for."""
    tool = tools_of(PETS_3_0)["addPet"]
    asked = schema(tool)
    assert asked["properties"]["mother"] == {"$ref": "#/$defs/Pet"}
    assert sorted(asked["$defs"]) == ["Food", "Named", "Pet"]
    assert "id" not in asked["properties"]
    assert asked["required"] == ["name"]
    Draft202012Validator(asked).validate(
        {"name": "Rex", "mother": {"name": "Bella", "id": 1, "mother": {"name": "Lassie", "id": 2}}}
    )
    assert not Draft202012Validator(asked).is_valid({"name": "Rex", "mother": {"name": 5, "id": 1}})


def test_what_3_0_says_otherwise_is_said_as_json_schema_does() -> None:
    """nullable beside a type, an enumeration and a reference; what JSON Schema does not know is left out."""
    asked = schema(tools_of(PETS_3_0)["addPet"])
    assert asked["properties"]["kind"] == {"type": ["string", "null"], "enum": ["cat", "dog", None]}
    assert asked["properties"]["food"] == {"anyOf": [{"allOf": [{"$ref": "#/$defs/Food"}]}, {"type": "null"}]}
    assert asked["$defs"]["Food"] == {"type": "object", "properties": {"grams": {"type": "number"}}}


@pytest.mark.parametrize("pattern", ["[", "[[a]", "[a||b]", "x{99999999999}", "(" * 500, r"\p{L}", "a" * 1001, 5])
def test_a_pattern_that_is_none_is_left_out(pattern: Any) -> None:
    """Also one that Python alone does not know; one that it knows is kept."""
    stated = {"type": "string", "pattern": pattern}
    parts = {"patternProperties": {str(pattern): {}, "^x-": {"pattern": r"^a--b|\[[0-9]+\]$"}}}
    operation = {**body_of({"type": "array", "items": [stated, parts], "prefixItems": [stated, parts]})}
    made = schema(tools_of(document_with(operation))["send"])["properties"]["body"]
    kept = {"patternProperties": {"^x-": {"pattern": r"^a--b|\[[0-9]+\]$"}}}
    numeric = {"patternProperties": {"5": {}, **kept["patternProperties"]}}
    assert made["prefixItems"] == [{"type": "string"}, numeric if pattern == 5 else kept]


def test_an_answer_that_is_an_object_is_the_output_schema() -> None:
    """200 or 201 before the default; an array is none."""
    tools = tools_of(PETS_3_0)
    assert tools["pets_list"].output_schema == ""
    gives = json.loads(tools["addPet"].output_schema)
    assert gives["type"] == "object"
    assert gives["allOf"][0] == {"$ref": "#/$defs/Named"}
    Draft202012Validator(gives).validate({"id": 1, "name": "Rex"})
    found = json.loads(tools_of(FILES_2_0)["list"].output_schema)
    assert found["properties"] == {"names": {"type": "array", "items": {"type": "string"}}}


def test_a_document_of_3_1_brings_its_own_definitions() -> None:
    """Wherever in the document a reference leads; `$id` and the like would lead elsewhere and are left out."""
    tool = tools_of(yaml.safe_load(EVENTS_3_1))["listEvents"]
    since = schema(tool)["properties"]["since"]
    assert since == {"type": ["string", "null"], "format": "date", "default": "2026-01-01", "examples": ["2026-02-01"]}
    gives = json.loads(tool.output_schema)
    assert "$id" not in json.dumps(gives)
    assert gives["properties"]["next"] == {"$ref": "#/$defs/Page"}
    [event] = [name for name in gives["$defs"] if name.startswith("Event-")]
    assert gives["$defs"][event]["properties"]["part"] == {"$ref": f"#/$defs/{event}"}
    assert not Draft202012Validator(gives).is_valid({"events": [{"part": {"at": "later"}}]})


def test_bodies_of_swagger_2() -> None:
    """Forms with files, a body that is an object, and one that is not."""
    tools = tools_of(FILES_2_0)
    assert schema(tools["upload"]) == {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary", "contentEncoding": "base64", "description": "The content"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["file"],
    }
    assert http(tools["upload"])["body"] == {"type": "multipart/form-data"}
    assert http(tools["rename"])["body"] == {"type": "application/json", "fields": {"body_name": "name"}}
    assert schema(tools["rename"])["required"] == ["name", "body_name"]
    assert schema(tools["edit"])["properties"] == {"body": {"type": "array", "description": "New lines"}}
    assert written_call(tools["edit"], {"body": ["a"]})["body"] == ["a"]
    assert http(tools["list"])["parameters"] == {"tags": {"in": "query", "collectionFormat": "csv"}}


def test_a_body_of_bytes_is_asked_for_in_base64() -> None:
    """And says of which type it is."""
    tool = tools_of(PETS_3_0)["addPhoto"]
    assert schema(tool)["properties"]["body"] == {
        "type": "string",
        "format": "binary",
        "contentEncoding": "base64",
        "contentMediaType": "image/png",
    }
    assert http(tool)["body"] == {"type": "image/png", "argument": "body"}


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("stated", "names", "required"),
    [
        ({**OBJECT, "required": ["a"]}, ["a"], ["a"]),
        ({**OBJECT, "nullable": True}, ["a"], []),
        ({**OBJECT, "additionalProperties": {"type": "string"}}, ["a"], []),
        ({**OBJECT, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, ["a"], []),
        ({"oneOf": [{**OBJECT, "required": ["a"]}, {"type": "object", "properties": {"b": {}}}]}, ["a", "b"], []),
        ({"oneOf": [OBJECT, {"type": "object", "properties": {"a": {"type": "number"}}}]}, ["body"], ["body"]),
        ({"oneOf": [OBJECT, {"type": "string"}]}, ["body"], ["body"]),
        ({"allOf": [OBJECT, {"required": ["a"]}], "required": ["a"]}, ["a"], ["a"]),
        ({"allOf": [OBJECT, {"type": "array"}]}, ["body"], ["body"]),
        ({"type": "object"}, ["body"], ["body"]),
        ({"type": "object", "properties": {str(number): {} for number in range(201)}}, ["body"], ["body"]),
        ({"type": "string"}, ["body"], ["body"]),
        (True, ["body"], ["body"]),
        (None, ["body"], ["body"]),
        ([], ["body"], ["body"]),
    ],
)
def test_which_bodies_come_field_by_field(stated: object, names: list[str], required: list[str]) -> None:
    """Objects whose properties are known; what any of several schemas asks for may be left out."""
    asked = schema(tools_of(document_with(body_of(stated)))["send"])
    assert list(asked["properties"]) == names
    assert asked.get("required", []) == required


def test_a_body_that_may_be_left_out_demands_nothing() -> None:
    """Its required fields are required only with it."""
    operation = body_of({**OBJECT, "required": ["a"]})
    operation["requestBody"]["required"] = False
    assert "required" not in schema(tools_of(document_with(operation))["send"])


def test_names_of_tools_are_legal_and_told_apart() -> None:
    """Ids that are taken twice, that are empty, too long, or of another script."""
    paths = {
        "/a": {"get": {"operationId": "same"}, "post": {"operationId": "same"}},
        "/a/": {"get": {"operationId": "x" * 200}},
        "/b": {"get": {"operationId": "日本"}},
        "/" + "long/" * 60: {"get": {}, "put": {}},
        "/": {"get": {"operationId": 5}},
    }
    names = [tool.name for tool in agent_of({"openapi": "3.0.0", "info": {"title": "T"}, "paths": paths}).tools]
    assert names[:4] == ["same", "post_a", "get_a", "get_b"]
    assert names[6] == "get"
    assert len(set(names)) == 7
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in names)
    again = agent_of({"openapi": "3.0.0", "info": {"title": "T"}, "paths": dict(reversed(paths.items()))}).tools
    assert {tool.name for tool in again if "long" in tool.name} == {name for name in names if "long" in name}


# -- what is wrong or elsewhere --------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.2", "4.0.0", None, [], "x" * 500])
def test_another_version_is_rejected(version: object) -> None:
    """Told, not guessed at."""
    intake = read({**PETS_3_0, "openapi": version})
    assert not intake.entries
    assert intake.partial
    assert "this Waygraph reads OpenAPI 3 and Swagger 2" in told(intake.rejected)["/openapi"]


@pytest.mark.parametrize(
    ("paths", "pointer", "reason"),
    [
        ({"/a": {"get": 5}}, "/paths/~1a/get", "expected an operation object, found a number"),
        ({"/a": 5}, "/paths/~1a", "a path, found a number"),
        ({"/a": None}, "/paths/~1a", "a path, found null"),
        ({"/a": {"$ref": "other.yaml#/x"}}, "/paths/~1a", "a reference that leads nowhere"),
        ({"/a": {"get": {"tags": 5, "description": 6, "operationId": ["x"], "parameters": 7, "responses": 8}}}, "", ""),
        ([], "/paths", "expected an object, found a list"),
    ],
)
def test_a_bad_operation_costs_itself(paths: Any, pointer: str, reason: str) -> None:
    """Place and reason; the operations beside it are tools."""
    good = {"/z": {"get": {"operationId": "good"}}}
    intake = read({**PETS_3_0, "paths": {**paths, **good} if isinstance(paths, dict) else paths})
    assert [entry.key for entry in intake.entries] == ["Pet Shop"]
    assert ("good" in [tool.name for tool in intake.entries[0].tools]) == isinstance(paths, dict)
    said = told(intake.rejected)
    assert said.keys() == ({pointer} if reason else set())
    assert reason in said.get(pointer, "")


def test_a_path_without_operations_is_told() -> None:
    """It may be so on purpose: a remark, nothing is rejected."""
    intake = read({**PETS_3_0, "paths": {"/a": {"summary": "Soon"}}})
    assert told(intake.cut) == {"/paths/~1a": "there is nothing that can be done at this path"}
    assert not intake.rejected


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("other.yaml#/Pet", "another document (other.yaml) is left out"),
        (
            "https://me:hunter2@host.example/pet.json?key=hunter2",
            "another document (host.example/pet.json) is left out",
        ),
        ("http://[x", "another document is left out"),
        ("#/components/schemas/Missing", "what this document does not hold"),
        ("#Pet", "what this document does not hold"),
    ],
)
def test_what_lies_outside_the_document_is_not_fetched(reference: str, reason: str) -> None:
    """A remark with the place; the tool is there without it."""
    intake = read(document_with(body_of({"type": "object", "properties": {"a": {"$ref": reference}}})))
    [tool] = intake.entries[0].tools
    assert schema(tool)["properties"] == {"a": {}}
    [(pointer, said)] = told(intake.cut).items()
    assert pointer == "/paths/~1x/post/requestBody/content/application~1json/schema/properties/a"
    assert reason in said
    assert "hunter2" not in repr(intake.cut)


@pytest.mark.parametrize("part", ["parameters", "requestBody", "responses"])
def test_references_in_circles_end(part: str) -> None:
    """From parameter to parameter, body to body, answer to answer."""
    around = {"$ref": "#/components/x/A"}
    stated = {"parameters": [around], "requestBody": around, "responses": {"200": around}}[part]
    parts = {"components": {"x": {"A": {"$ref": "#/components/x/B"}, "B": around}}}
    intake = read(document_with({"operationId": "send", part: stated}, **parts))
    assert [tool.name for tool in intake.entries[0].tools] == ["send"]
    assert "without end" in next(iter(told(intake.cut).values()))


@pytest.mark.parametrize(
    "schemas",
    [
        {"A": {"$ref": "#/components/schemas/A"}},
        {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
        {"A": {"allOf": [{"$ref": "#/components/schemas/A"}]}},
        {
            "A": {"allOf": [{"$ref": "#/components/schemas/B"}] * 20},
            "B": {"allOf": [{"$ref": "#/components/schemas/A"}] * 20},
        },
        {"A": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/A"}}}},
    ],
)
def test_schemas_in_circles_end(schemas: dict[str, Any]) -> None:
    """As body and as answer; what is left is a schema."""
    operation = body_of({"$ref": "#/components/schemas/A"})
    operation["responses"] = {"200": {"content": operation["requestBody"]["content"]}}
    [tool] = agent_of(document_with(operation, components={"schemas": schemas})).tools
    Draft202012Validator.check_schema(schema(tool))


# -- size ------------------------------------------------------------------------------------------


def _web(count: int, width: int) -> dict[str, Any]:
    """Schemas each of which refers to `width` others, so that each reaches all."""
    return {
        f"S{number}": {
            "type": "object",
            "description": "words " * 10,
            "properties": {
                f"p{step}": {"$ref": f"#/components/schemas/S{(number * width + step) % count}"}
                for step in range(width)
            },
        }
        for number in range(count)
    }


def test_a_large_web_of_schemas_is_bounded() -> None:
    """300 operations over 1,000 schemas that all reach each other: each tool stays small, what it keeps is nearest."""
    paths = {f"/x{number}": {"post": body_of({"$ref": f"#/components/schemas/S{number}"})} for number in range(300)}
    intake = read(
        {"openapi": "3.1.0", "info": {"title": "T"}, "paths": paths, "components": {"schemas": _web(1000, 8)}}
    )
    tools = intake.entries[0].tools
    assert len(tools) == len(intake.cut) == 300
    assert max(len(tool.input_schema) for tool in tools) < 2 * MAX_SCHEMA_CHARS
    assert "S900" not in tools[0].input_schema
    Draft202012Validator.check_schema(schema(tools[0]))
    Draft202012Validator(schema(tools[0])).validate({"p1": {"p1": {"p1": {"p1": {"p1": {}}}}}})


def test_a_schema_by_itself_is_bounded() -> None:
    """One of many properties, one of a great text, one nested deeply: the tool is there, and the remark."""
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    for stated, reason in (
        ({"type": "object", "properties": {f"p{n}": {"description": "x" * 1000} for n in range(100)}}, "is left out"),
        ({"type": "string", "description": "x" * 100_000}, "'body' is left out"),
        (deep, "nested deeper than 60"),
    ):
        intake = read(document_with(body_of(stated)))
        [tool] = intake.entries[0].tools
        assert len(tool.input_schema) < 2 * MAX_SCHEMA_CHARS
        assert any(reason in each.reason for each in intake.cut)


def test_paths_that_share_one_item_do_not_multiply_without_end() -> None:
    """A few bytes each that stand for much: twenty of them, the others are rejected by name."""
    item = {method: {"operationId": method, "description": "x" * 100_000} for method in openapi.METHODS}
    paths = {f"/p{number}": {"$ref": "#/x-item"} for number in range(openapi.MAX_SHARED + 5)}
    intake = read({"openapi": "3.0.0", "info": {"title": "T"}, "x-item": item, "paths": paths})
    assert len(intake.entries[0].tools) == openapi.MAX_SHARED * len(openapi.METHODS)
    assert list(told(intake.rejected)) == [f"/paths/~1p{openapi.MAX_SHARED + number}" for number in range(5)]


def test_of_very_many_operations_the_rest_is_left_out() -> None:
    """And told."""
    paths: dict[str, Any] = {f"/p{number}": {"get": {}} for number in range(openapi.MAX_OPERATIONS + 5)}
    intake = read({"openapi": "3.0.0", "info": {"title": "T"}, "paths": paths})
    assert len(intake.entries[0].tools) == openapi.MAX_OPERATIONS
    assert "more operations than" in told(intake.rejected)["/paths"]


class Counting(dict[str, Any]):
    """How often somebody went through all of it."""

    times = 0

    def items(self) -> Any:
        self.times += 1
        return super().items()


def test_one_part_that_many_operations_use_is_read_once() -> None:
    """A large parameter, body and answer behind references of many operations."""
    properties = Counting({f"p{n}": {"type": "string"} for n in range(1000)})
    large = {"type": "object", "properties": properties}
    content = {"content": {"application/json": {"schema": large}}}
    operation = {
        "parameters": [{"$ref": "#/components/parameters/P"}],
        "requestBody": {"$ref": "#/components/requestBodies/B"},
        "responses": {"200": {"$ref": "#/components/responses/R"}},
    }
    parts = {
        "parameters": {"P": {"name": "p", "in": "query", "description": "x" * 100_000, "schema": large}},
        "requestBodies": {"B": content},
        "responses": {"R": content},
    }
    paths = {f"/p{number}": {"post": operation} for number in range(100)}
    intake = read({"openapi": "3.0.0", "info": {"title": "T"}, "paths": paths, "components": parts})
    assert len(intake.entries[0].tools) == 100
    assert max(len(tool.input_schema) for tool in intake.entries[0].tools) < MAX_SCHEMA_CHARS
    assert properties.times <= 3, "for parameter, body and answer once each"


def test_numbers_of_yaml_that_python_does_not_write_are_left_out(tmp_path: Path) -> None:
    """A few thousand digits in base 16: as version, bound, default and variable."""
    number = "0x" + "f" * 5000
    (tmp_path / "spec.yaml").write_text(
        f"openapi: 3.1.0\ninfo: {{title: T, version: v}}\n"
        f"servers: [{{url: 'https://h.example/{{v}}', variables: {{v: {{default: {number}}}}}}}]\n"
        "paths: {/a: {get: {operationId: a, parameters: "
        f"[{{name: p, in: query, schema: {{minimum: {number}, default: {number}, type: integer}}}}]}}}}}}\n"
    )
    [entry] = manifest_of(tmp_path / "spec.yaml").entries
    assert schema(entry.tools[0])["properties"] == {"p": {"type": "integer"}}
    (tmp_path / "spec.yaml").write_text(f"openapi: 3.1.0\ninfo: {{title: T, version: {number}}}\npaths: {{}}\n")
    manifest = manifest_of(tmp_path / "spec.yaml")
    assert "version: a number without end" in next(iter(told(manifest.rejected).values()))


# -- real documents --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [OURS, EXAMPLE], ids=["our own", "the example"])
def test_real_documents_go_in_whole(path: Path) -> None:
    """Every operation a tool with valid schemas, nothing rejected or cut; every argument has its place."""
    document = yaml.safe_load(path.read_text())
    manifest = manifest_of(path)
    operations = [
        (method.upper(), place)
        for place, item in document["paths"].items()
        for method in item
        if method in openapi.METHODS
    ]
    [entry] = manifest.entries
    assert sorted((http(tool)["method"], http(tool)["path"]) for tool in entry.tools) == sorted(operations)
    assert (manifest.rejected, manifest.cut, manifest.partial) == ((), (), False)
    for tool in entry.tools:
        Draft202012Validator.check_schema(schema(tool))
        Draft202012Validator.check_schema(json.loads(tool.output_schema or "{}"))
        placed = set(http(tool).get("parameters", {}))
        assert set(re.findall(r"\{([^}]+)\}", http(tool)["path"])) <= placed <= set(schema(tool)["properties"])
        assert "body" in http(tool) or placed == set(schema(tool)["properties"])


def test_our_own_requests_fit_the_schemas_of_their_tools() -> None:
    """The example of each documented body is valid, and is sent as it was."""
    document = json.loads(OURS.read_text())
    tools = {(http(tool)["method"], http(tool)["path"]): tool for tool in manifest_of(OURS).entries[0].tools}
    sent = 0
    for path, item in document["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" in content:
                tool, example = tools[method.upper(), path], content["example"]
                whole = http(tool)["body"].get("argument")
                arguments = {whole: example} if whole else example
                Draft202012Validator({**schema(tool), "required": []}).validate(arguments)
                assert written_call(tool, arguments)["body"] == example
                sent += 1
    assert sent >= 3


def test_operations_are_found_by_what_they_do() -> None:
    """Among the example catalogue; the service by its description, an operation by its summary."""
    with Registry.open(":memory:", embedder="none") as registry:
        for source in (EXAMPLE, ROOT / "examples" / "catalog"):
            [manifest] = read_path(str(source), Settings())
            sync(registry, manifest)
        route = registry.route("What duty and tax must I pay on these goods at customs?")
        assert route.matches[0].agent.id == "Customs Desk"
        assert route.matches[0].tools[0].name == "estimateDuty"
        assert registry.find_tools("withdraw a declaration").matches[0].tool.id == "Customs Desk/withdrawDeclaration"


# -- hostile input ---------------------------------------------------------------------------------

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
OF_YAML: st.SearchStrategy[Any] = st.dates() | st.binary(max_size=3) | st.builds(set)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | OF_YAML,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
REFERENCES = st.sampled_from(
    ["#/components/schemas/Pet", "#/components/schemas/A", "#/paths/~1pets/get", "#", "#/", "a.yaml", "#/a/0", "#/%zz"]
)
WORDS = [
    *"type properties items allOf anyOf oneOf not if enum const default minimum exclusiveMinimum minLength".split(),
    *"pattern required nullable example examples additionalProperties prefixItems multipleOf $defs $id".split(),
    *"patternProperties dependentRequired dependentSchemas uniqueItems format description readOnly".split(),
]
SCHEMA = st.recursive(
    JSON | st.fixed_dictionaries({"$ref": REFERENCES}),
    lambda inner: st.dictionaries(
        st.sampled_from(WORDS),
        inner
        | st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.sampled_from(["object", "string", "array", "file", ["object", "null"], ["a", "a"], True]),
        max_size=5,
    ),
    max_leaves=12,
)


def _mangled(document: Any, draw: Callable[[st.SearchStrategy[Any]], Any], schemas: st.SearchStrategy[Any]) -> Any:
    """The document with some of its parts replaced, left out, or swapped for references."""
    if draw(st.integers(0, 14)) == 0:
        return draw(JSON | schemas | st.fixed_dictionaries({"$ref": REFERENCES}))
    if isinstance(document, dict):
        return {key: _mangled(value, draw, schemas) for key, value in document.items()}
    return [_mangled(item, draw, schemas) for item in document] if isinstance(document, list) else document


@given(st.data(), st.sampled_from([PETS_3_0, FILES_2_0, yaml.safe_load(EVENTS_3_1)]))
@hypothesis_settings(deadline=None, max_examples=150, suppress_health_check=SLOW)
def test_no_mangled_document_raises(data: st.DataObject, document: dict[str, Any]) -> None:
    """Whatever is in it: tools with valid schemas that JSON can carry, or a reason."""
    mangled = {name: _mangled(part, data.draw, SCHEMA) for name, part in document.items()}
    mangled["components" if "openapi" in document else "definitions"] = _mangled(
        document.get("components", document.get("definitions")), data.draw, SCHEMA
    )
    if not openapi.fits(mangled):
        return
    intake = read(mangled)
    assert intake.entries or intake.rejected
    for tool in (tool for entry in intake.entries for tool in entry.tools):
        Draft202012Validator.check_schema(schema(tool))
        Draft202012Validator.check_schema(json.loads(tool.output_schema or "{}"))
        assert http(tool)["method"]
    json.dumps([tool.annotations for entry in intake.entries for tool in entry.tools], allow_nan=False)


@given(SCHEMA)
@hypothesis_settings(deadline=None, max_examples=400, suppress_health_check=SLOW)
def test_what_becomes_of_a_schema_is_always_one(stated: Any) -> None:
    """As a body, as a parameter, and as a component that is referred to; and every reference in it leads somewhere."""
    operation = body_of({"type": "array", "items": stated})
    operation["parameters"] = [{"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/A"}}]
    [tool] = agent_of(document_with(operation, components={"schemas": {"A": stated, "Pet": {}}})).tools
    made = schema(tool)
    Draft202012Validator.check_schema(made)
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(made)):
        assert not reference.startswith("#/$defs/") or reference.removeprefix("#/$defs/") in made["$defs"]
