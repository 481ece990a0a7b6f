"""OpenAPI 3 and Swagger 2: slips that real documents have, and operations that are too large to be kept whole."""

import json
from typing import Any

import pytest

from tests.openapi_documents import body_of, document_with, http, read, schema, told
from waygraph.ingest.sources.formats.openapi_schemas import MAX_SCHEMA_CHARS
from waygraph.registry.model.arguments import check_arguments
from waygraph.registry.model.errors import InvalidArguments
from waygraph.registry.model.nouns import Tool

TEXT = {"type": "string"}


def tool_at(path: str, operation: dict[str, Any], **item: Any) -> Tool:
    document = {"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": {path: {"get": operation, **item}}}
    [tool] = read(document).entries[0].tools
    return tool


def in_path(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "integer"}, **more}


@pytest.mark.parametrize(
    ("path", "parameters", "places"),
    [
        ("/sacks/{sack}", [], {"sack": {"in": "path"}}),
        ("/{left}{right}", [in_path("left")], {"left": {"in": "path"}, "right": {"in": "path"}}),
        ("/{stem}.{suffix}", [], {"stem": {"in": "path"}, "suffix": {"in": "path"}}),
        ("/sacks/{sackId}", [in_path("SACK_ID")], {"SACK_ID": {"in": "path", "name": "sackId"}}),
        ("/files/{rest+}", [in_path("rest")], {"rest": {"in": "path", "name": "rest+"}}),
        ("/sacks/{sack:[0-9]+}", [], {"sack": {"in": "path", "name": "sack:[0-9]+"}}),
        ("/sacks/{sack}/{sack}", [], {"sack": {"in": "path"}}),
        ("/sacks/{sack}", [{"name": "sack", "in": "query", "style": "form"}], {"sack": {"in": "path"}}),
        ("/sacks/{sack}", [in_path("sack", required=False)], {"sack": {"in": "path"}}),
        ("/sacks/{sack}", [in_path("sack"), in_path("bin")], {"sack": {"in": "path"}}),
        ("/sacks/{sack}", [{"$ref": "parts.yaml#/sack"}], {"sack": {"in": "path"}}),
        ("/sacks?of={mill}", [], {"mill": {"in": "path"}}),
        (
            "/sacks/{sack}",
            [in_path("sack"), {"name": "sack", "in": "query"}],
            {"sack": {"in": "path"}, "sack_query": {"in": "query", "name": "sack"}},
        ),
    ],
)
def test_each_placeholder_of_a_path_is_a_required_argument(
    path: str, parameters: list[Any], places: dict[str, Any]
) -> None:
    tool = tool_at(path, {"parameters": parameters})
    assert http(tool)["parameters"] == places
    asked = schema(tool)
    assert set(asked["properties"]) == set(places)
    assert set(asked["required"]) == {name for name, place in places.items() if place["in"] == "path"}


def test_a_parameter_of_the_whole_path_fills_its_placeholder() -> None:
    tool = tool_at("/sacks/{sack}", {}, parameters=[in_path("sack")])
    assert schema(tool)["properties"] == {"sack": {"type": "integer"}}


def test_a_placeholder_of_swagger_2_that_nobody_declared_is_a_text() -> None:
    document = {"swagger": "2.0", "info": {"title": "Mill"}, "paths": {"/sacks/{sack}": {"delete": {}}}}
    intake = read(document)
    [tool] = intake.entries[0].tools
    assert schema(tool)["properties"]["sack"]["type"] == "string"
    assert schema(tool)["required"] == ["sack"]
    assert told(intake.cut) == {
        "/paths/~1sacks~1{sack}/delete": "parts of the path that no parameter declares are required texts: sack"
    }


