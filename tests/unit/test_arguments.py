"""Arguments against a tool's schema: what was expected and where, whatever either side sends."""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.gateway_catalog import ISSUE
from tests.http_doubles import serving
from waygraph.registry.model.arguments import MAX_DEPTH, MAX_FAULTS, MAX_SCHEMA_CHARS, check_arguments, mend_arguments
from waygraph.registry.model.errors import InvalidArguments
from waygraph.registry.model.nouns import Tool


def with_schema(schema: object) -> Tool:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return Tool(id="a/b", agent_id="a", name="b", call_name="a__b", input_schema=text)


def faults(schema: object, arguments: object) -> dict[str, str]:
    """Place → what was expected; nothing where the arguments fit."""
    try:
        check_arguments(with_schema(schema), arguments)
    except InvalidArguments as wrong:
        return dict(wrong.faults)
    return {}


def test_every_fault_is_told_with_its_place() -> None:
    wrong = {"title": 7, "labels": ["a", 2], "state": "opened"}
    assert faults(ISSUE, wrong) == {
        "/labels/1": "expected string, not integer",
        "/repo": "is required (string)",
        "/state": 'must be one of "open", "closed"',
        "/title": "expected string, not integer",
    }
    assert faults(ISSUE, {"repo": "a/b", "title": "t", "labels": [], "more": 1}) == {}


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": ["integer", "null"]}, "x", "expected integer or null, not string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "expected integer or null, not string"),
        ({"minimum": 3}, 2, "must be at least 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2"),
        ({"minLength": 2}, "a", "characters needed, at least: 2"),
        ({"maxItems": 1}, [1, 2], "items allowed, at most: 1"),
        ({"const": "a"}, "b", 'must be "a"'),
        ({"pattern": "^[a-z]+$"}, "A", 'must match the pattern "^[a-z]+$"'),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "must not hold the same item twice"),
        ({"not": {"type": "string"}}, "x", "is what the schema excludes"),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 0, "must be at least 1"),
        (False, 1, "is not taken"),
        ({"$ref": "#/$defs/n"}, "x", "expected number, not string"),
    ],
)
def test_each_keyword_says_what_it_wants(schema: object, value: object, told: str) -> None:
    whole = {"properties": {"p": schema}, "$defs": {"n": {"type": "number"}}}
    assert faults(whole, {"p": value}) == {"/p": told}


