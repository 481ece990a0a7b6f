"""Operations as they are called: by a real service that says what it got, at the address that an operator wrote."""

import gzip
import json
import socket
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tests.calling.opened_here import Here
from tests.web_pages import WebPages, web_pages
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import open_executor
from waygraph.ingest.upstream.connection import MayHaveRun, Result
from waygraph.registry.model.errors import (
    InvalidArguments,
    InvalidSetting,
    NotCallable,
    UpstreamBusy,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnreachable,
)
from waygraph.registry.model.nouns import Tool

TOKEN = "s3cret-bearer-token"  # noqa: S105


def echo(handler: BaseHTTPRequestHandler) -> None:
    """Says as JSON what it got."""
    body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    said = {
        "method": handler.command,
        "path": handler.path,
        "headers": {name.lower(): value for name, value in handler.headers.items()},
        "body": body.decode("latin-1"),
    }
    answer(handler, 200, "application/json", json.dumps(said).encode())


def answer(handler: BaseHTTPRequestHandler, status: int, media: str, content: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": media, "Content-Length": str(len(content)), **headers}.items():
        if value:
            handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def spec(operation: Mapping[str, Any], path: str = "/echo", method: str = "get", **more: Any) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "shop", "version": "1"},
        "servers": [{"url": "https://shop.example.com/v1"}],
        "paths": {path: {method: {"operationId": "do", "responses": {}, **operation}}},
        **more,
    }


def call_of(here: Here, arguments: Mapping[str, Any], tool: str = "do") -> ToolCall:
    [agent] = [agent for agent in here.registry.agents() if agent.kind == "openapi"]
    found: Tool = next(each for each in here.registry.tools(agent.id) if each.name == tool)
    return ToolCall(agent=agent, tool=found, arguments=arguments, deadline_s=20.0)


def run(here: Here, arguments: Mapping[str, Any], tool: str = "do", **settings: Any) -> Result:
    return sent(here, lambda: call_of(here, arguments, tool), **settings)


def sent(here: Here, call: Callable[[], ToolCall], **settings: Any) -> Result:
    async def main() -> Result:
        chosen = replace(here.settings, services_file=str(here.folder / "services.toml"), **settings)
        async with open_executor(here.registry, chosen, here.surroundings) as executor:
            return await executor.call(call())

    return anyio.run(main)


def services(here: Here, base_url: str, rest: str = "", private: bool = True) -> None:
    text = f'[[service]]\nagent = "shop"\nbase_url = "{base_url}"\nallow_private = {str(private).lower()}\n{rest}\n'
    here.write("services.toml", text)


@pytest.fixture
def web() -> Any:
    with web_pages() as pages:
        yield pages


Echo = Callable[..., dict[str, Any]]


@pytest.fixture
def echoed(here: Here, web: WebPages) -> Echo:
    """What a service gets that is called by this operation with these arguments."""

    def ask(operation: Mapping[str, Any], arguments: Mapping[str, Any], rest: str = "", **how: Any) -> dict[str, Any]:
        here.ingest(here.write("shop.json", spec(operation, **how)))
        services(here, f"{web.url}/api", rest)
        got = run(here, arguments)
        assert not got.get("isError"), got
        told: dict[str, Any] = got["structuredContent"]
        return told

    return ask