SHARED = {
    "grind": {
        "operationId": "grind",
        "parameters": {"$ref": "#/x-shared/list"},
        "requestBody": {"$ref": "#/x-shared/sent"},
        "responses": {"$ref": "#/x-shared/answers"},
    },
    "list": [{"$ref": "#/x-shared/fine"}],
    "fine": {"name": "fine", "in": "query", "content": {"application/json": {"$ref": "#/x-shared/media"}}},
    "sent": {"required": True, "content": {"$ref": "#/x-shared/contents"}},
    "contents": {"application/json": {"$ref": "#/x-shared/media"}},
    "media": {"schema": {"$ref": "#/x-shared/grain"}},
    "grain": {"type": "object", "properties": {"kind": TEXT}, "required": ["kind"]},
    "answers": {"200": {"$ref": "#/x-shared/answer"}},
    "answer": {"content": {"application/json": {"$ref": "#/x-shared/media"}}},
    "turn": {"$ref": "#/x-shared/turn"},
    "through": {"$ref": "#/x-shared/grain"},
}


@pytest.mark.parametrize(
    "operation",
    [
        {"$ref": "#/x-shared/grind"},
        {"$ref": "mill.json#/x-shared/grind"},
        {"$ref": "./mill.json#/x-shared/grind"},
        SHARED["grind"],
    ],
)
def test_a_reference_within_the_document_is_followed_wherever_it_stands(operation: Any) -> None:
    document = {"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": {"/g": {"post": operation}}, "x-shared": SHARED}
    intake = read(document, "mill.json")
    assert (intake.rejected, intake.cut) == ([], [])
    [tool] = intake.entries[0].tools
    assert tool.name == "grind"
    assert set(schema(tool)["properties"]) == {"fine", "kind"}
    assert schema(tool)["required"] == ["kind"]
    assert json.loads(tool.output_schema)["properties"] == {"kind": TEXT}


def test_what_is_said_beside_a_reference_to_a_path_holds_too() -> None:
    paths = {"/g": {"$ref": "#/x-shared/item", "parameters": [{"name": "fine", "in": "query", "schema": TEXT}]}}
    document = {"openapi": "3.1.0", "info": {"title": "Mill"}, "paths": paths, "x-shared": {"item": {"put": {}}}}
    [tool] = read(document).entries[0].tools
    assert schema(tool)["properties"] == {"fine": TEXT}


def test_a_pointer_leads_through_references() -> None:
    operation = {"parameters": [{"name": "k", "in": "query", "schema": {"$ref": "#/x-shared/through/properties/kind"}}]}
    document = {"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": {"/g": {"get": operation}}, "x-shared": SHARED}
    intake = read(document)
    [tool] = intake.entries[0].tools
    [kind] = schema(tool)["$defs"].values()
    assert (kind, intake.cut) == (TEXT, [])


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"$ref": "parts/grind.yaml"}, "another document"),
        ({"$ref": "https://mills.example/x.json#/grind"}, "another document"),
        ({"$ref": "#/x-shared/gone"}, "does not hold"),
        ({"$ref": "#/x-shared/turn"}, "without end"),
        (None, "expected an operation object, found null"),
    ],
)
def test_an_operation_that_cannot_be_had_is_rejected_with_the_reason(operation: Any, reason: str) -> None:
    document = {"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": {"/g": {"put": operation}}, "x-shared": SHARED}
    intake = read(document)
    assert intake.entries[0].tools == ()
    [(_, said)] = told(intake.rejected).items()
    assert reason in said


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"get": {"parameters": {"a": TEXT}}}, "expected a list of parameters"),
        ({"post": {"requestBody": {"required": True}}}, "a body without `content`"),
        ({"get": {"parameters": [{"name": "X-HTTP-Method-Override", "in": "header"}]}}, "X-HTTP-Method-Override"),
        ({"get": {}, "additionalOperations": {"COPY": {}}}, "no method that is known here is left out: additional"),
        ({"get": {"parameters": [in_path("mill")]}}, "the path does not have are left out: mill"),
    ],
)
def test_what_is_dropped_is_said(item: Any, reason: str) -> None:
    intake = read({"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": {"/g": item}})
    assert len(intake.entries[0].tools) == 1
    [(_, said)] = told(intake.cut).items()
    assert reason in said


def test_methods_in_capitals_are_methods() -> None:
    intake = read({"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": {"/g": {"GET": {}, "Put": {}}}})
    assert [http(tool)["method"] for tool in intake.entries[0].tools] == ["GET", "PUT"]


