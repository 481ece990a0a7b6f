"""No value leaves its place in a request, whatever it is and in whichever style."""

from typing import Any
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from waygraph.ingest.execution.call_openapi import Fault, Operation, in_cookie, in_header, in_query, parameter_of
from waygraph.ingest.execution.services import Login, Service

TEXTS = st.text() | st.sampled_from(
    ["..", ".", "../..", "/etc", "//evil.com", "a?b=c", "a#b", "\r\nX: y", "%2e%2e", "@evil"]
)
SCALARS = TEXTS | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none()
VALUES = SCALARS | st.lists(SCALARS, max_size=4) | st.dictionaries(TEXTS, SCALARS, max_size=4)
SERVICE = Service(agent="a", base_url="https://shop.example.com/v1")
HOW = {
    "explode": st.booleans(),
    "allowReserved": st.booleans(),
    "collectionFormat": st.sampled_from(["csv", "ssv", "tsv", "pipes", "multi"]),
    "content": st.just("application/json"),
}


def how(*styles: str) -> Any:
    return st.fixed_dictionaries({}, optional={"style": st.sampled_from(styles), **HOW})


@given(st.tuples(VALUES, VALUES), how("simple", "label", "matrix", "form", "nonsense"), st.booleans())
def test_a_path_keeps_its_parts(values: tuple[Any, Any], told: dict[str, Any], swagger: bool) -> None:
    """Host, number of parts and what stands between are the operation's; a part never is `.` or `..`."""
    parameters = {name: {"in": "path", **told} for name in ("a", "b")}
    http = {"method": "GET", "path": "/pets/{a}-{b}/owner", "parameters": parameters}
    operation = Operation(http=http, properties={}, swagger=swagger)
    try:
        request = operation.request(dict(zip("ab", values, strict=True)), SERVICE, Login())
    except Fault:
        return
    assert request.url.startswith("https://shop.example.com/v1/pets/")
    assert request.url.isascii()
    parts = request.url.split("/")
    assert parts[3:5] + parts[6:] == ["v1", "pets", "owner"]
    assert unquote(parts[5]) not in (".", "..")
    assert not set("?#") & set(request.url)


@given(VALUES, how("form", "spaceDelimited", "pipeDelimited", "deepObject", "nonsense"), st.booleans())
def test_a_query_s_parts_hold_no_mark_of_another(value: Any, told: dict[str, Any], swagger: bool) -> None:
    """Nothing ends the query, or begins another parameter, that is no part of ours."""
    for part in in_query(parameter_of("q", {"in": "query", **told}, swagger=swagger), value):
        assert part.isascii()
        assert not set("&# \r\n") & set(part)
        assert part.count("=") == 1


@given(VALUES, how("simple"))
def test_a_header_stays_on_its_line(value: Any, told: dict[str, Any]) -> None:
    try:
        text = in_header(parameter_of("X", {"in": "header", **told}, swagger=False), value)
    except Fault:
        return
    assert text.isascii()
    assert text == "" or text.isprintable()


@given(VALUES, how("form"))
def test_a_cookie_s_value_begins_no_other(value: Any, told: dict[str, Any]) -> None:
    for _, text in in_cookie(parameter_of("c", {"in": "cookie", **told}, swagger=False), value):
        assert text.isascii()
        assert not set("; =\r\n\t") & set(text)