@pytest.fixture(autouse=True)
def _echoes(web: WebPages, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is not a page of the test is echoed."""

    class Pages(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002
            return super().get(key, echo)

    web.pages = Pages()


def parameter(name: str, place: str, **how: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {} if "content" in how else {"schema": {}}
    return {"name": name, "in": place, "required": place == "path", **schema, **how}


LIST, OBJECT = ["a b", "c,d", "é"], {"r": "1 0", "g": "2"}
"""Values with what is to be escaped."""


@pytest.mark.parametrize(
    ("how", "value", "path"),
    [
        ({}, "a/b ü?#", "/echo/a%2Fb%20%C3%BC%3F%23"),
        ({}, 5, "/echo/5"),
        ({}, True, "/echo/true"),
        ({}, LIST, "/echo/a%20b,c%2Cd,%C3%A9"),
        ({}, OBJECT, "/echo/r,1%200,g,2"),
        ({"explode": True}, OBJECT, "/echo/r=1%200,g=2"),
        ({"style": "label"}, "x", "/echo/.x"),
        ({"style": "label"}, ["a", "b"], "/echo/.a,b"),
        ({"style": "label", "explode": True}, ["a", "b"], "/echo/.a.b"),
        ({"style": "label", "explode": True}, OBJECT, "/echo/.r=1%200.g=2"),
        ({"style": "matrix"}, 5, "/echo/;id=5"),
        ({"style": "matrix"}, ["a", "b"], "/echo/;id=a,b"),
        ({"style": "matrix", "explode": True}, ["a", "b"], "/echo/;id=a;id=b"),
        ({"style": "matrix", "explode": True}, OBJECT, "/echo/;r=1%200;g=2"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": 1}, "/echo/%7B%22a%22%3A1%7D"),
    ],
)
def test_what_stands_in_a_path(echoed: Echo, how: Any, value: Any, path: str) -> None:
    """By style and explode (OpenAPI 3.1.1, Style Values and Style Examples)."""
    assert (
        echoed({"parameters": [parameter("id", "path", **how)]}, {"id": value}, path="/echo/{id}")["path"]
        == f"/api{path}"
    )


@pytest.mark.parametrize(
    ("how", "value", "query"),
    [
        ({}, "a b&c=d", "q=a%20b%26c%3Dd"),
        ({}, False, "q=false"),
        ({}, None, ""),
        ({}, [], ""),
        ({}, LIST, "q=a%20b&q=c%2Cd&q=%C3%A9"),
        ({"explode": False}, LIST, "q=a%20b,c%2Cd,%C3%A9"),
        ({}, OBJECT, "r=1%200&g=2"),
        ({"explode": False}, OBJECT, "q=r,1%200,g,2"),
        ({"style": "spaceDelimited", "explode": False}, ["a", "b"], "q=a%20b"),
        ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "q=a%7Cb"),
        ({"style": "deepObject"}, {"a": {"b": [1, 2]}, "c": "x y"}, "q[a][b]=1&q[a][b]=2&q[c]=x%20y"),
        ({"allowReserved": True}, "a/b:c&d#e", "q=a/b:c%26d%23e"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": [1]}, "q=%7B%22a%22%3A%5B1%5D%7D"),
    ],
)
def test_what_stands_in_a_query(echoed: Echo, how: Any, value: Any, query: str) -> None:
    got = echoed({"parameters": [parameter("q", "query", **how)]}, {"q": value})
    assert got["path"] == "/api/echo" + (f"?{query}" if query else "")


def test_headers_and_cookies(echoed: Echo) -> None:
    parameters = [
        parameter("X-One", "header"),
        parameter("X-Many", "header"),
        parameter("X-Pairs", "header", explode=True),
        parameter("flavour", "cookie"),
    ]
    arguments = {"X-One": "a", "X-Many": [1, 2], "X-Pairs": {"a": 1, "b": 2}, "flavour": "oat meal; x=1"}
    got = echoed({"parameters": parameters}, arguments, 'auth = { key = "kkkkkkkk", name = "session", in = "cookie" }')
    headers = got["headers"]
    assert [headers[name] for name in ("x-one", "x-many", "x-pairs")] == ["a", "1,2", "a=1,b=2"]
    assert headers["cookie"] == "flavour=oat%20meal%3B%20x%3D1; session=***"


def test_an_argument_sets_no_header_that_a_server_may_take_for_another(echoed: Echo) -> None:
    """Servers that hand headers on as variables make `_` of `-`: the operator's own stands alone."""
    document = {"parameters": [parameter("X_Tenant", "header")]}
    headers = echoed(document, {"X_Tenant": "other"}, 'headers = { "X-Tenant" = "acme" }')["headers"]
    assert headers["x-tenant"] == "acme"
    assert "x_tenant" not in headers


@pytest.mark.parametrize(
    "name", ["Host", "Content-Length", "Transfer-Encoding", "Transfer_Encoding", "Cookie", "X-HTTP-Method-Override"]
)
def test_an_argument_sets_no_header_of_http_s_own(here: Here, echoed: Echo, web: WebPages, name: str) -> None:
    """There is no such argument, and an older registry that holds it sends none either."""
    document = {"parameters": [parameter(name, "header")]}
    with pytest.raises(InvalidArguments, match="is not taken"):
        echoed(document, {name: "evil.example.com"})
    assert web.asked == []
    http = {"method": "GET", "path": "/echo", "parameters": {name: {"in": "header"}}}
    here.ingest(here.write("shop.json", spec({})))
    call = call_of(here, {name: "evil.example.com"})
    older = replace(call, tool=replace(call.tool, annotations=json.dumps({"http": http})))
    assert "evil.example.com" not in json.dumps(sent(here, lambda: older))


def test_a_header_of_a_name_that_is_none_is_not_sent(echoed: Echo) -> None:
    got = echoed({"parameters": [parameter("Bad Name", "header")]}, {"Bad Name": "evil.example.com"})
    assert "evil.example.com" not in json.dumps(got)


@pytest.mark.parametrize(
    ("operation", "path", "arguments", "found"),
    [
        ({}, "/a/{id}", {"id": "7/8"}, "/api/a/7%2F8"),
        ({}, "/{one}{two}", {"one": "a", "two": "b"}, "/api/ab"),
        ({}, "/{one}.{two}", {"one": "a", "two": "b.c"}, "/api/a.b.c"),
        ({}, "/a/{id:[0-9]+}/x", {"id": 5}, "/api/a/5/x"),
        ({"parameters": [parameter("Book_ID", "path")]}, "/a/{bookId}", {"Book_ID": "7"}, "/api/a/7"),
        ({"parameters": [parameter("id", "query")]}, "/a/{id}", {"id": ["7", "8"]}, "/api/a/7,8"),
        ({}, "/a?kind={kind}&x=1", {"kind": "a&b=c"}, "/api/a?kind=a%26b%3Dc&x=1"),
    ],
)
def test_a_placeholder_that_nobody_declared_as_it_is_gets_its_value(
    echoed: Echo, operation: dict[str, Any], path: str, arguments: dict[str, Any], found: str
) -> None:
    assert echoed(operation, arguments, path=path)["path"] == found


def test_an_argument_that_would_go_nowhere_is_refused(here: Here, web: WebPages) -> None:
    """Also where an older registry holds a schema that allows it."""
    here.ingest(here.write("shop.json", spec({"parameters": [parameter("limit", "query")]})))
    services(here, web.url)
    with pytest.raises(InvalidArguments, match='/limt: is not known; known: "limit"; did you mean "limit"'):
        run(here, {"limt": 1})
    assert web.asked == []


def test_an_address_with_a_part_that_has_no_value_is_not_called(echoed: Echo, web: WebPages) -> None:
    with pytest.raises(NotCallable, match=r"no value of \{region\}"):
        echoed({"servers": [{"url": "/{region}/v2"}]}, {})
    assert web.asked == []


def test_a_document_sends_no_login_of_its_own_in_place_of_an_operator_s(echoed: Echo) -> None:
    """Else what is asked for would go to the account of whoever wrote the document."""
    parameters = [parameter("k", "query"), parameter("q", "query", style="form", explode=True)]
    rest = 'auth = { key = "kkkkkkkk", name = "k", in = "query" }'
    got = echoed({"parameters": parameters}, {"k": "theirs", "q": {"k": "theirs"}}, rest, path="/echo?k=theirs&a=1")
    assert got["path"] == "/api/echo?a=1&k=***"
    with pytest.raises(NotCallable, match="names a login"):
        echoed({"servers": [{"url": "http://them:theirs@127.0.0.1/x"}]}, {})


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\x00b", "schlüssel"])
def test_a_value_that_no_header_may_hold_is_an_argument_s_fault(echoed: Echo, value: str) -> None:
    with pytest.raises(InvalidArguments, match="/X-One: printable ASCII"):
        echoed({"parameters": [parameter("X-One", "header")]}, {"X-One": value})


@pytest.mark.parametrize(
    "value", ["..", ".", "", [], "%2e%2e", "../../admin", "x/../../admin", "..\\admin", "..;/x", "x/..;a=b/c", ".;"]
)
def test_a_value_in_a_path_leads_nowhere_else(echoed: Echo, value: Any) -> None:
    operation = {"parameters": [parameter("id", "path")]}
    if value == "%2e%2e":  # escaped, it is the name of something
        assert echoed(operation, {"id": value}, path="/a/{id}/b")["path"] == "/api/a/%252e%252e/b"
        return
    with pytest.raises(InvalidArguments) as refused:
        echoed(operation, {"id": value}, path="/a/{id}/b")
    assert [pointer for pointer, _ in refused.value.faults] == ["/id"]


def body(media: str, schema: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}


FIELDS = {"type": "object", "properties": {"id": {}, "tags": {"type": "array"}, "more": {"type": "object"}}}


def test_a_body_in_json(echoed: Echo) -> None:
    """Fields beside parameters, one of the name of a parameter; what is a parameter is no field."""
    operation = body("application/json", FIELDS) | {"parameters": [parameter("id", "path")]}
    arguments = {"id": 7, "body_id": "ü", "tags": [1], "more": {"a": None}}
    got = echoed(operation, arguments, path="/echo/{id}", method="post")
    assert (got["path"], got["headers"]["content-type"]) == ("/api/echo/7", "application/json")
    assert json.loads(got["body"].encode("latin-1")) == {"id": "ü", "tags": [1], "more": {"a": None}}


@pytest.mark.parametrize(
    ("value", "media"), [({"a": 1}, "application/merge-patch+json"), ([{"op": "test"}], "application/json-patch+json")]
)
def test_an_object_is_sent_as_a_merge_patch_and_a_list_as_operations(echoed: Echo, value: Any, media: str) -> None:
    operation = body("application/json-patch+json", {"type": ["object", "array"]})
    got = echoed(operation, {"body": value}, method="patch")
    assert (got["headers"]["content-type"], json.loads(got["body"])) == (media, value)


def test_a_form(echoed: Echo) -> None:
    arguments = {"id": "a b&c", "tags": [1, 2], "more": {"x": 1}}
    got = echoed(body("application/x-www-form-urlencoded", FIELDS), arguments, method="post")
    assert got["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert got["body"] == "id=a+b%26c&tags=1&tags=2&more=%7B%22x%22%3A1%7D"


@pytest.mark.parametrize(
    ("encoding", "sent_body"),
    [
        ({"tags": {"explode": False}}, "tags=1,2&more=%7B%22x%22%3A%22a%26b%22%7D"),
        ({"tags": {"style": "pipeDelimited", "explode": False}}, "tags=1%7C2&more=%7B%22x%22%3A%22a%26b%22%7D"),
        ({"more": {"style": "deepObject", "explode": True}}, "tags=1&tags=2&more[x]=a%26b"),
        ({"more": {"style": "form"}}, "tags=1&tags=2&x=a%26b"),
        ({"more": {"contentType": "application/json"}}, "tags=1&tags=2&more=%7B%22x%22%3A%22a%26b%22%7D"),
        ({"tags": {"style": ["form"]}, "more": 3}, "tags=1&tags=2&more=%7B%22x%22%3A%22a%26b%22%7D"),
    ],
)
def test_a_form_is_encoded_as_its_document_states(echoed: Echo, encoding: Any, sent_body: str) -> None:
    operation = body("application/x-www-form-urlencoded", FIELDS)
    operation["requestBody"]["content"]["application/x-www-form-urlencoded"]["encoding"] = encoding
    got = echoed(operation, {"tags": [1, 2], "more": {"x": "a&b"}}, method="post")
    assert got["body"] == sent_body


@pytest.mark.parametrize(
    ("collection", "sent_body"),
    [
        ({}, "tags=a,b%2Cc"),
        ({"collectionFormat": "multi"}, "tags=a&tags=b%2Cc"),
        ({"collectionFormat": "ssv"}, "tags=a%20b%2Cc"),
    ],
)
def test_lists_in_a_form_of_swagger_2(here: Here, web: WebPages, collection: Any, sent_body: str) -> None:
    """Without a format of the list its items are joined by commas."""
    listed = {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}, **collection}
    operation = {"operationId": "do", "parameters": [listed], "responses": {}}
    document = {"swagger": "2.0", "info": {"title": "shop", "version": "1"}, "paths": {"/echo": {"post": operation}}}
    here.ingest(here.write("shop.json", document))
    services(here, f"{web.url}/api")
    got = run(here, {"tags": ["a", "b,c"]})["structuredContent"]
    assert got["body"] == sent_body


def test_parts_of_a_multipart_form_have_the_media_types_that_are_stated(echoed: Echo) -> None:
    file = {"type": "string", "format": "binary"}
    operation = body("multipart/form-data", {"type": "object", "properties": {"scan": file, "more": {}, "any": file}})
    operation["requestBody"]["content"]["multipart/form-data"]["encoding"] = {
        "scan": {"contentType": "image/tiff, image/gif"},
        "more": {"contentType": "application/ld+json"},
        "any": {"contentType": "image/*"},
    }
    content = b64encode(b"II*").decode()
    got = echoed(operation, {"scan": content, "more": {"x": 1}, "any": content}, method="post")
    parts = {part.split('name="')[1].split('"')[0]: part for part in got["body"].split("--")[1:-1] if "name=" in part}
    assert "Content-Type: image/tiff\r\n" in parts["scan"]
    assert "Content-Type: application/ld+json\r\n" in parts["more"]
    assert "Content-Type: application/octet-stream\r\n" in parts["any"]


@pytest.mark.parametrize("media", ["application/xml", "text/xml; charset=utf-8", "application/soap+xml", "text/yaml"])
def test_a_body_that_is_no_json_is_written_by_the_caller(echoed: Echo, media: str) -> None:
    got = echoed(body(media, FIELDS), {"body": "<order/>"}, method="post")
    assert (got["headers"]["content-type"], got["body"]) == (media, "<order/>")


@pytest.mark.parametrize(
    ("pattern", "schema", "value", "media"),
    [
        ("*/*", {}, {"a": 1}, "application/json"),
        ("audio/*", {"type": "string", "format": "binary"}, b64encode(b"RIFF").decode(), "application/octet-stream"),
        ("text/*", {"type": "string"}, "tide", "text/plain"),
    ],
)
def test_a_pattern_of_media_types_is_sent_as_one_that_fits_the_content(
    echoed: Echo, pattern: str, schema: Any, value: Any, media: str
) -> None:
    assert echoed(body(pattern, schema), {"body": value}, method="post")["headers"]["content-type"] == media


def test_a_multipart_form_with_a_file(echoed: Echo) -> None:
    file = {"type": "string", "format": "binary"}
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "file": file, "more": {"type": "object"}}}
    arguments = {"title": "Plan", "file": b64encode(b"\x00\xff file").decode(), "more": {"x": 1}}
    got = echoed(body("multipart/form-data", schema), arguments, method="post")
    assert got["headers"]["content-type"].startswith("multipart/form-data; boundary=")
    parts = {part.split('name="')[1].split('"')[0]: part for part in got["body"].split("--")[1:-1] if "name=" in part}
    assert parts["title"].endswith("\r\n\r\nPlan\r\n")
    assert "filename" not in parts["title"]
    assert 'filename="file"' in parts["file"]
    assert parts["file"].endswith("\r\n\r\n\x00\xff file\r\n")
    assert "Content-Type: application/json" in parts["more"]