def test_the_same_fault_in_hundreds_of_places_is_counted() -> None:
    paths = {f"/g{number}": {"get": {"$ref": f"parts/{number}.yaml"}} for number in range(321)}
    intake = read({"openapi": "3.0.3", "info": {"title": "Mill"}, "paths": paths})
    assert len(intake.rejected) == 21
    assert "at 301 more places" in intake.rejected[-1].reason


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ({"type": "string", "enum": [True, False]}, {"type": "string", "enum": ["true", "false"]}),
        ({"type": "string", "enum": [2, 2.5], "default": 2}, {"type": "string", "enum": ["2", "2.5"], "default": "2"}),
        ({"type": "string", "const": 7}, {"type": "string", "const": "7"}),
        ({"type": "integer", "enum": [2]}, {"type": "integer", "enum": [2]}),
        ({"type": ["string", "null"], "enum": [1, None]}, {"type": ["string", "null"], "enum": ["1", None]}),
    ],
)
def test_choices_of_a_text_that_want_quotes_are_texts(stated: Any, kept: Any) -> None:
    tool = tool_at("/g", {"parameters": [{"name": "p", "in": "query", "schema": stated}]})
    assert schema(tool)["properties"]["p"] == kept


GRAIN = {"type": "object", "properties": {"kind": TEXT, "weight": {"type": "number"}}}
EITHER = {"oneOf": [{"type": "object", "properties": {"kind": {"enum": [kind]}}} for kind in ("rye", "oat")]}


def faults(stated: Any, arguments: dict[str, Any]) -> dict[str, str]:
    operation = body_of(stated) | {"parameters": [{"name": "fine", "in": "query", "schema": TEXT}]}
    [tool] = read(document_with(operation)).entries[0].tools
    with pytest.raises(InvalidArguments) as caught:
        check_arguments(tool, arguments)
    return dict(caught.value.faults)


@pytest.mark.parametrize(
    ("stated", "arguments", "pointer", "parts"),
    [
        (GRAIN, {"knid": "rye"}, "/knid", ['did you mean "kind"']),
        (GRAIN, {"KIND": "rye"}, "/KIND", ['did you mean "kind"']),
        (GRAIN, {"Fine": "x"}, "/Fine", ['did you mean "fine"']),
        (GRAIN, {"body": {"kind": "rye"}}, "/body", ["by itself", '"kind"']),
        (EITHER, {"kind": "rye"}, "/kind", ['{"body": {"kind": …}}']),
        ({"$ref": "#/components/schemas/E"}, {"kind": "rye"}, "/kind", ['{"body": {"kind": …}}']),
        ({"type": "object"}, {"anything": 1}, "/anything", ['{"body": {"anything": …}}']),
        ({"allOf": [GRAIN, {"properties": {"age": {}}}]}, {"agee": 1}, "/agee", ['did you mean "age"']),
        ({**GRAIN, "additionalProperties": False}, {"colour": 1}, "/colour", ["is not known"]),
    ],
)
def test_an_argument_that_there_is_not_is_refused_with_what_to_do(
    stated: Any, arguments: dict[str, Any], pointer: str, parts: list[str]
) -> None:
    if "$ref" in stated:
        operation = body_of(stated)
        [tool] = read(document_with(operation, components={"schemas": {"E": EITHER}})).entries[0].tools
        with pytest.raises(InvalidArguments) as caught:
            check_arguments(tool, arguments)
        found = dict(caught.value.faults)
    else:
        found = faults(stated, arguments)
    assert all(part in found[pointer] for part in parts), found


@pytest.mark.parametrize(
    "stated",
    [
        {**GRAIN, "additionalProperties": True},
        {**GRAIN, "additionalProperties": TEXT},
        {"allOf": [GRAIN, {"type": "object", "additionalProperties": {}}]},
        {**GRAIN, "patternProperties": {"^x-": {}}},
    ],
)
def test_a_body_that_allows_other_fields_takes_them(stated: Any) -> None:
    [tool] = read(document_with(body_of(stated))).entries[0].tools
    check_arguments(tool, {"kind": "rye", "x-mark": "blue"})


LONG = {"type": "string", "description": "Says at length what may stand in this field of the form. " * 3}
MANY = {f"field_{number:03}": LONG for number in range(300)}


def large(stated: Any, media: str = "application/json") -> tuple[dict[str, Any], list[str]]:
    intake = read(document_with(body_of(stated, media)))
    [tool] = intake.entries[0].tools
    return schema(tool), [cut.reason for cut in intake.cut]