LIST = {"type": "array", "items": {"type": "integer"}}
MENDED: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "integer"}, "12", 12),
    ({"type": "integer"}, "12.0", 12),
    ({"type": "number"}, "1.5", 1.5),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "False", False),
    (LIST, "[1, 2]", [1, 2]),
    (LIST, ["1", 2], [1, 2]),
    ({"type": "object", "properties": {"n": {"type": "number"}}}, '{"n": "2"}', {"n": 2}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
    ({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "true", True),
    ({"$ref": "#/$defs/n"}, "7", 7),
    ({"enum": [1, 2]}, "2", 2),
    ({"type": ["array", "null"]}, "null", None),
    ({"type": "string"}, 12, "12"),
    ({"type": "string"}, True, "true"),
]
KEPT: list[tuple[dict[str, Any], Any]] = [
    ({"type": "string"}, "12"),
    ({"type": ["string", "integer"]}, "12"),
    ({}, "12"),
    ({}, None),
    ({"anyOf": [{"type": "integer"}, {}]}, "12"),
    ({"type": "integer"}, "twelve"),
    ({"type": "integer"}, "1.5"),
    ({"type": "boolean"}, "yes"),
    ({"type": "boolean"}, 1),
    (LIST, "1, 2"),
    ({"type": ["integer", "null"]}, None),
]


@pytest.mark.parametrize(("schema", "value", "meant"), MENDED)
def test_a_value_is_read_as_the_one_type_that_the_schema_leaves_it(
    schema: dict[str, Any], value: Any, meant: Any
) -> None:
    tool = with_schema({"properties": {"p": schema}, "$defs": {"n": {"type": "number"}}})
    arguments, changes = mend_arguments(tool, {"p": value})
    assert arguments == {"p": meant}
    assert type(arguments["p"]) is type(meant)
    assert changes
    assert all(place.startswith("/p") and was != now for place, was, now in changes)


@pytest.mark.parametrize(("schema", "value"), KEPT)
def test_a_value_of_which_the_schema_says_no_other_meaning_stays(schema: dict[str, Any], value: Any) -> None:
    assert mend_arguments(with_schema({"properties": {"p": schema}}), {"p": value}) == ({"p": value}, ())


def test_null_is_left_out_where_it_is_not_taken_and_nothing_is_required() -> None:
    text = {"type": "string"}
    tool = with_schema({"properties": {"a": text, "b": text, "c": {"type": "object"}}, "required": ["b"]})
    assert mend_arguments(tool, {"a": None, "b": None, "c": None, "d": None}) == (
        {"b": None, "d": None},
        (("/a", "null", "nothing"), ("/c", "null", "nothing")),
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"oneOf": [{"enum": ["CREW"]}, {"type": "string"}]}, "CREW"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 3),
        ({"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}]}, {"a": 1}),
        ({"anyOf": [{"type": "integer"}], "oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3),
        ({"properties": {"oneOf": {"oneOf": [{"type": "integer"}, {"minimum": 1}]}}}, {"oneOf": 3}),
        ({"items": {"$ref": "#/properties/p/oneOf/0/x"}, "oneOf": [{"x": {"type": "string"}}, {}]}, ["a"]),
        ({"not": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, 3),
    ],
)
def test_a_value_may_fit_several_alternatives(schema: object, value: object) -> None:
    """Services do not count how many fit. Where alternatives stand under `not`, they are counted: fewer are refused."""
    assert faults({"properties": {"p": schema}}, {"p": value}) == {}


def test_of_alternatives_the_nearest_is_told() -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    schema = {"properties": {"at": {"anyOf": [{"type": "string"}, point]}}}
    assert faults(schema, {"at": {"x": "1"}}) == {"/at/x": "expected number, not string"}


def test_an_unknown_name_is_told_with_the_one_that_was_meant() -> None:
    schema = {"properties": {"title": {}, "body": {}}, "additionalProperties": False}
    assert faults(schema, {"tilte": "x"}) == {"/tilte": 'is not known; known: "title", "body"; did you mean "title"?'}
    by_pattern = {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}
    assert faults(by_pattern, {"x-a": 1, "x-b": "s", "y": 1}) == {
        "/x-b": "expected integer, not string",
        "/y": "is not taken",
    }
    assert faults({"additionalProperties": {"type": "integer"}}, {"a": "s"}) == {"/a": "expected integer, not string"}


def test_places_are_json_pointers() -> None:
    schema = {"properties": {"a/b~c": {"items": {"type": "string"}}}}
    assert faults(schema, {"a/b~c": [1]}) == {"/a~1b~0c/0": "expected string, not integer"}


def test_no_value_is_repeated() -> None:
    """It may be a secret, and errors are logged; the names of the arguments are not."""
    schema = {"properties": dict(strict_schemas()), "additionalProperties": False}
    with pytest.raises(InvalidArguments) as caught:
        check_arguments(with_schema(schema), {name: "hunter2-secret" for name, _ in strict_schemas()})
    assert len(caught.value.faults) == len(strict_schemas())
    assert "hunter2" not in str(caught.value)


def strict_schemas() -> list[tuple[str, dict[str, Any]]]:
    return [
        ("a", {"type": "integer"}),
        ("b", {"enum": ["x"]}),
        ("c", {"const": 1}),
        ("d", {"pattern": "^x$"}),
        ("e", {"maxLength": 2}),
        ("f", {"not": {}}),
        ("g", {"anyOf": [{"minLength": 99}, {"type": "null"}]}),
    ]


def test_few_faults_of_many_are_told() -> None:
    schema = {"properties": {f"p{n:03}": {"type": "string"} for n in range(100)}}
    told = faults(schema, {f"p{n:03}": n for n in range(100)})
    assert list(told) == [f"/p{n:03}" for n in range(MAX_FAULTS)]


@pytest.mark.parametrize("arguments", [None, [], "x", 3, [("a", 1)]])
def test_arguments_are_an_object(arguments: object) -> None:
    [(place, told)] = faults("{}", arguments).items()
    assert place == ""
    assert told.startswith("expected an object, not ")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, b"x"])
def test_what_json_has_not_is_refused(value: object) -> None:
    assert faults("{}", {"a": [value]}) == {"": "holds a value that JSON does not have"}


def test_deep_arguments_are_refused() -> None:
    """Deeper ones than any tool takes, also where the schema would follow them down."""
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"child": deep}
    schema = {"properties": {"child": {"$ref": "#"}}}
    assert faults(schema, deep) == {"": f"values are nested deeper than {MAX_DEPTH} levels"}


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "no json",
        "[1]",
        "true",
        '"x"',
        "[" * 100_000,
        {"type": "strin"},
        {"type": "array"},
        {"properties": []},
        {"properties": {"a": {"type": 7}}},
        {"required": "a"},
        {"$schema": 7},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$dynamicRef": "#x"},
        {"$schema": "http://json-schema.org/draft-03/schema#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"pattern": "(?=x)"}}},
        {"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}},
        {"properties": {"a": {"pattern": r"(\p{L}{50}){50}"}}},
        {"properties": {"a": {"multipleOf": 1e-320}}},
        {"$id": "::::", "$ref": "x"},
        {"x": "y" * MAX_SCHEMA_CHARS, "required": ["z"]},
    ],
    ids=lambda schema: str(schema)[:40],
)
def test_a_schema_that_cannot_be_checked_with_stops_no_call(schema: object) -> None:
    """The tool's server checks again; the library's errors stay inside."""
    assert faults(schema, {"a": "aaaa", "b": 10**400}) == {}


