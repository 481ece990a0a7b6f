"""OpenAPI 3 and Swagger 2: documents that are large, real, or hostile."""

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
    http,
    manifest_of,
    read,
    schema,
    written_call,
)
from waygraph.ingest.sources.formats import openapi
from waygraph.ingest.sources.formats.openapi_schemas import MAX_SCHEMA_CHARS
from waygraph.ingest.sources.yaml_text import parse


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