@pytest.mark.parametrize(
    ("stated", "media"),
    [
        ({"type": "object", "properties": MANY, "required": ["field_299"]}, "application/json"),
        ({"type": "object", "properties": MANY, "required": ["field_299"]}, "application/x-www-form-urlencoded"),
        ({"type": "object", "properties": MANY, "required": ["field_299"]}, "multipart/form-data"),
        (
            {
                "allOf": [
                    {"type": "object", "properties": dict(list(MANY.items())[at : at + 100])} for at in (0, 100, 200)
                ],
                "required": ["field_299"],
            },
            "application/json",
        ),
    ],
)
def test_a_large_body_keeps_its_names_and_what_is_required_whole(stated: Any, media: str) -> None:
    made, reasons = large(stated, media)
    assert set(made["properties"]) == set(MANY)
    assert made["required"] == ["field_299"]
    assert made["properties"]["field_299"] == LONG
    assert {each["type"] for each in made["properties"].values()} == {"string"}
    assert len(json.dumps(made)) < 2 * MAX_SCHEMA_CHARS
    assert [reason.partition(":")[0] for reason in reasons] == [
        "schemas of arguments are shortened, since 12000 characters are kept"
    ]


def test_of_endless_names_the_required_ones_are_kept_and_the_others_may_still_be_given() -> None:
    names = {f"a_rather_long_name_of_a_field_{number}": TEXT for number in range(3000)}
    made, reasons = large({"type": "object", "properties": names, "required": ["a_rather_long_name_of_a_field_2999"]})
    assert "a_rather_long_name_of_a_field_2999" in made["properties"]
    assert 100 < len(made["properties"]) < 1000
    assert "additionalProperties" not in made
    assert any(str(3000 - len(made["properties"])) in reason for reason in reasons)


def test_a_long_list_of_parameters_keeps_its_names() -> None:
    parameters = [
        {"name": name, "in": "query", "schema": each, "required": name == "field_299"} for name, each in MANY.items()
    ]
    made = schema(tool_at("/g", {"parameters": parameters}))
    assert set(made["properties"]) == set(MANY)
    assert made["properties"]["field_299"] == LONG


def test_a_deep_body_keeps_what_is_near() -> None:
    deep: dict[str, Any] = LONG
    for level in range(40):
        deep = {"type": "object", "properties": {f"in_{level}": deep, f"by_{level}": LONG, f"at_{level}": LONG}}
    made, reasons = large(deep)
    assert set(made["properties"]) == {"in_39", "by_39", "at_39"}
    assert set(made["properties"]["in_39"]["properties"]) == {"in_38", "by_38", "at_38"}
    assert reasons


def test_of_very_many_choices_some_are_shown_and_all_are_taken() -> None:
    choices = [f"a choice of number {number}" for number in range(2000)]
    stated = {"type": "object", "properties": {"choice": {"type": "string", "enum": choices}}}
    made, reasons = large(stated)
    assert made["properties"]["choice"] == {"type": "string", "examples": choices[:3]}
    assert reasons


def test_a_large_schema_that_is_referred_to_keeps_its_names() -> None:
    stated = {"type": "object", "properties": {"form": {"$ref": "#/components/schemas/Form"}}}
    form = {"type": "object", "properties": MANY, "required": ["field_299"]}
    [tool] = read(document_with(body_of(stated), components={"schemas": {"Form": form}})).entries[0].tools
    kept = schema(tool)["$defs"]["Form"]
    assert set(kept["properties"]) == set(MANY)
    assert kept["required"] == ["field_299"]


def test_the_shortened_takes_whatever_the_whole_takes() -> None:
    branches = [
        {"type": "object", "properties": {"kind": {"const": kind}, **MANY}, "required": ["kind"]}
        for kind in ("rye", "oat")
    ]
    stated = {"type": "array", "items": {"oneOf": branches, "additionalProperties": False}}
    intake = read(document_with(body_of(stated)))
    [tool] = intake.entries[0].tools
    assert intake.cut
    check_arguments(tool, {"body": [{"kind": "rye", "field_001": "x"}]})