def test_beside_what_cannot_be_checked_the_rest_is() -> None:
    """A reference elsewhere, or a pattern of another engine, makes one place uncheckable, not all."""
    schema = {
        "properties": {
            "a": {"$ref": "http://127.0.0.1:9/x.json"},
            "b": {"type": "string", "pattern": "(?<!x)y"},
            "d": {"pattern": r"\p{Nowhere}(?<=a"},
            "c": {"type": "integer"},
        }
    }
    assert faults(schema, {"a": 1, "b": 2, "c": "x", "d": "y"}) == {
        "/b": "expected string, not integer",
        "/c": "expected integer, not string",
    }


def test_no_reference_is_fetched() -> None:
    asked: list[str] = []

    class Listening(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with serving(Listening) as place:
        for keyword in ("$ref", "$schema", "$dynamicRef", "$id"):
            assert faults({keyword: f"{place}/{keyword}", "properties": {"a": {"$ref": "x.json"}}}, {"a": 1}) == {}
    assert asked == []


def chain(length: int, last: object, fork: int = 2) -> dict[str, Any]:
    """Alternatives of alternatives: fork ** length ways."""
    defs: dict[str, Any] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * fork} for n in range(length)}
    return {"$defs": {**defs, f"a{length}": last}, "properties": {"p": {"$ref": "#/$defs/a0"}, "q": {"type": "null"}}}


@pytest.mark.parametrize(
    ("pattern", "fits", "unfit"),
    [
        ("^[0-9a-f]{8}-[0-9a-f]{4}$", "0123abcd-ef01", "0123abcd"),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-01-02", "2026-1-2"),
        (r"^[\w.-]{1,64}$", "grosse.x-y", "a b"),
        (r"^[^\s@]+@[^\s@]+\.[a-z]{2,}$", "a@b.org", "a@b"),
        (r"\p{Lu}{2,3}", "abCD", "abC"),
        ("^\\/x$", "/x", "x"),
        ("b", "abc", "ac"),
    ],
)
def test_common_patterns_are_checked(pattern: str, fits: str, unfit: str) -> None:
    schema = {"properties": {"p": {"pattern": pattern}}}
    assert faults(schema, {"p": fits}) == {}
    assert list(faults(schema, {"p": unfit})) == ["/p"]


