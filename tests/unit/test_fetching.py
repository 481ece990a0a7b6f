"""Documents by their address: limits, redirects, certificates; no secret is sent or told where it must not be."""

import gzip
import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.web_pages import WebPages, web_pages, write_certificate
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.fetch import FetchFailed, Fetching, Page, address_of, fetch, open_document
from waygraph.ingest.sources.opening import Opening, open_sources
from waygraph.ingest.sources.read import Reading
from waygraph.registry.http.addresses import Reach, is_public
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

S = Settings(fetch_total_s=60.0)
PLANTED = "s3cret-value"
CATALOGUE = json.dumps({"waygraph": 1, "agents": [{"id": "far"}]}).encode()
LINES = b'{"name": "One", "url": "https://one.example"}\n[]\n{"name": "Two", "url": "https://two.example"}\n'
CARD = {
    "name": "Harbour",
    "description": "Looks after ships",
    "version": "1",
    "url": "https://harbour.example",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "moor", "name": "Moor", "description": "Moors", "tags": []}],
}


def ok(body: bytes, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
    return 200, {name.replace("_", "-"): value for name, value in headers.items()}, body


def asked(url: str, settings: Settings = S, **how: Any) -> Page:
    return fetch(url, Fetching(settings=settings, **how))


def refused(url: str, settings: Settings = S, **how: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        asked(url, settings, **how)
    assert "\n" not in str(caught.value)
    return caught.value


def keys_of(url: str, kind: str = "") -> list[str]:
    document = open_document(url, Fetching(settings=S), Reading(settings=S, kind=kind))
    return [entry.key for entry in document.read().entries]


@pytest.mark.parametrize(
    ("path", "body", "keys"),
    [
        ("/fleet.json", CATALOGUE, ["far"]),
        ("/fleet", CATALOGUE, ["far"]),
        ("/fleet.yaml", b"waygraph: 1\nagents: [{id: far}]\n", ["far"]),
        ("/fleet/yaml", b"# by its look\nwaygraph: 1\nagents: [{id: far}]\n", ["far"]),
        ("/list.jsonl", LINES, ["one.example", "two.example"]),
        ("/list", LINES, ["one.example", "two.example"]),
    ],
)
@pytest.mark.parametrize("media_type", ["application/json", "text/plain", "application/octet-stream", "text/html"])
def test_the_content_says_what_it_is(path: str, body: bytes, keys: list[str], media_type: str) -> None:
    """Whatever the server calls it; JSON, YAML and lines also under a name that does not say so."""
    with web_pages({path: ok(body, Content_Type=media_type)}) as web:
        assert keys_of(web.url + path) == keys


def test_a_document_is_a_source_under_its_address(tmp_path: Path) -> None:
    """Without login and query values, which still are sent; places name the address too."""
    with web_pages({"/list.jsonl": ok(LINES)}) as web:
        login = web.url.replace("//", f"//me:{PLANTED}@")
        document = open_document(
            f"{login}/list.jsonl?key={PLANTED}", Fetching(settings=S), Reading(settings=S, kind="server-lines")
        )
        manifest = document.read()
        assert web.asked[0][0] == f"/list.jsonl?key={PLANTED}"
        assert web.asked[0][1]["authorization"].startswith("Basic ")
        assert (
            document.name
            == manifest.source
            == f"{web.url.replace('//', '//${USER}:${PASSWORD}@')}/list.jsonl?key=${{key}}"
        )
        assert [rejected.where.partition("/list.jsonl")[2] for rejected in manifest.rejected] == ["#/1"]
        assert PLANTED not in repr((document, manifest))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ok(b"<!DOCTYPE html><html>"), "answers with a web page, which is no document"),
        (ok(b"", Content_Type="text/event-stream; charset=utf-8"), "answers with a stream of events"),
        ((404, {}, b"{}"), "answers 404 (Not Found)"),
        ((799, {}, b"{}"), "answers 799"),
        (ok(b"x", Content_Encoding="br"), "its answer is compressed by br; read are gzip and deflate"),
        (ok(b"plain" * 9, Content_Encoding="gzip"), "its answer is compressed and cannot be unpacked"),
        (ok(gzip.compress(CATALOGUE)[:-5], Content_Encoding="gzip"), "its answer breaks off amid what is compressed"),
        (ok(b"{}", Content_Length="100"), "the connection broke"),
    ],
)
def test_what_is_no_document_is_told_in_one_line(answer: Any, reason: str) -> None:
    with web_pages({"/a": answer}) as web:
        error = refused(f"{web.url}/a")
    assert error.reason.startswith(reason)
    assert error.where == f"{web.url}/a"
    assert error.status in (0, answer[0])


