"""OpenAPI 3 and Swagger 2: what becomes of operations, and how a call is made of what is kept."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from tests.openapi_documents import (
    EVENTS_3_1,
    FILES_2_0,
    PETS_3_0,
    agent_of,
    body_of,
    document_with,
    hints,
    http,
    schema,
    tools_of,
    written_call,
)
from waygraph.ingest.sources.yaml_text import parse


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
        "additionalProperties": False,
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


def test_an_answer_that_is_an_object_is_the_output_schema() -> None:
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
    tool = tools_of(parse(EVENTS_3_1))["listEvents"]
    since = schema(tool)["properties"]["since"]
    assert since == {"type": ["string", "null"], "format": "date", "default": "2026-01-01", "examples": ["2026-02-01"]}
    gives = json.loads(tool.output_schema)
    assert "$id" not in json.dumps(gives)
    assert gives["properties"]["next"] == {"$ref": "#/$defs/Page"}
    [event] = [name for name in gives["$defs"] if name.startswith("Event-")]
    assert gives["$defs"][event]["properties"]["part"] == {"$ref": f"#/$defs/{event}"}
    assert not Draft202012Validator(gives).is_valid({"events": [{"part": {"at": "later"}}]})


def test_bodies_of_swagger_2() -> None:
    tools = tools_of(FILES_2_0)
    assert schema(tools["upload"]) == {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary", "contentEncoding": "base64", "description": "The content"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["file"],
        "additionalProperties": False,
    }
    assert http(tools["upload"])["body"] == {"type": "multipart/form-data"}
    assert http(tools["rename"])["body"] == {"type": "application/json", "fields": {"body_name": "name"}}
    assert schema(tools["rename"])["required"] == ["name", "body_name"]
    assert schema(tools["edit"])["properties"]["body"] == {"type": "array", "description": "New lines"}
    assert written_call(tools["edit"], {"body": ["a"]})["body"] == ["a"]
    assert http(tools["list"])["parameters"] == {"tags": {"in": "query", "collectionFormat": "csv"}}


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
        ({"allOf": [OBJECT, {"required": ["a"]}]}, ["a"], ["a"]),
        ({"allOf": [{"allOf": [{"required": ["a"]}]}, {"allOf": [OBJECT]}]}, ["a"], ["a"]),
        ({"allOf": [OBJECT], "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, ["a"], []),
        ({"allOf": [OBJECT, {"required": ["missing"]}]}, ["a"], []),
        ({"allOf": [OBJECT, {"type": "array"}]}, ["body"], ["body"]),
        ({"type": "object"}, ["body"], ["body"]),
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


@pytest.mark.parametrize("media", ["application/xml", "application/vnd.order+xml", "text/yaml", "application/x-ndjson"])
def test_a_body_in_another_language_than_json_is_a_text(media: str) -> None:
    body = schema(tools_of(document_with(body_of(OBJECT, media)))["send"])["properties"]["body"]
    assert (body["type"], media in body["description"]) == ("string", True)


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