def of_all(keywords: dict[str, object]) -> object:
    """A schema of a few kilobytes that looks at an argument 300 times."""
    return {"properties": {"p": {"allOf": [{**keywords, "$comment": str(n)} for n in range(300)]}}}


def deep_chain(length: int) -> object:
    """So many subschemas within each other for one value, and then the document again."""
    schema: object = {"$ref": "#"}
    for n in range(length):
        schema = {"allOf": [schema]} if n < 40 else schema
    return schema


def nested(levels: int) -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"c": deep}
    return deep


REPEATING = {"pattern": "^(a+)+$"}
LONG = "a" * 30_000
BOMB = {"/p": 'must match the pattern "^(a+)+$"'}
IN_Q = {"/q/p": BOMB["/p"]}
DRAFT_7, DRAFT_4 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (7, 4))


HEAVY: dict[str, tuple[object, dict[str, Any], dict[str, str]]] = {
    "alternatives": (chain(60, {"type": "string"}), {"p": 1}, {}),
    "pattern": ({"properties": {"p": REPEATING}}, {"p": LONG + "b"}, BOMB),
    "heavy patterns": (
        {"properties": {"p": {"allOf": [{"pattern": f"|{n}" + r"\p{L}{90}"} for n in range(900)]}}},
        {"p": "x"},
        {},
    ),
    "pattern of names": ({"patternProperties": {"^(a+)+$": False}}, {LONG + "b": 1}, {}),
    "unique": ({"properties": {"p": {"uniqueItems": True}}}, {"p": [{"n": n} for n in range(50_000)]}, {}),
    "choices": ({"properties": {"p": {"items": {"enum": [*range(10_000)]}}}}, {"p": [*range(10_000), -1]}, {}),
    "items": ({"properties": {"p": {"items": {"type": "integer"}}}}, {"p": [1] * 200_000 + ["x"]}, {}),
    "another dialect further in": ({"properties": {"p": {"$schema": DRAFT_7, **REPEATING}}}, {"p": LONG + "b"}, BOMB),
    "a way back to a dialect": (
        {"$schema": DRAFT_7, "properties": {"p": REPEATING, "q": {"$ref": "#"}}},
        {"q": {"p": LONG + "b"}},
        IN_Q,
    ),
    "choices that are compared with each other": (
        {"$schema": DRAFT_4, "properties": {"p": {"enum": [n if n % 2 else [n] for n in range(30_000)]}}},
        {},
        {},
    ),
    "heavy pattern and long text": ({"properties": {"p": {"pattern": "(a{100}){99}b"}}}, {"p": "a" * 100_000}, {}),
    "unique many times": (of_all({"uniqueItems": True}), {"p": [*range(100_000)]}, {}),
    "a long text written many times": (of_all({"uniqueItems": True}), {"p": ["x" * 1_000_000]}, {}),
    "contains many times": (of_all({"contains": False, "minContains": 0}), {"p": [*range(100_000)]}, {}),
    "items many times": (of_all({"items": {}}), {"p": [*range(100_000)]}, {}),
    "names many times": (of_all({"additionalProperties": True}), {"p": {f"n{n}": n for n in range(50_000)}}, {}),
    "patterns of names many times": (
        of_all({"patternProperties": {"^a": {}}}),
        {"p": {f"n{n}": n for n in range(50_000)}},
        {},
    ),
    "pattern many times": (of_all({"pattern": "b$|x"}), {"p": "a" * 1_000_000 + "x"}, {}),
    "references that fill the stack": (
        {"$defs": {"a": {"properties": {"c": deep_chain(1_000)}}}, "$ref": "#/$defs/a"},
        nested(99),
        {},
    ),
    "alternatives under a name of their own": (
        {"$defs": {"x": {"$id": "http://a/b", **chain(60, False)}}, "$ref": "http://a/b"},
        {"p": 1},
        {},
    ),
}


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.timeout(20)
def test_a_check_ends(name: str) -> None:
    """Where the library alone would take minutes or years; what comes after the last step is not checked."""
    schema, arguments, told = HEAVY[name]
    assert faults(schema, arguments) == told


