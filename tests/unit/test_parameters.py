"""The parameters of a schema, however its top composes them, and their names as hosts take them."""

import json
import time
from typing import Any

import pytest

from waygraph.registry.catalog.tool_formats import parameters
from waygraph.registry.embedding.texts import parameter_text
from waygraph.registry.model.parameters import (
    MOST_NAME_CHARS,
    MOST_READ,
    host_names,
    lay_flat,
    original_arguments,
    parameters_of,
    parameters_of_text,
    rename_properties,
)

TEXT = {"type": "string"}
DRAWN = str.maketrans("01", "\N{SNOWMAN}\N{UMBRELLA}")


def object_of(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        (object_of("a", "b", required=("b",)), "a b", "b"),
        ({"anyOf": [object_of("a", required=("a",)), object_of("b", required=("b",))]}, "a b", ""),
        ({"oneOf": [object_of("a", "k", required=("a", "k")), object_of("b", "k", required=("k",))]}, "a k b", "k"),
        ({"allOf": [object_of("a", required=("a",)), object_of("b", required=("b",))]}, "a b", "a b"),
        ({"allOf": [{"anyOf": [object_of("a"), {"allOf": [object_of("b"), object_of("c")]}]}]}, "a b c", ""),
        ({**object_of("a", "b"), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "a b", ""),
        ({**object_of("a"), "allOf": [{"required": ["a"]}]}, "a", "a"),
        ({"$ref": "#/$defs/In", "$defs": {"In": object_of("a", required=("a",))}}, "a", "a"),
        ({"$ref": "#/definitions/x~1y", "definitions": {"x/y": object_of("a")}}, "a", ""),
        ({"anyOf": [object_of("a", required=("a",)), {"type": "null"}]}, "a", "a"),
        ({**object_of("a"), "if": {}, "then": object_of("b", required=("b",)), "else": object_of("c")}, "a b c", ""),
        ({**object_of("a"), "dependentSchemas": {"a": object_of("b", required=("b",))}}, "a b", ""),
        ({"properties": {"yes": True, "no": False}, "allOf": [object_of("yes")]}, "yes no", ""),
        ({"$ref": "#", **object_of("a")}, "a", ""),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, object_of("a")]}}}, "a", ""),
        ({"$ref": "https://example.com/x", **object_of("a")}, "a", ""),
        ({"anyOf": 3, "allOf": {}, "oneOf": [4, None], "$ref": 5, "required": "a", **object_of("a")}, "a", ""),
        (True, "", ""),
    ],
)
def test_parameters_are_those_of_all_that_composes_them(schema: Any, properties: str, required: str) -> None:
    found = parameters_of(schema)
    assert list(found.properties) == properties.split()
    assert found.required == set(required.split())


def test_the_summary_and_the_index_tell_what_is_composed() -> None:
    branches = [
        {"properties": {"kind": {"const": "harbour"}, "name": {"$ref": "#/$defs/Name"}}, "required": ["kind", "name"]},
        {"properties": {"kind": {"const": "buoy"}, "number": {"type": "integer"}}, "required": ["kind"]},
    ]
    unit = {"allOf": [{"$ref": "#/$defs/Unit"}], "description": "of depth"}
    names = {"type": "array", "items": {"$ref": "#/$defs/Name"}}
    schema = json.dumps(
        {
            "oneOf": branches,
            "properties": {"unit": unit, "names": names, "either": {"anyOf": [{"$ref": "#/$defs/Name"}, names]}},
            "$defs": {"Unit": {"enum": ["m", "ft"]}, "Name": {"type": "string"}},
        }
    )
    assert parameters(schema) == (
        'kind: "harbour"|"buoy", unit?: "m"|"ft", names?: string[], either?: string|string[], name?: string, '
        "number?: integer"
    )
    assert parameter_text(schema) == "unit (of depth), names, either, kind, name, number"


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '"x"', "[" * 100_000])
def test_what_is_no_schema_has_no_parameters(text: str) -> None:
    assert not parameters_of_text(text).properties


