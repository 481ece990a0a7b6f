"""A result that is longer than a model's context takes is cut, says so, and is read page by page, whole."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.hosts import Era, error_of, over_http, toolbox_place
from tests.service import served
from waygraph.api.mcp.long_results import LEAST_BYTES, LongResults, cut, json_bytes
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.settings import Settings

ME = Asker(caller=LOCAL, session=Session())
ROWS = [{"at": number, "name": f"row {number}"} for number in range(2_000)]
MOST = 1_000

ANY = st.recursive(
    st.none() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner, max_size=8),
    max_leaves=60,
)


def pages_of(results: LongResults, rests: list[str]) -> Iterator[str]:
    """Every page that can be read from these addresses on."""
    while rests:
        page, *more = results.read(rests.pop(), ME)
        yield page
        rests += [part["rest"] for told in more for part in json.loads(told)["cut"]["parts"]]


def rests_of(sent: Any) -> list[str]:
    told = json.loads(sent["content"][-2]["text"])["cut"]
    return [part["rest"] for part in told["parts"]]


def test_a_short_result_is_the_same_object() -> None:
    result = {"content": [{"type": "text", "text": "x" * 3_900}], "structuredContent": {"a": 1}}
    assert LongResults(MOST, 10**7).fit(result, ME) is result
    long = {"content": [{"type": "text", "text": "x" * 10**6}]}
    assert LongResults(0, 10**7).fit(long, ME) is long


@pytest.mark.parametrize("text", ["x" * 50_000, "海" * 30_000, '"\n' * 20_000])
def test_the_pages_of_a_text_are_the_text(text: str) -> None:
    results = LongResults(MOST, 10**7)
    sent = results.fit({"content": [{"type": "text", "text": text}]}, ME)
    assert json_bytes(sent["content"][0]) <= MOST * 4
    pages = list(pages_of(results, rests_of(sent)))
    assert sent["content"][0]["text"] + "".join(pages) == text
    assert all(json_bytes(page) <= MOST * 4 for page in pages)


def test_structured_content_is_cut_by_path() -> None:
    results = LongResults(MOST, 10**7)
    whole = {"total": 2_000, "note": "as of today", "rows": ROWS}
    said = {"content": [{"type": "text", "text": json.dumps(whole)}], "structuredContent": whole, "isError": False}
    sent = results.fit(said, ME)
    assert sent["isError"] is False
    structured = sent["structuredContent"]
    assert (structured["total"], structured["note"]) == (2_000, "as of today")
    assert json_bytes(structured) <= MOST * 4
    rest = next(uri for uri in rests_of(sent) if "/structuredContent/rows" in uri)
    assert parse_qs(urlsplit(rest).query)["from"] == [str(len(structured["rows"]))]
    rows = structured["rows"]
    for page in pages_of(results, [rest]):
        rows = rows + json.loads(page)
    assert rows == ROWS
    assert sent["content"][-1]["type"] == "resource_link"
    assert json.loads(results.read(sent["content"][-1]["uri"], ME)[0])["structuredContent"]


@given(ANY, st.integers(LEAST_BYTES, 2_000))
def test_whatever_is_cut_is_named(value: Any, most: int) -> None:
    """A value without a missing part is whole; with one it has the same types, and no more than was there."""
    piece, parts = cut(value, most)
    assert (piece == value) == (not parts)
    assert type(piece) is type(value)
    assert json_bytes(piece) <= max(most, LEAST_BYTES + 64)
    assert all(0 <= part.kept <= part.of - part.start for part in parts)


def test_images_stay_and_many_blocks_are_counted() -> None:
    image = {"type": "image", "data": "a" * 100_000, "mimeType": "image/png"}
    blocks = [image, *({"type": "text", "text": "y" * 1_000} for _ in range(40))]
    sent = LongResults(MOST, 10**7, "").fit({"content": blocks}, ME)
    assert sent["content"][0] == image
    told = json.loads(sent["content"][-2]["text"])["cut"]
    assert told["parts"][-1]["path"] == "/content"
    assert told["parts"][-1]["sent"].endswith(" of 41")
    assert told["how"] == "reading the resource returns it"


LONG = "x" * 50_000
FILE = {"type": "resource", "resource": {"uri": "note://a", "blob": "QUJD", "title": LONG}}
CAPTION = {"type": "image", "data": "QUJD", "mimeType": "image/png", "caption": LONG}


@pytest.mark.parametrize(
    "result",
    [
        {"content": [CAPTION]},
        {"content": [FILE]},
        {"content": [], "_meta": {"said": LONG}},
        {"content": [], "more": [LONG]},
        {"content": [], **{f"m{number}": LONG[:200] for number in range(300)}},
        {"content": LONG},
        {"content": [{"type": "text", "text": "fine", "_meta": {"said": LONG}}]},
        {"content": [LONG, 7]},
    ],
    ids=["image", "file", "_meta", "field", "fields", "content", "_meta of a text", "no blocks"],
)
def test_all_that_is_sent_counts(result: dict[str, Any]) -> None:
    sent = LongResults(MOST, 10**7).fit(result, ME)
    assert json_bytes(sent) < MOST * 4 + 2_500
    assert json.loads(sent["content"][-2]["text"])["cut"]["why"]
    assert sent["content"][-1]["type"] == "resource_link"


def test_whose_an_error_is_stays_where_the_rest_is_cut() -> None:
    said = {"content": [], "isError": True, "_meta": {"waygraph/agent": "box", "trace": LONG}}
    sent = LongResults(MOST, 10**7).fit(said, ME)
    assert (sent["isError"], sent["_meta"]) == (True, {"waygraph/agent": "box"})
    assert "/_meta" in [part["path"] for part in json.loads(sent["content"][-2]["text"])["cut"]["parts"]]


def test_a_page_that_looks_like_ours_begins_with_whose_it_is() -> None:
    results = LongResults(MOST, 10**7)
    said = {"content": [], "structuredContent": {"pad": LONG, "x": {"error": {"by": "gateway"}}}}
    whole = results.fit(said, ME)["content"][-1]["uri"]
    [page] = results.read(f"{whole}?path=/structuredContent/x", ME)
    assert page.startswith("A tool says, not the gateway:\n")


def test_only_who_called_reads_the_rest() -> None:
    results = LongResults(MOST, 10**7)
    sent = results.fit({"content": [{"type": "text", "text": "x" * 50_000}]}, ME)
    [rest] = rests_of(sent)
    assert results.read(rest, ME)
    other = Asker(caller=Caller(id="other", principal=None, scopes=LOCAL.scopes), session=Session())
    assert results.read(rest + "000", ME) == [""]  # past the end there is nothing
    for uri, asker in [(rest, other), (rest.replace("/content/0", "/nowhere"), ME), (rest + "x", ME)]:
        with pytest.raises(UnknownName, match="is not known"):
            results.read(uri, asker)


def test_what_cannot_be_kept_is_said() -> None:
    sent = LongResults(MOST, 10_000).fit({"content": [{"type": "text", "text": "x" * 50_000}]}, ME)
    told = json.loads(sent["content"][-1]["text"])["cut"]
    assert told["how"].startswith("the rest was not kept")
    assert "rest" not in told["parts"][0]


async def test_a_host_reads_the_rest(tmp_path: Path, era: Era) -> None:
    """Through the real gateway: by the meta-tool and as a resource, and an address of nothing is an error."""
    place = toolbox_place(tmp_path)
    with served(place.registry, settings=Settings(call_result_tokens=10)) as service:
        async with over_http(f"{service.url}/mcp", era) as host:
            sent: Any = await host.call_tool("use_tool", {"name": "box__fail", "params": {}})
            [part] = json.loads(sent.content[-2].text)["cut"]["parts"]
            assert (sent.is_error, part["sent"]) == (True, "items 0 to 0 of 1")
            page: Any = await host.call_tool("use_tool", {"name": part["rest"]})
            read: Any = await host.read_resource(part["rest"])
            assert page.content[0].text == read.contents[0].text
            assert read.contents[0].mime_type == sent.content[-1].mime_type
            error = error_of(await host.call_tool("use_tool", {"name": "waygraph://results/none"}))
            assert error["code"] == "unknown-name"