def test_no_value_is_repeated_whatever_dialect_a_part_names() -> None:
    said = faults({"properties": {"p": {"$schema": DRAFT_7, "pattern": "^b", "required": ["x"]}}}, {"p": "s3cret"})
    assert said == {"/p": 'must match the pattern "^b"'}


def test_a_name_that_is_not_known_is_told_among_hundreds() -> None:
    names: dict[str, object] = {f"{number:06d}abcdefghijklmn": {} for number in range(500)}
    given = {f"{number:06d}abcdefghijklnm": 1 for number in range(100_000, 100_040)}
    assert len(faults({"properties": names, "additionalProperties": False}, given)) == MAX_FAULTS


def test_a_long_text_is_matched_by_its_pattern() -> None:
    assert faults({"properties": {"p": REPEATING}}, {"p": LONG}) == {}


@pytest.mark.parametrize("draft", ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"])
def test_every_draft_is_checked(draft: str) -> None:
    address = (
        f"https://json-schema.org/draft/{draft}/schema"
        if draft[0] == "2"
        else f"http://json-schema.org/{draft}/schema#"
    )
    schema = {"$schema": address, "properties": {"a": {"type": "integer"}}}
    assert faults(schema, {"a": "x"}) == {"/a": "expected integer, not string"}
    assert faults(schema, {"a": 1}) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = (
    "type properties required items enum const anyOf oneOf allOf not pattern patternProperties additionalProperties "
    "minimum maximum multipleOf minLength uniqueItems $ref $defs definitions if then else contains dependentRequired "
    "propertyNames $dynamicRef $anchor $id unevaluatedProperties prefixItems dependentSchemas format minContains"
).split()
VALUES = json_values | st.sampled_from(
    ["string", "object", "integer", "#", "#/$defs/a", "(a+)+$", "^a", "a", 0, -1, 1e308]
)
schemas = st.recursive(
    VALUES,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS) | st.sampled_from(["a", "b"]), inner, max_size=4)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=12,
)


@given(schema=st.dictionaries(st.sampled_from(KEYWORDS), schemas, max_size=5), arguments=json_values)
def test_nothing_but_invalid_arguments_is_raised(schema: object, arguments: object) -> None:
    """Whatever the schema is and whatever is sent; and what is told is short and has a place."""
    told = faults(schema, arguments)
    assert len(told) <= MAX_FAULTS
    assert all((place == "" or place.startswith("/")) and words for place, words in told.items())
    assert list(told) == sorted(told)


NAMES = st.sampled_from(["a", "b", "c"])
sound_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
sound_schemas = st.recursive(
    st.booleans()
    | st.sampled_from(["string", "integer", "object", "array", "null", "boolean"]).map(lambda kind: {"type": kind})
    | st.fixed_dictionaries({}, optional={"minimum": st.integers(-2, 2), "maxLength": st.integers(0, 2)})
    | st.lists(sound_values, min_size=1, max_size=3).map(lambda choices: {"enum": choices})
    | st.sampled_from([{"pattern": "^a"}, {"pattern": "b$"}, {"uniqueItems": True}, {"$ref": "#/$defs/a"}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b", "c$"]), inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "propertyNames": inner,
            "minProperties": st.integers(0, 2),
        },
    ),
    max_leaves=8,
)


@given(
    schema=sound_schemas.filter(lambda schema: isinstance(schema, dict)),
    referred=sound_schemas.filter(lambda schema: "$ref" not in str(schema)),
    arguments=st.dictionaries(NAMES, sound_values, max_size=3),
)
def test_sound_schemas_are_judged_as_the_library_judges_them(
    schema: dict[str, Any], referred: object, arguments: dict[str, Any]
) -> None:
    """Our own keywords and bounds change what is told, never whether arguments fit."""
    whole = schema | {"$defs": {"a": referred}, "type": "object"}
    assert bool(faults(whole, arguments)) == (not Draft202012Validator(whole).is_valid(arguments))