def fan(levels: int) -> dict[str, Any]:
    """Of two to the power of `levels` ways."""
    defs = {f"l{at}": {"anyOf": [{"$ref": f"#/$defs/l{at + 1}"}] * 2} for at in range(levels)}
    return {"$ref": "#/$defs/l0", "$defs": {**defs, f"l{levels}": object_of("a")}}


def wide(count: int) -> dict[str, Any]:
    return {"anyOf": [object_of(f"p{at}") for at in range(count)]}


def test_work_is_bounded_whatever_the_schema() -> None:
    """As many ways as there may be, and more alternatives than are read."""
    assert list(parameters_of(fan(40)).properties) in (["a"], [])
    assert len(parameters_of(wide(MOST_READ)).properties) <= MOST_READ
    assert len(parameters_of_text(json.dumps(wide(2_000))).properties) == 2_000
    deep: dict[str, Any] = object_of("a")
    for _ in range(400):
        deep = {"allOf": [deep]}
    assert parameters_of(deep).properties == {}


@pytest.mark.parametrize(
    "make",
    [
        lambda count: object_of(*(f"{at} \N{SNOWMAN}" for at in range(count))),
        lambda count: object_of(*(f"{at:b}".translate(DRAWN) for at in range(count))),
        wide,
    ],
    ids=["names", "names that become one", "alternatives"],
)
def test_twice_the_schema_takes_about_twice_the_time(make: Any) -> None:
    def least_s(count: int) -> float:
        text = json.dumps(make(count))
        times = []
        for number in range(3):
            began = time.process_time()
            host_names(f"{text}{' ' * number}")
            lay_flat(json.loads(text))
            times.append(time.process_time() - began)
        return min(times)

    assert least_s(4_000) < 6 * max(least_s(2_000), 0.002)


def test_names_that_hosts_refuse_have_others_and_come_back() -> None:
    """Nested ones too; a name that is legal stays, whatever would become it."""
    long = "x" * 80
    schema = {
        "properties": {
            "since>": TEXT,
            "ids[]": {"type": "array", "items": {"$ref": "#/$defs/One"}},
            "ids": {"$ref": "#/properties/since>"},
            "": {"anyOf": [object_of("a b"), {"type": "null"}]},
            long: {"type": "object", "additionalProperties": TEXT},
        },
        "required": ["since>", long],
        "dependentRequired": {"since>": ["ids[]"]},
        "$defs": {"One": object_of("$top", "a.b-c_d")},
    }
    text = json.dumps(schema)
    names = host_names(text)
    assert names == {"since>": "since", "ids[]": "ids_2", "": "_", long: "x" * 64, "a b": "a_b", "$top": "top"}
    told = rename_properties(schema, names)
    assert list(told["properties"]) == ["since", "ids_2", "ids", "_", "x" * 64]
    assert told["properties"]["ids"] == {"$ref": "#/properties/since"}
    assert (told["required"], told["dependentRequired"]) == (["since", "x" * 64], {"since": ["ids_2"]})
    assert list(told["$defs"]["One"]["properties"]) == ["top", "a.b-c_d"]
    called = {"since": "s", "ids_2": [{"top": 1}], "ids": "i", "_": {"a_b": 2}, "x" * 64: {"since": 3}, "free": 4}
    back = {"since>": "s", "ids[]": [{"$top": 1}], "ids": "i", "": {"a b": 2}, long: {"since": 3}, "free": 4}
    assert original_arguments(text, called) == back
    assert original_arguments(text, back) == back


def test_equal_names_become_different_ones_of_legal_length() -> None:
    names = host_names(json.dumps(object_of(*(f"{'y' * 70}{mark}" for mark in "!?%"), "y" * MOST_NAME_CHARS)))
    assert len({*names.values(), "y" * MOST_NAME_CHARS}) == 4
    assert max(map(len, names.values())) == MOST_NAME_CHARS


def test_a_schema_of_legal_names_is_called_as_it_is() -> None:
    text, arguments = json.dumps(object_of("a")), {"a": [{"b c": 1}]}
    assert original_arguments(text, arguments) is arguments