def test_bytes_and_texts(echoed: Echo) -> None:
    got = echoed(body("application/pdf", {}), {"body": b64encode(b"%PDF\x00").decode()}, method="post")
    assert (got["headers"]["content-type"], got["body"]) == ("application/pdf", "%PDF\x00")
    got = echoed(body("text/csv", {"type": "string"}), {"body": "a;b"}, method="post")
    assert (got["headers"]["content-type"], got["body"]) == ("text/csv", "a;b")
    with pytest.raises(InvalidArguments, match="/body: base64"):
        echoed(body("application/pdf", {}), {"body": "no base64!"}, method="post")


@pytest.mark.parametrize(
    ("auth", "sent"),
    [
        ('{ bearer = "${SHOP_TOKEN}" }', ("authorization", f"Bearer {TOKEN}")),
        (
            '{ user = "me", password = "${SHOP_TOKEN}" }',
            ("authorization", f"Basic {b64encode(f'me:{TOKEN}'.encode()).decode()}"),
        ),
        ('{ key = "${SHOP_TOKEN}" }', ("x-api-key", TOKEN)),
        ('{ key = "${SHOP_TOKEN}", name = "api_key", in = "query" }', ("query", f"api_key={TOKEN}")),
        ('{ key = "${SHOP_TOKEN}", name = "sid", in = "cookie" }', ("cookie", f"sid={TOKEN}")),
    ],
)
def test_a_login_is_sent_and_shown_to_nobody(here: Here, web: WebPages, auth: str, sent: tuple[str, str]) -> None:
    """The service repeats all that it got; neither result nor error has it."""
    here.environ["SHOP_TOKEN"] = TOKEN
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url, f"auth = {auth}")
    told = json.dumps(run(here, {}))
    [(path, headers)] = web.asked
    assert (urlsplit(path).query if sent[0] == "query" else headers[sent[0]]) == sent[1]
    assert TOKEN not in told
    assert "***" in told
    web.pages["/echo"] = (401, {"Content-Type": "text/plain"}, f"bad: {sent[1]}".encode())
    web.pages[urlsplit(path).path + "?" + urlsplit(path).query] = web.pages["/echo"]
    failed = run(here, {})
    assert failed["isError"] is True
    assert "HTTP 401 Unauthorized" in failed["content"][0]["text"]
    assert TOKEN not in json.dumps(failed)