@pytest.mark.parametrize(
    "url", ["ftp://h/a", "https://", "h/a", "http://[::1", "http://h:99999999/", f"http://{PLANTED}:x@h:p/"]
)
def test_what_is_no_address_is_refused_unquoted(url: str) -> None:
    with pytest.raises(SourceError) as caught:
        address_of(url)
    assert PLANTED not in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_a_document_that_is_too_large_is_not_read_on(packed: bool) -> None:
    """Some kilobytes that unpack to a quarter of a gigabyte cost no more memory than the limit."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(2**20)
    body = b"".join([*(packer.compress(zeros) for _ in range(256)), packer.flush()]) if packed else zeros
    headers = {"Content_Encoding": "gzip"} if packed else {}
    with web_pages({"/a": ok(body, **headers)}) as web:
        error = refused(f"{web.url}/a", replace(S, max_source_bytes=1000))
    assert error.reason == "has more than the 1000 bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES)"


def slowly(part: bytes) -> Any:
    """Sends the part again and again, for longer than any test waits."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1000):
            handler.wfile.write(part)
            handler.wfile.flush()
            time.sleep(0.05)

    return act


@pytest.mark.parametrize("part", [b"X-More: 1\r\n", b"\r\nx"])
def test_an_answer_that_trickles_ends_in_time(part: bytes) -> None:
    with web_pages({"/a": slowly(part)}) as web:
        error = refused(f"{web.url}/a", replace(S, fetch_total_s=0.3))
    assert error.reason == "did not end within 0.3 s (WAYGRAPH_FETCH_TOTAL_S)"


HEADERS = {"Authorization": f"Bearer {PLANTED}", "X-Key": PLANTED}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_on_the_same_origin_keeps_headers(status: int) -> None:
    with web_pages({"/b": ok(CATALOGUE)}) as web:
        web.redirect("/a", "/b", status)
        page = asked(f"{web.url}/a", headers=HEADERS)
    assert (page.address, page.content) == (f"{web.url}/b", CATALOGUE)
    assert [headers["x-key"] for _, headers in web.asked] == [PLANTED, PLANTED]


def test_a_redirect_to_another_origin_loses_headers_for_good() -> None:
    """Another port is another origin; also when it sends us back, and a login in the address is lost as well."""
    with web_pages({"/c": ok(CATALOGUE)}) as web, web_pages() as other:
        web.redirect("/a", f"{other.url}/b")
        other.redirect("/b", f"{web.url}/c")
        asked(f"{web.url.replace('//', f'//me:{PLANTED}@')}/a", headers={"X-Key": PLANTED}, beyond=Reach.MACHINE)
        assert [path for path, _ in [*web.asked, *other.asked]] == ["/a", "/c", "/b"]
        assert "authorization" in web.asked[0][1]
        for _, headers in (web.asked[1], other.asked[0]):
            assert PLANTED not in json.dumps(dict(headers))
            assert "authorization" not in headers


