"""OpenAPI 3 and Swagger 2: what becomes of operations, and how a call is made of what is kept."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.any_value import any_value
from tests.openapi_documents import (
    EVENTS_3_1,
    EXAMPLE,
    FILES_2_0,
    OURS,
    PETS_3_0,
    agent_of,
    body_of,
    document_with,
    hints,
    http,
    manifest_of,
    read,
    schema,
    tools_of,
    written_call,
)
from waygraph.ingest.sources.formats import openapi
from waygraph.ingest.sources.formats.openapi_schemas import MAX_SCHEMA_CHARS
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
    assert len(tools) == 300
    assert [cut.reason.partition(":")[0] for cut in intake.cut[:20]] == [intake.cut[0].reason.partition(":")[0]] * 20
    assert intake.cut[20].reason.startswith("at 280 more places: schemas are shortened")
    assert len(intake.cut) == 21
    assert max(len(tool.input_schema) for tool in tools) < 2 * MAX_SCHEMA_CHARS
    assert "S900" not in tools[0].input_schema
    Draft202012Validator.check_schema(schema(tools[0]))
    Draft202012Validator(schema(tools[0])).validate({"p1": {"p1": {"p1": {"p1": {"p1": {}}}}}})


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


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]
JSON = any_value(longest_text=8, max_leaves=6)
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


@given(st.data(), st.sampled_from([PETS_3_0, FILES_2_0, parse(EVENTS_3_1)]))
@hypothesis_settings(suppress_health_check=SLOW)
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
@hypothesis_settings(suppress_health_check=SLOW)
def test_what_becomes_of_a_schema_is_always_one(stated: Any) -> None:
    """As a body, as a parameter, and as a component that is referred to; and every reference in it leads somewhere."""
    operation = body_of({"type": "array", "items": stated})
    operation["parameters"] = [{"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/A"}}]
    [tool] = agent_of(document_with(operation, components={"schemas": {"A": stated, "Pet": {}}})).tools
    made = schema(tool)
    Draft202012Validator.check_schema(made)
    for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(made)):
        assert not reference.startswith("#/$defs/") or reference.removeprefix("#/$defs/") in made["$defs"]