def test_a_variable_that_is_not_set_is_named(here: Here, web: WebPages) -> None:
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url, 'auth = { bearer = "${SHOP_TOKEN}" }')
    with pytest.raises(
        NotCallable, match=r"not set in the environment: SHOP_TOKEN \(\[\[service\]\] of 'shop' in .*services"
    ):
        run(here, {})
    assert web.asked == []


def test_without_configuration_it_says_what_to_write_where(here: Here, web: WebPages) -> None:
    """Also if the document names an address: that is the word of whoever wrote it."""
    here.ingest(here.write("shop.json", spec({}, servers=[{"url": web.url}])))
    here.write("services.toml", "")
    with pytest.raises(NotCallable) as caught:
        run(here, {})
    for part in ('[[service]] agent = "shop" base_url', "services.toml", web.url):
        assert part in caught.value.reason
    assert web.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"])  # noqa: S104
def test_a_host_of_this_machine_needs_an_operator_s_leave(here: Here, web: WebPages, host: str) -> None:
    here.ingest(here.write("shop.json", spec({})))
    services(here, f"http://{host}:{urlsplit(web.url).port}", private=False)
    with pytest.raises(UpstreamRefused, match="allow_private = true"):
        run(here, {})
    assert web.asked == []


def test_a_name_that_leads_to_this_network_is_not_connected_to(
    here: Here, web: WebPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolved(host: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", port))]

    here.ingest(here.write("shop.json", spec({})))
    services(here, "http://rebinding.example.com", private=False)
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with pytest.raises(UpstreamRefused, match="private or reserved"):
        run(here, {})


def test_a_redirect_is_followed_on_its_origin_alone(here: Here, web: WebPages) -> None:
    here.environ["SHOP_TOKEN"] = TOKEN
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url, 'auth = { bearer = "${SHOP_TOKEN}" }')
    web.redirect("/echo", "/moved")
    assert run(here, {})["structuredContent"]["path"] == "/moved"
    with web_pages() as other:
        web.redirect("/echo", f"{other.url}/steal")
        with pytest.raises(UpstreamRefused, match="redirects to another host"):
            run(here, {})
        assert other.asked == []
    web.redirect("/echo", "/echo")
    with pytest.raises(UpstreamRefused, match="more than 5 times"):
        run(here, {})


@pytest.mark.parametrize(("status", "method", "content_type"), [(303, "GET", None), (307, "POST", "application/json")])
def test_a_redirected_body_is_sent_again_only_where_http_says_so(
    echoed: Echo, web: WebPages, status: int, method: str, content_type: str | None
) -> None:
    """What becomes a GET loses its body and the type of it (RFC 9110, section 15.4)."""
    web.redirect("/api/echo", "/moved", status)
    operation = {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}
    got = echoed(operation, {"body": {"a": 1}}, method="post")
    assert (got["method"], got["path"], got["headers"].get("content-type")) == (method, "/moved", content_type)
    assert got["body"] == ('{"a":1}' if content_type else "")


async def test_cookies_of_an_answer_are_not_kept(here: Here, web: WebPages) -> None:
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url)
    web.pages["/echo"] = partial(answer, status=200, media="application/json", content=b"{}", Set_Cookie="sid=1")
    chosen = replace(here.settings, services_file=str(here.folder / "services.toml"))
    async with open_executor(here.registry, chosen, here.surroundings) as executor:
        for _ in range(2):
            await executor.call(call_of(here, {}))
    assert ["cookie" in headers for _, headers in web.asked] == [False, False]