def test_a_redirect_goes_from_http_to_https_but_not_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = write_certificate(tmp_path / "c.pem", "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with web_pages({"/a": ok(CATALOGUE)}) as plain, web_pages({"/b": ok(CATALOGUE)}, certificate=certificate) as safe:
        safe.redirect("/down", f"{plain.url}/a")
        plain.redirect("/up", f"{safe.url}/b")
        assert asked(f"{plain.url}/up", beyond=Reach.MACHINE).address == f"{safe.url}/b"
        assert refused(f"{safe.url}/down").reason == "redirects from https to http, which is not followed"
        assert plain.paths == ["/up"]


def test_no_error_tells_a_header_or_a_login() -> None:
    with web_pages({"/a": lambda handler: handler.connection.close()}) as web:
        error: BaseException | None = refused(
            f"{web.url.replace('//', f'//me:{PLANTED}@')}/a?k={PLANTED}", headers=HEADERS
        )
        while error:
            assert PLANTED not in f"{error!r} {error}"
            error = error.__cause__


@pytest.mark.parametrize(
    ("name", "days", "reason"),
    [
        ("elsewhere.example", 1, "its TLS certificate is not trusted: IP address mismatch"),
        ("127.0.0.1", -1, "its TLS certificate is not trusted: certificate has expired"),
    ],
)
def test_a_certificate_that_does_not_fit_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, days: int, reason: str
) -> None:
    certificate = write_certificate(tmp_path / "c.pem", name, days=days)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with web_pages({"/a": ok(CATALOGUE)}, certificate=certificate) as web:
        assert refused(f"{web.url}/a", headers=HEADERS).reason.startswith(reason)
        assert web.asked == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::", False),
        ("2002:5db8:d822::1", True),
        ("::127.0.0.1", False),
        ("::93.184.216.34", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b:1::a00:1", False),
        ("fec0::1", False),
        ("::5efe:7f00:1", False),
        ("2606:4700::5efe:7f00:1", False),
        ("2606:4700::200:5efe:a00:1", False),
        ("2606:4700::5efe:5db8:d822", True),
        ("fe80::5efe:5db8:d822", False),
        ("localhost", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("192.88.99.1", False),
    ],
)
def test_an_address_is_public_or_not(address: str, public: bool) -> None:
    """Private, reserved and local ones are not, however they are written."""
    assert is_public(address) is public


def test_the_address_that_was_judged_is_the_one_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number, under the host's own name: in the request and in the check of the certificate."""
    certificate = write_certificate(tmp_path / "c.pem", "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with web_pages({"/a": ok(CATALOGUE)}, certificate=certificate) as web:
        url = web.url.replace("127.0.0.1", "localhost")
        page = asked(f"{url}/a", headers={"X-Key": "x"})
        assert page.content == CATALOGUE
        assert web.asked[0][1]["host"] == url.removeprefix("https://")


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/.well-known/agent.json"])
@pytest.mark.parametrize("kind", ["", "a2a-card"])
@pytest.mark.parametrize(
    "root", [None, ok(b"<html>"), ok(b'{"status": "ok"}', Content_Type="application/json"), (405, {}, b"")]
)
def test_the_card_of_an_agent_is_found_by_its_address(path: str, kind: str, root: Any) -> None:
    """Where the address itself is no source: today's place, and the older one."""
    with web_pages({path: ok(json.dumps(CARD).encode()), **({"/": root} if root else {})}) as web:
        assert keys_of(f"{web.url}/", kind) == ["Harbour"]
        assert (web.paths[0] == "/") is (kind == "")


@pytest.mark.parametrize("connect", [None, True])
def test_a_fetched_configuration_starts_nothing(web_of: WebPages, connect: bool | None) -> None:
    """Whoever keeps it could run any command here, and be sent any variable: its servers are listed, no more."""
    asked_for: list[object] = []

    def ask(*servers: object) -> Manifest:
        asked_for.append(servers)
        return Manifest(source="")

    config = {"mcpServers": {"x": {"command": "sh", "args": ["-c", "true"]}, "y": {"url": "http://127.0.0.1:1/${KEY}"}}}
    web_of.pages["/mcp.json"] = ok(json.dumps(config).encode())
    surroundings = Surroundings(environ={"KEY": PLANTED}, home="/", cwd="/")
    [source] = open_sources(
        f"{web_of.url}/mcp.json", Opening(settings=S, surroundings=surroundings, ask=ask, connect=connect)
    )
    manifest = source.read()
    assert asked_for == []
    assert [entry.key for entry in manifest.entries] == ["x", "y"]
    assert PLANTED not in repr(manifest)


@pytest.fixture
def web_of() -> Any:
    with web_pages() as web:
        yield web