def answered(here: Here, web: WebPages, status: int, media: str, content: bytes, **settings: Any) -> Result:
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url)
    web.pages["/echo"] = (status, {"Content-Type": media} if media else {}, content)
    return run(here, {}, **settings)


@pytest.mark.parametrize(("media", "is_structured"), [("", True), ("text/plain", False)])
def test_text_that_looks_like_json_is_json_unless_it_is_said_to_be_another(
    here: Here, web: WebPages, media: str, is_structured: bool
) -> None:
    got = answered(here, web, 200, media, b' {"a": 1}')
    assert ("structuredContent" in got) == is_structured


def test_json_is_structured_and_text(here: Here, web: WebPages) -> None:
    got = answered(here, web, 200, "application/problem+json; charset=utf-8", b'{"a": [1]}')
    assert got == {"content": [{"type": "text", "text": '{"a": [1]}'}], "structuredContent": {"a": [1]}}
    assert answered(here, web, 200, "application/json", b"[1]") == {"content": [{"type": "text", "text": "[1]"}]}
    assert answered(here, web, 200, "application/json", b"{broken") == {
        "content": [{"type": "text", "text": "{broken"}]
    }


def test_a_mark_before_json_is_no_part_of_it(here: Here, web: WebPages) -> None:
    got = answered(here, web, 200, "application/json", b'\xef\xbb\xbf{"a": 1}')
    assert got == {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}


@pytest.mark.parametrize("status", [429, 503])
def test_a_service_that_takes_a_call_later_says_when(here: Here, web: WebPages, status: int) -> None:
    here.ingest(here.write("shop.json", spec({}, method="post")))
    services(here, web.url)
    web.pages["/echo"] = (status, {"Content-Type": "application/json", "Retry-After": "7"}, b'{"message": "too many"}')
    with pytest.raises(UpstreamBusy, match=r"too many; it did nothing: call again in 7 s") as caught:
        run(here, {})
    assert caught.value.retry_after_s == 7


def test_an_answer_is_bounded(here: Here, web: WebPages) -> None:
    got = answered(here, web, 200, "application/json", b'"' + b"x" * 2000 + b'"', upstream_max_message_bytes=1000)
    assert got["isError"] is True
    assert "more than 1,000 bytes (WAYGRAPH_UPSTREAM_MAX_MESSAGE_BYTES)" in got["content"][0]["text"]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_answer_that_was_not_asked_for_is_read(here: Here, web: WebPages, pack: Any) -> None:
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url)
    coding = "gzip" if pack is gzip.compress else "deflate"
    web.pages["/echo"] = (200, {"Content-Type": "application/json", "Content-Encoding": coding}, pack(b'{"n": 7}'))
    assert run(here, {})["structuredContent"] == {"n": 7}


def test_a_compressed_answer_is_bounded_by_what_it_unpacks_to(here: Here, web: WebPages) -> None:
    here.settings = replace(here.settings, upstream_max_message_bytes=1_000)
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url)
    bomb = gzip.compress(bytes(2**24))
    web.pages["/echo"] = (200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}, bomb)
    assert "more than 1,000 bytes" in run(here, {})["content"][0]["text"]


def test_an_answer_that_cannot_be_unpacked_is_refused(here: Here, web: WebPages) -> None:
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url)
    web.pages["/echo"] = (200, {"Content-Type": "application/json", "Content-Encoding": "gzip"}, b"\x1f\x8b broken")
    with pytest.raises(UpstreamRefused, match="compressed"):
        run(here, {})


@pytest.mark.parametrize("media", ["application/octet-stream", "image/png"])
def test_a_login_that_stands_in_a_file_is_blotted_out(here: Here, web: WebPages, media: str) -> None:
    here.ingest(here.write("shop.json", spec({})))
    services(here, web.url, f'auth = {{ bearer = "{TOKEN}" }}')
    web.pages["/echo"] = (200, {"Content-Type": media}, b"\x89\xff" + TOKEN.encode() + b"\x00end")
    [part] = run(here, {})["content"]
    content = b64decode(part["data"] if media.startswith("image") else part["resource"]["blob"])
    assert content == b"\x89\xff" + b"*" * len(TOKEN) + b"\x00end"


def test_a_service_that_is_not_there(here: Here) -> None:
    here.ingest(here.write("shop.json", spec({})))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        services(here, f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(UpstreamError, match="connection refused"):
            run(here, {})


@pytest.mark.parametrize(("method", "may_have_run"), [("get", False), ("post", True)])
def test_a_service_that_is_lost_after_it_was_asked(here: Here, web: WebPages, method: str, may_have_run: bool) -> None:
    """What only reads may be asked again; what changes something may have changed it."""
    here.ingest(here.write("shop.json", spec({}, method=method)))
    services(here, web.url)
    web.pages["/echo"] = lambda handler: setattr(handler, "close_connection", True)
    with pytest.raises(UpstreamUnreachable, match="the connection broke") as lost:
        run(here, {})
    assert isinstance(lost.value, MayHaveRun) == may_have_run
    assert lost.value.retryable != may_have_run


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[service]\n", "no TOML"),
        ('[[service]]\nagent = "a"\n', "service.0.base_url: is missing"),
        ('[[service]]\nbase_url = "https://x"\n', "name an agent by its id, or a source"),
        ('[[service]]\nagent = "a"\nbase_url = "ftp://x"\n', "begins with https:// or http://"),
        ('[[service]]\nagent = "a"\nbase_url = "https://me:s3cret@x"\n', "may hold no login"),
        (
            '[[service]]\nagent = "a"\nbase_urll = "https://x"\n',
            "service.0.base_urll: key 'base_urll' is not known; known: agent, allow_private, also, auth, base_url, "
            "headers, source. Did you mean 'base_url'?",
        ),
        (
            '[[services]]\nagent = "a"\n',
            "services: key 'services' is not known; known: login, service. Did you mean 'service'?",
        ),
        (
            '[[service]]\nagent = "a"\nbase_url = "https://x"\nauth = { beerer = "s3cret" }\n',
            "service.0.auth.beerer: key 'beerer' is not known; known: bearer, in, key, name, password, user. Did you "
            "mean 'bearer'",
        ),
        (
            '[[service]]\nagent = "a"\nbase_url = "https://x"\nauth = { bearer = "s3cret", key = "s3cret" }\n',
            "give one",
        ),
        ('[[service]]\nagent = "a"\nbase_url = "https://x"\nheaders = { "A B" = "s3cret" }\n', "headers"),
    ],
)
def test_a_file_that_is_wrong_is_refused_at_its_key_without_a_value(here: Here, text: str, told: str) -> None:
    file = here.write("services.toml", text)
    with pytest.raises(InvalidSetting) as caught:
        run(here, {})
    assert told in str(caught.value)
    assert file in str(caught.value)
    assert "s3cret" not in str(caught.value)
